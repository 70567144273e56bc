package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/control"
	"github.com/fairlead/fairlead/internal/kv"
)

// tenant is one name that claims come and go by, and all that the daemon and
// the store have acknowledged of it.
type tenant struct {
	h    *host
	name string
	rng  *rand.Rand

	claim    claim.Claim // as last acknowledged; Name is "" for none
	keys     map[string]key
	objects  map[string]string
	dead     []key
	retained []string // ids of buckets whose data was to be kept
	keeping  string   // the one whose release is asked for
	unsure   bool     // the last change was not answered
	puts     int
}

// act changes something at random. It says whether that was acknowledged; an
// error that is not the daemon's absence is a defect.
func (n *tenant) act(ctx context.Context) (acknowledged bool) {
	c := n.h.client()
	if n.claim.Name == "" {
		req := claim.Request{Name: n.name}
		return n.changed(func() (control.ClaimResponse, error) { return c.Claim(ctx, req, patience) })
	}
	viewer := n.claim.Access("viewer")
	switch p := n.rng.IntN(10); {
	case p < 3:
		return n.put(ctx)
	case p < 6:
		req := control.RotateRequest{}
		return n.changed(func() (control.ClaimResponse, error) {
			return control.ClaimResponse{}, second(c.RotateAccess(ctx, n.name, claim.DefaultName, req, patience))
		})
	case p < 8 && viewer == nil:
		spec := claim.AccessSpec{Name: "viewer", Mode: claim.ModeReadOnly}
		return n.changed(func() (control.ClaimResponse, error) { return c.AddAccess(ctx, n.name, spec, patience) })
	case p < 8:
		return n.changed(func() (control.ClaimResponse, error) {
			return control.ClaimResponse{}, c.RevokeAccess(ctx, n.name, "viewer", patience)
		})
	default:
		return n.release(ctx, c, n.rng.IntN(2) == 0)
	}
}

func second[T any](_ T, err error) error { return err }

// changed makes a change of the claim and learns what came of it.
func (n *tenant) changed(change func() (control.ClaimResponse, error)) bool {
	n.unsure = true
	if _, err := change(); !n.answered(err) {
		return false
	}
	now, err := n.h.client().Get(context.Background(), n.name)
	if !n.answered(err) {
		return false
	}
	n.adopt(now)
	return true
}

func (n *tenant) release(ctx context.Context, c *control.Client, deleteData bool) bool {
	n.unsure = true
	if !deleteData {
		n.keeping = n.claim.BucketID // so too if nobody answers
	}
	if !n.answered(c.Release(ctx, n.name, claim.ReleaseRequest{DeleteData: &deleteData}, patience)) {
		return false
	}
	n.adopt(claim.Claim{})
	return true
}

// answered reports whether the daemon answered, which then must be a success.
func (n *tenant) answered(err error) bool {
	if err != nil && claim.CodeOf(err) != claim.CodeUnavailable {
		n.h.t.Errorf("%s: %v", n.name, err)
	}
	return err == nil
}

// adopt takes over how the claim is. Keys that are no longer there are dead.
func (n *tenant) adopt(now claim.Claim) {
	keys := map[string]key{}
	for _, a := range now.Accesses {
		keys[a.Name] = n.h.key(claim.DeviceName(n.name, a.Name))
	}
	for access, old := range n.keys {
		if keys[access] != old {
			n.dead = append(n.dead, old)
		}
	}
	if now.UID != n.claim.UID {
		n.objects = map[string]string{}
	}
	if now.Name == "" && n.keeping != "" {
		n.retained = append(n.retained, n.keeping)
	}
	n.claim, n.keys, n.keeping, n.unsure = now, keys, "", false
}

// put stores an object; once acknowledged it is never lost.
func (n *tenant) put(ctx context.Context) bool {
	n.puts++
	name, text := fmt.Sprintf("o%d", n.rng.IntN(5)), fmt.Sprintf("%s %d", n.name, n.puts)
	delete(n.objects, name) // either text is right if nobody answers
	if n.keys[claim.DefaultName].put(ctx, name, text) != nil {
		return false // the store died with the daemon; verify finds other reasons
	}
	n.objects[name] = text
	return true
}

// verify compares with what the daemon says after a restart.
func (n *tenant) verify(ctx context.Context, claims map[string]claim.Claim) {
	t, now := n.h.t, claims[n.name]
	if n.unsure {
		n.adopt(now)
	}
	if now.UID != n.claim.UID {
		t.Fatalf("%s: claim %q was acknowledged, claim %q is there", n.name, n.claim.UID, now.UID)
	}
	if len(now.Accesses) != len(n.claim.Accesses) {
		t.Fatalf("%s: accesses %+v were acknowledged, %+v are there", n.name, n.claim.Accesses, now.Accesses)
	}
	for _, a := range now.Accesses {
		k := n.keys[a.Name]
		if got := n.h.key(claim.DeviceName(n.name, a.Name)); got != k {
			t.Errorf("%s.%s: key %s was acknowledged, %s is there", n.name, a.Name, k.id, got.id)
		}
		if a.Mode == claim.ModeReadWrite {
			k.alive(t)
		} else if _, err := k.get(ctx, "alive"); err != nil {
			t.Errorf("%s.%s: %v", n.name, a.Name, err)
		}
	}
	for name, text := range n.objects {
		if got, err := n.keys[claim.DefaultName].get(ctx, name); got != text {
			t.Errorf("%s: object %s is %q, want %q: %v", n.name, name, got, text, err)
		}
	}
	for _, k := range n.dead {
		k.dead(t)
	}
}

