package keeper

import (
	"context"
	"errors"
	"maps"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/ledger"
)

// callTime bounds one step's calls to a driver, its client's own retries
// included (COSI-089).
const callTime = 60 * time.Second

// provision makes the bucket, or adopts the one that exists.
func (k *Keeper) provision(ctx context.Context, e *entry, rec *ledger.Record, _ string) error {
	c := &rec.Claim
	bucket := cosi.Bucket{ID: c.Existing}
	if c.Existing == "" {
		err := k.drivers.call(ctx, c.Driver, func(ctx context.Context, client *cosi.Client) (err error) {
			bucket, err = client.CreateBucket(ctx, c.BucketName, c.Parameters)
			return err
		})
		if err != nil {
			return err
		}
	}
	return k.result(e, "provision", func(rec *ledger.Record) ([]claim.Event, error) {
		rec.Claim.BucketID, rec.Claim.Protocol, rec.Claim.Message = bucket.ID, protocolOf(bucket.Info), ""
		if c.Existing != "" {
			return []claim.Event{k.event("Adopted", "bucket %s exists already and is used as it is", bucket.ID)}, nil
		}
		return []claim.Event{k.event("Provisioned", "driver %s made bucket %s", c.Driver, bucket.ID)}, nil
	})
}

// finish marks a claim as done once no access is under way any more.
func (k *Keeper) finish(_ context.Context, e *entry, _ *ledger.Record, _ string) error {
	return k.result(e, "finish", func(rec *ledger.Record) ([]claim.Event, error) {
		finishClaim(&rec.Claim)
		return nil, nil
	})
}

// finishClaim sets the phase of a claim that is under way while none of its
// accesses is any more. One that was released meanwhile stays so.
func finishClaim(c *claim.Claim) {
	if c.Phase != claim.PhasePending {
		return
	}
	ready := len(c.Accesses) == 0
	for i := range c.Accesses {
		switch c.Accesses[i].Phase {
		case claim.PhaseReady:
			ready = true
		case claim.PhasePending:
			return
		}
	}
	c.Phase, c.Message = claim.PhaseReady, ""
	if !ready {
		c.Phase, c.Message = claim.PhaseFailed, c.Accesses[0].Message
	}
}

// grant gets the key of an access's account: of the next one while a rotation
// is under way, else of the first.
func (k *Keeper) grant(ctx context.Context, e *entry, rec *ledger.Record, access string) error {
	a := rec.Claim.Access(access)
	account := &a.Account
	if a.Next != nil {
		account = a.Next
	}
	name := account.Name
	grant, err := k.askGrant(ctx, rec, a, name)
	if err != nil {
		return err
	}
	sealed := k.sealGrant(name, grant)
	s := e.seen[access]
	s.verified = true // what it says now need not be asked again
	e.seen[access] = s
	return k.result(e, "grant", func(rec *ledger.Record) ([]claim.Event, error) {
		a := rec.Claim.Access(access)
		account := accountNamed(a, name)
		if account == nil {
			return nil, nil // the access is gone; its end has revoked the key
		}
		account.ID = grant.AccountID
		setSealed(rec, name, sealed)
		a.Message = ""
		return []claim.Event{k.event("Granted", "access %s has account %s", access, grant.AccountID)}, nil
	})
}

// askGrant calls the driver for an account of that name. The same name and
// arguments give the same account (COSI-033, COSI-090), so that it can also be
// used to find out what an earlier call did.
func (k *Keeper) askGrant(ctx context.Context, rec *ledger.Record, a *claim.Access, account string) (grant cosi.Grant, err error) {
	req := cosi.GrantRequest{
		BucketID:       rec.Claim.BucketID,
		Account:        account,
		Authentication: cosipb.AuthenticationType_Key,
		Parameters:     grantParameters(a),
	}
	if a.Authentication == claim.AuthIAM {
		req.Authentication = cosipb.AuthenticationType_IAM
	}
	err = k.drivers.call(ctx, rec.Claim.Driver, func(ctx context.Context, client *cosi.Client) (err error) {
		req.Parameters = withPlace(client, &rec.Claim, req.Parameters)
		grant, err = client.GrantAccess(ctx, req)
		return err
	})
	return grant, err
}

