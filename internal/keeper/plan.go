package keeper

import (
	"context"
	"time"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/ledger"
)

// step is one thing to do for a claim. A step can be made any number of times.
type step struct {
	name   string // what a person calls it: "provision", "grant" …
	access string // the access that it is for, or ""
	do     func(k *Keeper, ctx context.Context, e *entry, rec *ledger.Record, access string) error
}

// nextOfBucket is the state machine: what a claim for a bucket needs next, as far
// as the record and what this process has seen tell. No step means that all is as it should be
// until due, the next time that the clock changes something (zero: never).
// Accesses that are stuck are left out.
func nextOfBucket(rec *ledger.Record, seen map[string]seen, stuck map[string]bool, now time.Time) (s step, due time.Time) {
	c := &rec.Claim
	switch {
	case c.Phase == claim.PhaseReleasing:
		return nextOfRelease(rec, stuck), time.Time{}
	case c.Phase == claim.PhaseFailed && c.BucketID == "":
		return step{}, time.Time{}
	case c.BucketID == "":
		return step{name: "provision", do: (*Keeper).provision}, time.Time{}
	}
	for i := range c.Accesses {
		a := &c.Accesses[i]
		if stuck[a.Name] {
			continue
		}
		s, at := nextOfAccess(a, seen[a.Name], now)
		if s.do != nil {
			s.access = a.Name
			return s, time.Time{}
		}
		if !at.IsZero() && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	if c.Phase == claim.PhasePending && len(stuck) == 0 {
		return step{name: "finish", do: (*Keeper).finish}, time.Time{}
	}
	return step{}, due
}

// nextOfAccess is what one access of a claim with a bucket needs.
func nextOfAccess(a *claim.Access, seen seen, now time.Time) (s step, due time.Time) {
	switch {
	case a.Phase == claim.PhaseReleasing:
		return step{name: "revoke", do: (*Keeper).endAccess}, time.Time{}
	case a.Phase == claim.PhaseFailed:
		return step{}, time.Time{}
	case !a.Expiry.IsZero() && !now.Before(a.Expiry):
		return step{name: "expire", do: (*Keeper).expire}, time.Time{}
	case a.Account.ID == "":
		return step{name: "grant", do: (*Keeper).grant}, time.Time{}
	case !seen.published || a.Phase == claim.PhasePending:
		return step{name: "publish", do: (*Keeper).publish}, time.Time{}
	case a.Next != nil && a.Next.ID == "":
		return step{name: "grant", do: (*Keeper).grant}, time.Time{}
	case a.Next != nil:
		return step{name: "rotate", do: (*Keeper).rotate}, time.Time{}
	case !seen.verified:
		return step{name: "verify", do: (*Keeper).verify}, time.Time{}
	}
	due = a.Expiry
	for _, old := range a.Retiring {
		if !now.Before(old.RevokeAt) {
			return step{name: "retire", do: (*Keeper).retire}, time.Time{}
		}
		if due.IsZero() || old.RevokeAt.Before(due) {
			due = old.RevokeAt
		}
	}
	return step{}, due
}

// nextOfRelease ends the accesses one by one, then the bucket if that was
// asked for, then the claim.
func nextOfRelease(rec *ledger.Record, stuck map[string]bool) step {
	c := &rec.Claim
	for i := range c.Accesses {
		if name := c.Accesses[i].Name; !stuck[name] {
			return step{name: "revoke", access: name, do: (*Keeper).endAccess}
		}
	}
	if len(c.Accesses) > 0 {
		return step{}
	}
	if c.Existing == "" && !c.Abandon && (c.DeleteData || c.BucketID == "") {
		return step{name: "deprovision", do: (*Keeper).deprovision}
	}
	return step{name: "forget", do: (*Keeper).forgetClaim}
}
