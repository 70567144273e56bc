package keeper

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"time"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/creds"
	"github.com/fairlead/fairlead/internal/ledger"
)

// What a call did, as the API says it.
const (
	Created = "created"
	Exists  = "exists"
	Changed = "changed"
)

// Claim states a claim. When it returns, the intent is durable and is being
// worked on; Wait tells when it is fulfilled.
func (k *Keeper) Claim(req claim.Request) (result string, err error) {
	now := k.cfg.Now()
	if err := req.Check(now); err != nil {
		return "", err
	}
	if old, err := k.entry(req.Name); err == nil {
		return k.claimAgain(old, &req)
	}
	e, err := k.newClaim(&req, now)
	if err != nil {
		return "", err
	}
	e.write.Lock() // nobody may change the claim before it is durable
	k.mu.Lock()
	if old := k.claims[req.Name]; old != nil {
		k.mu.Unlock()
		return k.claimAgain(old, &req)
	}
	k.claims[req.Name] = e
	k.mu.Unlock()
	at("intent:begin")
	rec := e.rec.Load()
	err = k.cfg.Ledger.PutClaim(rec, k.claimed(rec))
	if err != nil {
		k.mu.Lock()
		delete(k.claims, req.Name)
		k.mu.Unlock()
		e.store(nil)
	}
	e.write.Unlock()
	if err != nil {
		return "", err
	}
	at("intent:end")
	k.kick(e)
	if req.Kind == claim.KindDevice {
		k.followDevices()
	}
	return Created, nil
}

// claimed is the first event of a claim.
func (k *Keeper) claimed(rec *ledger.Record) claim.Event {
	c := &rec.Claim
	if c.Kind == claim.KindDevice {
		return k.event("Claimed", "what fits %s", c.Device.Match)
	}
	return k.event("Claimed", "class %s, driver %s", c.Class, c.Driver)
}

// newClaim makes a claim that nobody has made yet.
func (k *Keeper) newClaim(req *claim.Request, now time.Time) (*entry, error) {
	if req.Kind == claim.KindDevice {
		return k.newDevice(req, now)
	}
	rec, err := k.newRecord(req, now)
	if err != nil {
		return nil, err
	}
	return newEntry(rec), nil
}

// newRecord makes the record of a claim for a bucket.
func (k *Keeper) newRecord(req *claim.Request, now time.Time) (*ledger.Record, error) {
	class, err := k.classes.bucketClass(req.Class)
	if err != nil {
		return nil, err
	}
	if req.Driver != "" {
		class.Driver = req.Driver
	}
	d, err := k.drivers.get(class.Driver)
	if err != nil {
		return nil, err
	}
	if req.DeletionPolicy != "" {
		class.DeletionPolicy = req.DeletionPolicy
	}
	parameters := class.Parameters
	if len(req.Parameters) > 0 {
		parameters = maps.Clone(class.Parameters)
		if parameters == nil {
			parameters = map[string]string{}
		}
		maps.Copy(parameters, req.Parameters)
	}
	if err := claim.CheckParameters(parameters); err != nil {
		return nil, err
	}
	c := claim.Claim{
		Kind: req.Kind, Name: req.Name, UID: claim.NewUID(), CreatedAt: now.UTC(),
		Class: req.Class, Driver: d.rec.Name, DeletionPolicy: class.DeletionPolicy,
		Parameters: parameters, Existing: req.Existing,
		Phase: claim.PhasePending, Accesses: []claim.Access{},
	}
	if c.Existing == "" {
		c.BucketName = claim.BucketName(c.Name, c.UID)
	}
	if req.Access != nil {
		a, err := k.newAccess(&c, *req.Access, now)
		if err != nil {
			return nil, err
		}
		c.Accesses = append(c.Accesses, a)
	}
	return &ledger.Record{Claim: c, Asked: req.Asked()}, nil
}

// newAccess makes an access of a checked spec, with what its class says.
func (k *Keeper) newAccess(c *claim.Claim, spec claim.AccessSpec, now time.Time) (claim.Access, error) {
	if err := claim.CheckDeviceName(c.Name, spec.Name); err != nil {
		return claim.Access{}, err
	}
	if spec.Class != "" {
		class, err := k.classes.accessClass(spec.Class)
		if err != nil {
			return claim.Access{}, err
		}
		d, err := k.drivers.get(class.Driver)
		if err != nil {
			return claim.Access{}, err
		}
		if d.rec.Name != c.Driver {
			return claim.Access{}, claim.Errorf(claim.CodeInvalid, "bucket access class %q is for driver %q, but claim %q has driver %q", class.Name, d.rec.Name, c.Name, c.Driver)
		}
		spec.Authentication = class.Authentication
		parameters := maps.Clone(class.Parameters)
		if parameters == nil {
			parameters = map[string]string{}
		}
		maps.Copy(parameters, spec.Parameters)
		spec.Parameters = parameters
		if err := claim.CheckParameters(parameters); err != nil {
			return claim.Access{}, err
		}
	}
	if err := creds.CheckTemplates(spec.Templates); err != nil {
		return claim.Access{}, claim.Errorf(claim.CodeInvalid, "%v", err)
	}
	uid := claim.NewUID()
	return claim.Access{
		AccessSpec: spec, UID: uid, CreatedAt: now.UTC(), Phase: claim.PhasePending,
		Account: claim.Account{Name: claim.AccountName(uid, 1), Generation: 1, CreatedAt: now.UTC()},
	}, nil
}