// withPlace adds to a call's context where the bucket is, for a driver of the
// draft: there a bucket's identity is its name, region and zone (DRAFT-020), and
// every call must say all three.
func withPlace(client *cosi.Client, c *claim.Claim, context map[string]string) map[string]string {
	if client.Protocol() != cosi.ProtocolDraft {
		return context
	}
	place := map[string]string{}
	for _, key := range []string{"region", "zone"} {
		if v := c.Parameters[key]; v != "" {
			place[key] = v
		}
	}
	if len(place) == 0 {
		return context
	}
	maps.Copy(place, context)
	return place
}

// grantParameters are what the driver is told of an access. A default is left
// out, since a vendor's driver need not know our words.
func grantParameters(a *claim.Access) map[string]string {
	p := maps.Clone(a.Parameters)
	if p == nil {
		p = map[string]string{}
	}
	if a.Mode != claim.ModeReadWrite {
		p["mode"] = string(a.Mode)
	}
	if a.Prefix != "" {
		p["prefix"] = a.Prefix
	}
	if !a.Expiry.IsZero() {
		p["expiry"] = a.Expiry.UTC().Format(time.RFC3339)
	}
	if len(p) == 0 {
		return nil
	}
	return p
}

// rotate publishes the key of the next account and puts it in the place of the
// one in use, which works on until its grace is over.
func (k *Keeper) rotate(ctx context.Context, e *entry, rec *ledger.Record, access string) error {
	a := rec.Claim.Access(access)
	digest, err := k.writeAccess(rec, a, *a.Next)
	if err != nil {
		return err
	}
	return k.result(e, "rotate", func(rec *ledger.Record) ([]claim.Event, error) {
		a := rec.Claim.Access(access)
		if a == nil || a.Next == nil {
			return nil, nil
		}
		old := a.Account
		old.RevokeAt = k.cfg.Now().Add(time.Duration(a.Grace)).UTC()
		a.Retiring = append(a.Retiring, old)
		a.Account, a.Next, a.Grace, a.Message = *a.Next, nil, 0, ""
		delete(rec.Sealed, old.Name)
		setPublished(rec, access, digest)
		return []claim.Event{k.event("Rotated", "access %s has account %s; %s works until %s",
			access, a.Account.ID, old.ID, old.RevokeAt.Format(time.RFC3339))}, nil
	})
}

// retire revokes the accounts whose grace is over.
func (k *Keeper) retire(ctx context.Context, e *entry, rec *ledger.Record, access string) error {
	now := k.cfg.Now()
	done := map[string]bool{}
	for _, old := range rec.Claim.Access(access).Retiring {
		if now.Before(old.RevokeAt) {
			continue
		}
		if err := k.revokeAccount(ctx, rec, nil, old); err != nil {
			return err
		}
		done[old.ID] = true
	}
	return k.result(e, "retire", func(rec *ledger.Record) (events []claim.Event, _ error) {
		a := rec.Claim.Access(access)
		if a == nil {
			return nil, nil
		}
		kept := a.Retiring[:0]
		for _, old := range a.Retiring {
			if !done[old.ID] {
				kept = append(kept, old)
				continue
			}
			events = append(events, k.event("Revoked", "account %s of access %s, replaced by %s", old.ID, access, a.Account.ID))
		}
		a.Retiring = kept
		return events, nil
	})
}

// endAccess unpublishes an access, revokes all its accounts and forgets it.
func (k *Keeper) endAccess(ctx context.Context, e *entry, rec *ledger.Record, access string) error {
	if err := k.endAccounts(ctx, e, rec, access); err != nil {
		return err
	}
	return k.result(e, "revoke", func(rec *ledger.Record) ([]claim.Event, error) {
		c := &rec.Claim
		var kept []claim.Access
		for i := range c.Accesses {
			if c.Accesses[i].Name != access {
				kept = append(kept, c.Accesses[i])
				continue
			}
			for _, account := range accountsOf(&c.Accesses[i]) {
				delete(rec.Sealed, account.Name)
			}
		}
		c.Accesses = kept
		delete(rec.Published, access)
		return []claim.Event{k.event("Revoked", "access %s", access)}, nil
	})
}

