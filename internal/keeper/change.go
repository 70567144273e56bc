package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/ledger"
	"github.com/fairlead/fairlead/internal/mount"
)

// AddAccess adds an access to a claim. The same again is fine.
func (k *Keeper) AddAccess(name string, spec claim.AccessSpec) (result string, err error) {
	now := k.cfg.Now()
	if err := spec.Check(now); err != nil {
		return "", err
	}
	result = Created
	err = k.change(name, func(rec *ledger.Record) ([]claim.Event, error) {
		c := &rec.Claim
		if err := bucketsOnly(c); err != nil {
			return nil, err
		}
		if a := c.Access(spec.Name); a != nil {
			if a.Phase == claim.PhaseReleasing || !k.sameAccess(a, &spec) {
				return nil, claim.Errorf(claim.CodeConflict, "claim %q has an access %q already, with other arguments", name, spec.Name).
					WithHint("fairlead access revoke %s", claim.DeviceName(name, spec.Name))
			}
			result = Exists
			return nil, errUnchanged
		}
		a, err := k.newAccess(c, spec, now)
		if err != nil {
			return nil, err
		}
		c.Accesses = append(c.Accesses, a)
		return []claim.Event{k.event("AccessAdded", "access %s, %s", spec.Name, spec.Mode)}, nil
	})
	return result, err
}

// RotateAccess begins to replace the key of an access. The old one works until
// grace has passed since the new one was published. It returns the number of
// the new key, for WaitRotated.
func (k *Keeper) RotateAccess(name, access string, grace time.Duration) (generation int, err error) {
	if grace < 0 {
		return 0, claim.Errorf(claim.CodeInvalid, "the grace %s is negative", grace)
	}
	err = k.changeAccess(name, access, func(a *claim.Access) ([]claim.Event, error) {
		if a.Next != nil {
			return nil, claim.Errorf(claim.CodeConflict, "a rotation of access %q of claim %q is under way", access, name).
				WithHint("fairlead describe %s", name)
		}
		if a.Phase != claim.PhaseReady {
			return nil, claim.Errorf(claim.CodeConflict, "access %q of claim %q is not ready (%s)", access, name, a.Phase)
		}
		generation = a.Account.Generation + 1
		for _, old := range a.Retiring { // a name that is about to be revoked is not used again
			generation = max(generation, old.Generation+1)
		}
		a.Next = &claim.Account{Name: claim.AccountName(a.UID, generation), Generation: generation, CreatedAt: k.cfg.Now().UTC()}
		a.Grace = claim.Duration(grace)
		return []claim.Event{k.event("Rotating", "access %s, the old key works on for %s", access, grace)}, nil
	})
	return generation, err
}

// WaitRotated waits until the key of that number is published and those whose
// grace is over are dead, or the driver has refused it.
func (k *Keeper) WaitRotated(ctx context.Context, name, access string, generation int) (claim.Claim, error) {
	return k.waitFor(ctx, name, func(c *claim.Claim) (bool, error) {
		a := c.Access(access)
		switch {
		case a == nil:
			return true, claim.Errorf(claim.CodeNotFound, "access %q of claim %q is gone", access, name)
		case a.Account.Generation >= generation:
			now := k.cfg.Now()
			return !slices.ContainsFunc(a.Retiring, func(old claim.Account) bool { return !now.Before(old.RevokeAt) }), nil
		case a.Next == nil || a.Phase != claim.PhaseReady:
			return true, claim.Errorf(claim.CodeDriver, "access %q of claim %q keeps its key: %s", access, name, a.Message)
		}
		return false, nil
	})
}

// RevokeAccess begins to end an access.
func (k *Keeper) RevokeAccess(name, access string) error {
	return k.changeAccess(name, access, func(a *claim.Access) ([]claim.Event, error) {
		if a.Phase == claim.PhaseReleasing {
			return nil, errUnchanged
		}
		a.Phase, a.Message = claim.PhaseReleasing, ""
		return []claim.Event{k.event("Revoking", "access %s", access)}, nil
	})
}

// WaitRevoked waits until the access is gone.
func (k *Keeper) WaitRevoked(ctx context.Context, name, access string) (claim.Claim, error) {
	return k.waitFor(ctx, name, func(c *claim.Claim) (bool, error) { return c.Access(access) == nil, nil })
}