// claimAgain answers a claim of a name that exists: the same again is fine,
// and has what failed tried again.
func (k *Keeper) claimAgain(e *entry, req *claim.Request) (string, error) {
	e.write.Lock() // a first statement under way is durable after this
	rec := e.rec.Load()
	e.write.Unlock()
	if rec == nil {
		return "", claim.Errorf(claim.CodeConflict, "claim %q is just being released", req.Name).WithHint("try again")
	}
	c := &rec.Claim
	if c.Phase == claim.PhaseReleasing {
		return "", claim.Errorf(claim.CodeConflict, "claim %q is being released", req.Name).WithHint("wait for it: fairlead release %s", req.Name)
	}
	same := bytes.Equal(rec.Asked, req.Asked())
	if req.Access != nil {
		a := c.Access(req.Access.Name)
		same = same && a != nil && k.sameAccess(a, req.Access)
	}
	if !same {
		err := claim.Errorf(claim.CodeConflict, "there is a claim %q already, with other arguments", req.Name)
		if c.Phase == claim.PhaseFailed {
			return "", err.WithHint("it failed: let it go first: fairlead release %s", req.Name)
		}
		return "", err.WithHint("look at it with: fairlead describe %s", req.Name)
	}
	if err := k.retry(e); err != nil {
		return "", err
	}
	return Exists, nil
}

// sameAccess reports whether a spec asks for what an access is. The class's
// parameters were laid under the spec's when the access was made.
func (k *Keeper) sameAccess(a *claim.Access, spec *claim.AccessSpec) bool {
	want, have := *spec, a.AccessSpec
	if class, err := k.classes.accessClass(want.Class); want.Class != "" && err == nil {
		parameters := maps.Clone(class.Parameters)
		maps.Copy(parameters, want.Parameters)
		want.Parameters, want.Authentication = parameters, class.Authentication
	}
	if len(want.Parameters) == 0 && len(have.Parameters) == 0 {
		want.Parameters, have.Parameters = nil, nil
	}
	return want.Same(&have)
}

// retry has what failed tried again.
func (k *Keeper) retry(e *entry) error {
	if rec := e.rec.Load(); rec == nil || !resetFailed(rec.Clone()) {
		k.kick(e)
		return nil
	}
	err := k.update(e, func(rec *ledger.Record) ([]claim.Event, error) {
		resetFailed(rec)
		return nil, nil
	})
	k.kick(e)
	return err
}

// resetFailed sets what failed back to pending and says whether anything had.
func resetFailed(rec *ledger.Record) (any bool) {
	c := &rec.Claim
	if c.Phase == claim.PhaseFailed {
		c.Phase, c.Message, any = claim.PhasePending, "", true
	}
	for i := range c.Accesses {
		if a := &c.Accesses[i]; a.Phase == claim.PhaseFailed {
			a.Phase, a.Message, any = claim.PhasePending, "", true
		}
	}
	return any
}

// Get returns one claim.
func (k *Keeper) Get(name string) (claim.Claim, error) {
	e, err := k.entry(name)
	if err != nil {
		return claim.Claim{}, err
	}
	rec := e.rec.Load()
	if rec == nil {
		return claim.Claim{}, claim.Errorf(claim.CodeNotFound, "there is no claim %q", name)
	}
	c := shown(rec)
	if c.Device != nil {
		d := *c.Device
		d.Stale = staleUsers(d.Former)
		c.Device = &d
	}
	return c, nil
}

// List returns all claims by name.
func (k *Keeper) List() []claim.Claim {
	list := []claim.Claim{}
	for _, e := range k.entries() {
		if rec := e.rec.Load(); rec != nil {
			list = append(list, shown(rec))
		}
	}
	return list
}

// Count is the number of claims by phase.
func (k *Keeper) Count() map[string]int {
	n := map[string]int{}
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, e := range k.claims {
		if rec := e.rec.Load(); rec != nil {
			n[string(rec.Claim.Phase)]++
		}
	}
	return n
}