// expire ends the accounts of an access whose time is over, but keeps its name.
func (k *Keeper) expire(ctx context.Context, e *entry, rec *ledger.Record, access string) error {
	if err := k.endAccounts(ctx, e, rec, access); err != nil {
		return err
	}
	return k.result(e, "expire", func(rec *ledger.Record) ([]claim.Event, error) {
		a := rec.Claim.Access(access)
		if a == nil || a.Phase == claim.PhaseReleasing {
			return nil, nil // its end finds the accounts dead
		}
		for _, account := range accountsOf(a) {
			delete(rec.Sealed, account.Name)
		}
		a.Phase, a.Message = claim.PhaseFailed, "expired at "+a.Expiry.Format(time.RFC3339)
		a.Account.ID, a.Next, a.Retiring, a.Directory, a.Device = "", nil, nil, "", ""
		delete(rec.Published, access)
		return []claim.Event{k.warning("Expired", "access %s %s", access, a.Message)}, nil
	})
}

// endAccounts takes the files away first, so that no reader finds a key that
// is dead already, then revokes.
func (k *Keeper) endAccounts(ctx context.Context, e *entry, rec *ledger.Record, access string) error {
	a := rec.Claim.Access(access)
	if err := k.unpublish(rec.Claim.Name, access); err != nil {
		return err
	}
	delete(e.seen, access)
	if rec.Claim.Abandon {
		return nil
	}
	for _, account := range accountsOf(a) {
		if err := k.revokeAccount(ctx, rec, a, account); err != nil {
			return err
		}
	}
	return nil
}

// revokeAccount ends one account. Of one whose grant was never answered it
// first asks the id, by granting again; a is nil where the id is known.
func (k *Keeper) revokeAccount(ctx context.Context, rec *ledger.Record, a *claim.Access, account claim.Account) error {
	c := &rec.Claim
	if account.ID == "" {
		if c.BucketID == "" || a.Phase == claim.PhaseFailed || !a.Expiry.IsZero() && !k.cfg.Now().Before(a.Expiry) {
			return nil // nothing was ever granted, or it is dead by itself
		}
		grant, err := k.askGrant(ctx, rec, a, account.Name)
		if cosi.Terminal(err) {
			return nil // the driver never granted it
		}
		if err != nil {
			return err
		}
		account.ID = grant.AccountID
	}
	err := k.drivers.call(ctx, c.Driver, func(ctx context.Context, client *cosi.Client) error {
		return client.RevokeAccess(ctx, c.BucketID, account.ID, withPlace(client, c, nil))
	})
	if status.Code(err) == codes.NotFound {
		return nil // a driver should answer OK; gone is gone
	}
	return err
}

