package keeper

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/creds"
)

// refuseLate has the driver refuse a call, but not before a person has asked
// for something else.
func (v *vendor) refuseLate(call string) (asked <-chan struct{}, answer chan<- struct{}) {
	begun, go_ := make(chan struct{}, 100), make(chan struct{})
	v.set(func() {
		v.fail = func(c string) error {
			if c != call {
				return nil
			}
			begun <- struct{}{}
			<-go_
			return status.Error(codes.InvalidArgument, "not like this")
		}
	})
	return begun, go_
}

func TestARefusalDoesNotUndoARelease(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	asked, answer := v.refuseLate("create")
	if _, err := k.Claim(claim.Request{Name: "photos"}); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := k.Release("photos", claim.ReleaseRequest{}); err != nil {
		t.Fatal(err)
	}
	close(answer)
	if c, err := k.WaitGone(soon(t), "photos"); err != nil {
		t.Errorf("%v; the claim is %s", err, c.Phase)
	}
}

func TestARefusalDoesNotUndoARevoke(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos"})
	asked, answer := v.refuseLate("grant")
	if _, err := k.AddAccess("photos", claim.AccessSpec{Name: "reader"}); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := k.RevokeAccess("photos", "reader"); err != nil {
		t.Fatal(err)
	}
	close(answer)
	if c, err := k.WaitRevoked(soon(t), "photos", "reader"); err != nil {
		t.Errorf("%v; the access is %s", err, c.Access("reader").Phase)
	}
}

// atPoint runs fn once when a step reaches the point. It comes before the
// keeper is opened.
func atPoint(t *testing.T, point string, fn func()) {
	t.Helper()
	done := false
	at = func(p string) {
		if p == point && !done {
			done = true
			fn()
		}
	}
	t.Cleanup(func() { at = func(string) {} })
}

func TestFinishingDoesNotUndoARelease(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	var k *Keeper
	atPoint(t, "finish:result", func() {
		if err := k.Release("photos", claim.ReleaseRequest{}); err != nil {
			t.Error(err)
		}
	})
	k = h.open(t, v.endpoint)
	if _, err := k.Claim(claim.Request{Name: "photos", NoAccess: true}); err != nil {
		t.Fatal(err)
	}
	if c, err := k.WaitGone(soon(t), "photos"); err != nil {
		t.Errorf("%v; the claim is %s", err, c.Phase)
	}
}

func TestExpiryDoesNotUndoARevoke(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	var k *Keeper
	atPoint(t, "expire:result", func() {
		if err := k.RevokeAccess("photos", claim.DefaultName); err != nil {
			t.Error(err)
		}
	})
	k = h.open(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos", Access: &claim.AccessSpec{Name: claim.DefaultName, Expiry: time.Now().Add(1500 * time.Millisecond)}})
	if c, err := k.WaitRevoked(soon(t), "photos", claim.DefaultName); err != nil {
		t.Errorf("%v; the access is %s", err, c.Access(claim.DefaultName).Phase)
	}
}

// Rule 2: what is leased is not released, even if the lease comes while the
// release is on its way.
func TestALeaseThatComesDuringAReleaseStopsIt(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	var k *Keeper
	var looked atomic.Bool
	at = func(point string) {
		if point == "intent:begin" && looked.CompareAndSwap(true, false) {
			if err := k.Lease("photos", "test", os.Getpid()); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(func() { at = func(string) {} })
	k = h.open(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos"})
	looked.Store(true)
	if err := k.Release("photos", claim.ReleaseRequest{}); claim.CodeOf(err) != claim.CodeInUse {
		t.Errorf("%v, want in use", err)
	}
}

// A rotation that fails after the driver has made the new account leaves none.
func TestARotationThatCannotBePublishedLeavesNoAccount(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	c := mustClaim(t, k, claim.Request{Name: "photos", Access: &claim.AccessSpec{Name: claim.DefaultName, Templates: map[string]string{
		"x": `{{if eq .spec.secretS3.accessSecretKey "secret-key-2"}}{{index .spec.protocols 9}}{{end}}`,
	}}})
	gen, err := k.RotateAccess("photos", claim.DefaultName, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.WaitRotated(soon(t), "photos", claim.DefaultName, gen); claim.CodeOf(err) != claim.CodeDriver {
		t.Errorf("%v, want that the key stays", err)
	}
	_, err = k.waitFor(soon(t), "photos", func(c *claim.Claim) (bool, error) { return len(c.Accesses[0].Retiring) == 0, nil })
	if err != nil {
		t.Fatal(err)
	}
	v.set(func() {
		if len(v.accounts[c.BucketID]) != 1 {
			t.Errorf("the driver has %v", v.accounts[c.BucketID])
		}
	})
	// The next rotation has a name of its own, and its key works.
	if gen, err = k.RotateAccess("photos", claim.DefaultName, 0); err != nil {
		t.Fatal(err)
	}
	if c, err = k.WaitRotated(soon(t), "photos", claim.DefaultName, gen); err != nil {
		t.Fatal(err)
	}
	v.set(func() {
		if _, ok := v.accounts[c.BucketID][c.Accesses[0].Account.ID]; !ok || len(v.accounts[c.BucketID]) != 1 {
			t.Errorf("the driver has %v, in use is %s", v.accounts[c.BucketID], c.Accesses[0].Account.ID)
		}
	})
}

// One access that the driver fails on holds up no other of the claim.
func TestAStuckAccessHoldsUpNoOther(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k, stop := h.start(t, v.endpoint)
	c := mustClaim(t, k, claim.Request{Name: "photos"})
	if _, err := k.AddAccess("photos", claim.AccessSpec{Name: "reader"}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Wait(soon(t), "photos", "reader"); err != nil {
		t.Fatal(err)
	}
	stop()
	v.set(func() {
		v.fail = func(call string) error {
			if call == "grant" {
				return status.Error(codes.Internal, "out of order")
			}
			return nil
		}
	})
	k = h.open(t, v.endpoint)
	if err := k.RevokeAccess("photos", "reader"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.WaitRevoked(soon(t), "photos", "reader"); err != nil {
		t.Error(err)
	}
	v.set(func() {
		if len(v.accounts[c.BucketID]) != 1 {
			t.Errorf("the driver has %v", v.accounts[c.BucketID])
		}
	})
}

// After a reboot the files of every access come back, though no driver does:
// the keys are known.
func TestFilesOfAllAccessesComeBackWithoutTheDriver(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k, stop := h.start(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos"})
	if _, err := k.AddAccess("photos", claim.AccessSpec{Name: "reader"}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Wait(soon(t), "photos", "reader"); err != nil {
		t.Fatal(err)
	}
	stop()
	for _, name := range []string{"photos", "photos.reader"} {
		if err := creds.Remove(filepath.Join(h.creds, name)); err != nil {
			t.Fatal(err)
		}
	}
	k = h.open(t, "unix:///nowhere/to/be/found.sock")
	settledAll(t, k)
	for _, name := range []string{"photos", "photos.reader"} {
		if h.keyOnDisk(t, name) == "" {
			t.Errorf("%s has no key", name)
		}
	}
}

// A claim that is gone while somebody waits for it is not found: no defect.
func TestWaitingForWhatIsGone(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos"})
	e, err := k.entry("photos")
	if err != nil {
		t.Fatal(err)
	}
	e.store(nil)
	if _, err := k.Wait(soon(t), "photos", claim.DefaultName); claim.CodeOf(err) != claim.CodeNotFound {
		t.Errorf("%v is %s", err, claim.CodeOf(err))
	}
}