// load has the tenants change things, four at a time, until somebody was
// acknowledged for the last time; then it kills the daemon in the middle of
// what the others are doing.
func load(ctx context.Context, d *daemon, tenants []*tenant, workers, acknowledgements int) {
	var left atomic.Int64
	left.Store(int64(acknowledgements))
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := 0; ; i++ {
				mine := tenants[w+workers*(i%(len(tenants)/workers))]
				if !mine.act(ctx) {
					return
				}
				if left.Add(-1) == 0 {
					d.kill()
				}
			}
		})
	}
	wg.Wait()
}

// settled waits until nothing is under way and returns the claims.
func (h *host) settled() map[string]claim.Claim {
	h.t.Helper()
	claims := map[string]claim.Claim{}
	h.until("everything has converged", func(ctx context.Context) error {
		list, err := h.client().Claims(ctx)
		clear(claims)
		for _, c := range list {
			claims[c.Name] = c
			busy := c.Phase != claim.PhaseReady
			for _, a := range c.Accesses {
				busy = busy || a.Phase != claim.PhaseReady || a.Next != nil || len(a.Retiring) > 0
			}
			if busy {
				return fmt.Errorf("under way: %+v", c)
			}
		}
		return err
	})
	return claims
}

// published checks that exactly the accesses there are have files and specs.
func (h *host) published(claims map[string]claim.Claim) {
	h.t.Helper()
	dirs, specs := []string{}, []string{}
	for _, c := range claims {
		for _, a := range c.Accesses {
			device := claim.DeviceName(c.Name, a.Name)
			dirs, specs = append(dirs, device), append(specs, "fairlead.dev-bucket_"+device+".json")
		}
	}
	slices.Sort(dirs)
	slices.Sort(specs)
	if got := files(h.t, h.run+"/creds"); !slices.Equal(got, dirs) {
		h.t.Errorf("credentials of %v, want %v", got, dirs)
	}
	if got := files(h.t, h.cdi); !slices.Equal(got, specs) {
		h.t.Errorf("CDI specs %v, want %v", got, specs)
	}
}

// stored are the names in a table of the store of our driver, which must not
// be running.
func (h *host) stored(table string) []string {
	h.t.Helper()
	db, err := kv.Open(filepath.Join(h.state, "objects", "store.db"), kv.Options{Wait: patience})
	if err != nil {
		h.t.Fatal(err)
	}
	names := []string{}
	err = db.View(func(tx *kv.Tx) error {
		return tx.Bucket(table).ForEach(func(name string, _ []byte) error {
			names = append(names, name)
			return nil
		})
	})
	if err = errors.Join(err, db.Close()); err != nil {
		h.t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// TestKilledUnderLoad kills the daemon, and with it the driver, again and again
// while claims, accesses, keys and objects come and go: nothing acknowledged
// is lost, nothing revoked lives, nothing leaks.
//
// Req: COSI-033, COSI-090, COSI-103
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	const rounds, workers, names = 10, 4, 8
	rng := rand.New(rand.NewPCG(20, 26))
	h := newHost(t)
	var tenants []*tenant
	for i := range names {
		tenants = append(tenants, &tenant{h: h, name: fmt.Sprintf("t%d", i), rng: rand.New(rand.NewPCG(uint64(i), 1))})
	}
	for range rounds {
		d := h.up()
		driver := h.watch(h.driver(claim.ObjectsDriver).PID)
		load(t.Context(), d, tenants, workers, 10+rng.IntN(60))
		h.gone(driver) // nothing outlives a killed daemon
		d = h.up()
		claims := h.settled()
		for _, n := range tenants {
			n.verify(t.Context(), claims)
		}
		h.published(claims)
		d.kill()
		if t.Failed() {
			return
		}
	}

	// What the store holds is what the claims say, account by account; a bucket
	// that a release kept is there too.
	d := h.up()
	claims := h.settled()
	d.stop()
	accounts, buckets := []string{}, map[string]bool{}
	for _, c := range claims {
		buckets[c.BucketID] = true
		for _, a := range c.Accesses {
			accounts = append(accounts, a.Account.ID)
		}
	}
	for _, n := range tenants {
		for _, id := range n.retained {
			buckets[id] = true
		}
	}
	slices.Sort(accounts)
	if got := h.stored("accounts"); !slices.Equal(got, accounts) {
		t.Errorf("the store has accounts %v, the claims %v", got, accounts)
	}
	if got := h.stored("buckets"); !slices.Equal(got, slices.Sorted(maps.Keys(buckets))) {
		t.Errorf("the store has buckets %v, want %v", got, slices.Sorted(maps.Keys(buckets)))
	}
}

// TestKilledDriver: the daemon starts a killed driver again, and all goes on
// with the same keys and objects.
//
// Req: COSI-170, COSI-166
func TestKilledDriver(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.up()
	h.ok("claim", "bucket", "photos")
	k := h.key("photos")
	for i := range 3 {
		if err := k.put(t.Context(), fmt.Sprintf("o%d", i), "acknowledged"); err != nil {
			t.Fatal(err)
		}
		before := h.driver(claim.ObjectsDriver)
		h.kill9(h.watch(before.PID))
		// A claim waits for the driver; nobody has to.
		h.ok("claim", "bucket", fmt.Sprintf("after-%d", i))
		after := h.driver(claim.ObjectsDriver)
		if after.Restarts != i+1 || after.PID == before.PID || after.State != "Ready" {
			t.Errorf("killed, the driver is %+v", after)
		}
		for n := range i + 1 {
			if text, err := k.get(t.Context(), fmt.Sprintf("o%d", n)); text != "acknowledged" {
				t.Errorf("object o%d: %q, %v", n, text, err)
			}
		}
	}
	if log := h.ok("driver", "log", claim.ObjectsDriver); log == "" {
		t.Error("the driver's log is empty")
	}
}