// deprovision deletes the bucket of a claim that is released, and the claim.
// The bucket of a claim that never became ready holds nobody's data and goes in
// any case; its id is asked by creating it again (COSI-090, COSI-091).
func (k *Keeper) deprovision(ctx context.Context, e *entry, rec *ledger.Record, _ string) error {
	c := &rec.Claim
	err := k.drivers.call(ctx, c.Driver, func(ctx context.Context, client *cosi.Client) error {
		id := c.BucketID
		if id == "" {
			bucket, err := client.CreateBucket(ctx, c.BucketName, c.Parameters)
			if cosi.Terminal(err) {
				return nil // never made
			}
			if err != nil {
				return err
			}
			id = bucket.ID
		}
		err := client.DeleteBucket(ctx, id, withPlace(client, c, nil))
		if status.Code(err) == codes.FailedPrecondition && c.ForceDelete {
			err = client.DeleteBucket(ctx, id, withPlace(client, c, map[string]string{"force": "true"}))
		}
		if status.Code(err) == codes.NotFound {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return k.forgetClaim(ctx, e, rec, "")
}

// forgetClaim is the end of a claim.
func (k *Keeper) forgetClaim(_ context.Context, e *entry, rec *ledger.Record, _ string) error {
	at("forget:result")
	if err := k.forget(e); err != nil {
		return err
	}
	k.log.Info("claim released", "claim", e.name, "bucket", rec.Claim.BucketID, "dataDeleted", rec.Claim.DeleteData)
	return nil
}

// permanent marks an error that trying again cannot mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// failed records why a step failed and says how long to wait before the next
// try; zero is not at all, because the record now says so. told says that the
// record tells already what the driver answered.
func (k *Keeper) failed(e *entry, s step, err error, told bool) time.Duration {
	if k.ctx.Err() != nil || errors.Is(err, errGone) {
		return mostRetry // closing, or gone: nothing will come of it
	}
	message := s.name + ": " + status.Convert(err).Message()
	if _, is := status.FromError(err); !is {
		message = s.name + ": " + err.Error()
	}
	refused := cosi.Terminal(err) || errors.As(err, new(permanent))
	if refused && (s.name == "provision" || s.access != "" && s.name != "revoke" && s.name != "retire" && s.name != "expire") {
		if k.refused(e, s, message) == nil {
			return 0
		}
	}
	pause := min(leastRetry<<min(e.fails, 16), mostRetry)
	k.log.Warn("a step failed and will be tried again", "claim", e.name, "access", s.access, "step", s.name, "error", message, "in", pause)
	if !told || status.Code(err) != codes.DeadlineExceeded {
		k.note(e, s, message)
	}
	return pause
}

// refused marks what a driver will never do as failed, for a person to mend.
// What is on its way out stays so: its end is what is wanted now. An account
// that a failed rotation got is revoked.
func (k *Keeper) refused(e *entry, s step, message string) error {
	k.log.Warn("a step was refused", "claim", e.name, "access", s.access, "step", s.name, "error", message)
	return k.update(e, func(rec *ledger.Record) ([]claim.Event, error) {
		c := &rec.Claim
		event := k.warning("Refused", "%s", message)
		a := c.Access(s.access)
		switch {
		case c.Phase == claim.PhaseReleasing, a != nil && a.Phase == claim.PhaseReleasing:
		case s.access == "":
			c.Phase, c.Message = claim.PhaseFailed, message
		case a == nil:
		case a.Next != nil: // the key in use goes on working
			if next := *a.Next; next.ID != "" {
				next.RevokeAt = k.cfg.Now().UTC()
				a.Retiring = append(a.Retiring, next)
				delete(rec.Sealed, next.Name)
			}
			a.Message, a.Next, a.Grace = message, nil, 0
		default:
			a.Phase, a.Message = claim.PhaseFailed, message
		}
		return []claim.Event{event}, nil
	})
}

// note puts a message on the record, unless it says so already.
func (k *Keeper) note(e *entry, s step, message string) {
	rec := e.rec.Load()
	if rec == nil || noted(&rec.Claim, s.access) == message {
		return
	}
	err := k.update(e, func(rec *ledger.Record) ([]claim.Event, error) {
		if a := rec.Claim.Access(s.access); a != nil {
			a.Message = message
		} else {
			rec.Claim.Message = message
		}
		return []claim.Event{k.warning("Waiting", "%s", message)}, nil
	})
	if err != nil && !errors.Is(err, errGone) {
		k.log.Error("the ledger cannot be written", "claim", e.name, "error", err)
	}
}

func noted(c *claim.Claim, access string) string {
	if a := c.Access(access); a != nil {
		return a.Message
	}
	return c.Message
}

// accountsOf are all accounts an access may have at the driver.
func accountsOf(a *claim.Access) []claim.Account {
	list := []claim.Account{a.Account}
	if a.Next != nil {
		list = append(list, *a.Next)
	}
	return append(list, a.Retiring...)
}

func accountNamed(a *claim.Access, name string) *claim.Account {
	switch {
	case a == nil:
		return nil
	case a.Account.Name == name:
		return &a.Account
	case a.Next != nil && a.Next.Name == name:
		return a.Next
	}
	return nil
}