// Settled reports whether every claim that was in the ledger at the start has
// been looked at since: its files and its driver's answer are as they should be,
// or its message says why not. Claims of a driver that somebody else has to
// bring up do not wait for it.
func (k *Keeper) Settled() bool { return k.unlooked.Load() == 0 }

// shown is the claim as the API shows it, with the leases that are live.
func shown(rec *ledger.Record) claim.Claim {
	c := rec.Claim
	c.Leases = liveLeases(c.Leases)
	return c
}

// Events returns what is remembered of a claim, oldest first.
func (k *Keeper) Events(name string) ([]claim.Event, error) {
	if _, err := k.entry(name); err != nil {
		return nil, err
	}
	events, err := k.cfg.Ledger.Events(name)
	if events == nil {
		events = []claim.Event{}
	}
	return events, err
}

// Wait waits until the claim and the access, if one is named, are no longer
// under way. It returns the claim as it then is, with an error if the driver
// refused; when ctx ends first, with a timeout.
func (k *Keeper) Wait(ctx context.Context, name, access string) (claim.Claim, error) {
	return k.waitFor(ctx, name, func(c *claim.Claim) (bool, error) {
		if c.Phase == claim.PhaseFailed {
			return true, claim.Errorf(claim.CodeDriver, "claim %q: %s", name, c.Message)
		}
		a := c.Access(access)
		switch {
		case c.Phase == claim.PhaseReleasing:
			return true, claim.Errorf(claim.CodeConflict, "claim %q is being released", name)
		case access == "":
			return c.Phase == claim.PhaseReady, nil
		case a == nil:
			return true, claim.Errorf(claim.CodeNotFound, "claim %q has no access %q", name, access)
		case a.Phase == claim.PhaseFailed:
			return true, claim.Errorf(claim.CodeDriver, "access %q of claim %q: %s", access, name, a.Message)
		}
		return c.Phase == claim.PhaseReady && a.Phase == claim.PhaseReady && a.Next == nil, nil
	})
}

// waitFor watches a claim until done says so or fails, or ctx ends.
func (k *Keeper) waitFor(ctx context.Context, name string, done func(*claim.Claim) (bool, error)) (claim.Claim, error) {
	e, err := k.entry(name)
	if err != nil {
		return claim.Claim{}, err
	}
	for {
		rec, changed := e.watch()
		if rec == nil {
			return claim.Claim{}, errGone
		}
		if ok, err := done(&rec.Claim); ok {
			return shown(rec), err
		}
		select {
		case <-changed:
		case <-k.ctx.Done():
			return shown(rec), errStopping
		case <-ctx.Done():
			return shown(rec), notYet(&rec.Claim)
		}
	}
}

// notYet is the error of a wait that took too long: what it waits for.
func notYet(c *claim.Claim) error {
	why := c.Message
	for i := range c.Accesses {
		if why == "" {
			why = c.Accesses[i].Message
		}
	}
	if why != "" {
		why = ": " + why
	}
	return claim.Errorf(claim.CodeTimeout, "claim %q is not ready yet%s", c.Name, why).
		WithHint("it is still being worked on; see: fairlead describe %s", c.Name)
}

// Credentials reads the credential files of an access.
func (k *Keeper) Credentials(name, access string) (claim.Credentials, error) {
	e, err := k.entry(name)
	if err != nil {
		return claim.Credentials{}, err
	}
	rec := e.rec.Load()
	if rec == nil {
		return claim.Credentials{}, claim.Errorf(claim.CodeNotFound, "there is no claim %q", name)
	}
	if err := bucketsOnly(&rec.Claim); err != nil {
		return claim.Credentials{}, err
	}
	a := rec.Claim.Access(access)
	switch {
	case a == nil:
		return claim.Credentials{}, claim.Errorf(claim.CodeNotFound, "claim %q has no access %q", name, access).
			WithHint("see what it has: fairlead access list %s", name)
	case a.Phase != claim.PhaseReady:
		why := string(a.Phase)
		if a.Message != "" {
			why += ": " + a.Message
		}
		return claim.Credentials{}, claim.Errorf(claim.CodeTimeout, "access %q of claim %q is not ready (%s)", access, name, why)
	}
	in, err := k.credsInput(rec, a, a.Account)
	if err != nil {
		return claim.Credentials{}, err
	}
	files, err := creds.Render(in)
	return claim.Credentials{Directory: k.credsDir(name, access), Files: files}, err
}

// WaitGone waits until the claim is forgotten.
func (k *Keeper) WaitGone(ctx context.Context, name string) (claim.Claim, error) {
	c, err := k.waitFor(ctx, name, func(*claim.Claim) (bool, error) { return false, nil })
	if errors.Is(err, errGone) || claim.CodeOf(err) == claim.CodeNotFound {
		return claim.Claim{Name: name}, nil
	}
	return c, err
}