// Release begins to let a claim go. It refuses a claim that something uses,
// unless forced.
func (k *Keeper) Release(name string, req claim.ReleaseRequest) error {
	if !req.Force {
		if err := k.refuseUsed(name); err != nil {
			return err
		}
	}
	err := k.changeAny(name, func(rec *ledger.Record) ([]claim.Event, error) {
		c := &rec.Claim
		if !req.Force && c.Phase != claim.PhaseReleasing {
			if err := refuseLeased(name, liveLeases(c.Leases)); err != nil {
				return nil, err // it came since the look before
			}
		}
		if c.Kind == claim.KindDevice {
			return k.releaseDevice(c, req)
		}
		if req.Abandon && req.DeleteData != nil && *req.DeleteData {
			return nil, claim.Errorf(claim.CodeInvalid, "a claim that is abandoned cannot have its data deleted: the driver is not asked")
		}
		deleteData := c.DeletionPolicy == claim.Delete
		if req.DeleteData != nil {
			deleteData = *req.DeleteData
		}
		if deleteData && c.Existing != "" {
			if req.DeleteData != nil {
				return nil, claim.Errorf(claim.CodeInvalid, "bucket %s existed before claim %q and is never deleted by it", c.Existing, name).
					WithHint("fairlead release %s", name)
			}
			deleteData = false
		}
		again := c.Phase == claim.PhaseReleasing
		if again && req.DeleteData == nil && req.Abandon == c.Abandon {
			return nil, errUnchanged
		}
		c.Phase, c.Message, c.Abandon = claim.PhaseReleasing, "", req.Abandon
		if req.Abandon {
			return []claim.Event{k.warning("Releasing", "driver %s is not asked: its keys and its bucket %s stay as they are", c.Driver, c.BucketID)}, nil
		}
		c.DeleteData, c.ForceDelete = deleteData, req.DeleteData != nil && deleteData
		what := "the data of bucket %s is kept"
		if deleteData {
			what = "bucket %s is deleted"
		}
		return []claim.Event{k.event("Releasing", what, c.BucketID)}, nil
	})
	if err == nil {
		k.log.Info("claim is being released", "claim", name)
	}
	return err
}

// refuseUsed is an error if a process holds a lease on the claim, or has its
// credentials mounted.
func (k *Keeper) refuseUsed(name string) error {
	c, err := k.Get(name)
	if err != nil || c.Phase == claim.PhaseReleasing {
		return err
	}
	if err := refuseLeased(name, c.Leases); err != nil {
		return err
	}
	for i := range c.Accesses {
		users, err := mount.Users(k.credsDir(name, c.Accesses[i].Name))
		if err != nil {
			return fmt.Errorf("look for users of claim %q: %w", name, err)
		}
		for _, u := range users {
			return claim.Errorf(claim.CodeInUse, "claim %q is in use by process %d (%s), in a container", name, u.PID, u.Comm).
				WithHint("stop that container first, or: fairlead release --force %s", name)
		}
	}
	return nil
}

func refuseLeased(name string, leases []claim.Lease) error {
	for _, l := range leases {
		return claim.Errorf(claim.CodeInUse, "claim %q is in use by %s, process %d", name, l.Holder, l.PID).
			WithHint("end that process first, or: fairlead release --force %s", name)
	}
	return nil
}

// Lease records that a process uses the claim, which then is not released
// while the process lives.
func (k *Keeper) Lease(name, holder string, pid int) error {
	if err := claim.CheckString("the holder", holder); err != nil {
		return err
	}
	started, err := startTime(pid)
	if err != nil {
		return claim.Errorf(claim.CodeInvalid, "process %d is gone", pid)
	}
	lease := claim.Lease{Holder: holder, PID: pid, Started: started}
	return k.change(name, func(rec *ledger.Record) ([]claim.Event, error) {
		rec.Claim.Leases = append(liveLeases(rec.Claim.Leases), lease)
		return nil, nil
	})
}

// liveLeases are the leases whose processes still run.
func liveLeases(leases []claim.Lease) (live []claim.Lease) {
	for _, l := range leases {
		if started, err := startTime(l.PID); err == nil && started == l.Started {
			live = append(live, l)
		}
	}
	return live
}

// startTime is when a process started, in clock ticks since boot: with the
// process id it names one process for good. See proc_pid_stat(5), field 22.
func startTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("process %d has a stat file of %d fields", pid, len(fields))
	}
	return strconv.ParseUint(string(fields[19]), 10, 64)
}

// errUnchanged ends a change that finds nothing to do.
var errUnchanged = errors.New("unchanged")

// change changes a claim that is not being released, durably, and has it
// reconciled.
func (k *Keeper) change(name string, fn func(*ledger.Record) ([]claim.Event, error)) error {
	return k.changeAny(name, func(rec *ledger.Record) ([]claim.Event, error) {
		if rec.Claim.Phase == claim.PhaseReleasing {
			return nil, claim.Errorf(claim.CodeConflict, "claim %q is being released", name)
		}
		return fn(rec)
	})
}

func (k *Keeper) changeAny(name string, fn func(*ledger.Record) ([]claim.Event, error)) error {
	e, err := k.entry(name)
	if err != nil {
		return err
	}
	at("intent:begin")
	err = k.update(e, fn)
	at("intent:end")
	switch {
	case errors.Is(err, errUnchanged):
		err = nil
	case errors.Is(err, errGone):
		return claim.Errorf(claim.CodeNotFound, "there is no claim %q", name)
	}
	if err == nil {
		k.kick(e)
	}
	return err
}

// changeAccess changes one access of a claim.
func (k *Keeper) changeAccess(name, access string, fn func(*claim.Access) ([]claim.Event, error)) error {
	return k.change(name, func(rec *ledger.Record) ([]claim.Event, error) {
		if err := bucketsOnly(&rec.Claim); err != nil {
			return nil, err
		}
		a := rec.Claim.Access(access)
		if a == nil {
			if err := claim.CheckName("an access", access); err != nil {
				return nil, err
			}
			return nil, claim.Errorf(claim.CodeNotFound, "claim %q has no access %q", name, access).
				WithHint("see what it has: fairlead access list %s", name)
		}
		return fn(a)
	})
}
