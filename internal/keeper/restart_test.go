package keeper

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/internal/claim"
)

func TestAfterARebootTheFilesAreWrittenAgain(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k, closeAll := h.start(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos"})
	closeAll()
	for _, dir := range []string{h.creds, h.cdi} { // a reboot empties /run
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	k = h.open(t, v.endpoint)
	settled(t, k, "photos")
	if key := h.keyOnDisk(t, "photos"); key != "secret-key-1" {
		t.Errorf("key %q", key)
	}
	if _, err := os.Stat(filepath.Join(h.cdi, "fairlead.dev-bucket_photos.json")); err != nil {
		t.Error(err)
	}
	v.set(func() {
		if v.keys != 1 {
			t.Errorf("%d keys", v.keys)
		}
	})
}

func settled(t testing.TB, k *Keeper, name string) {
	t.Helper()
	e, err := k.entry(name)
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := soon(t); ; {
		e.mu.Lock()
		idle := !e.running && !e.again
		ok := idle
		if e.rec.Load().Claim.Kind == claim.KindDevice {
			ok = idle && e.carried != nil && e.carried == e.found.Load()
		}
		for i := range e.rec.Load().Claim.Accesses {
			ok = ok && e.seen[e.rec.Load().Claim.Accesses[i].Name].verified
		}
		e.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("claim %q did not settle: %+v", name, e.rec.Load().Claim)
		}
	}
}

func TestAfterARestartTheDriverIsAsked(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k, closeAll := h.start(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos"})
	lost := mustClaim(t, k, claim.Request{Name: "lost"})
	closeAll()
	v.set(func() { v.region = "moved"; delete(v.buckets, lost.BucketID) })
	k, closeAll = h.start(t, v.endpoint)
	defer closeAll()
	settled(t, k, "photos")
	if b, err := os.ReadFile(filepath.Join(h.creds, "photos", "AWS_REGION")); err != nil || string(b) != "moved" {
		t.Errorf("region %q, %v", b, err)
	}
	if _, err := k.waitFor(soon(t), "lost", func(c *claim.Claim) (bool, error) { return c.Accesses[0].Phase == claim.PhaseFailed, nil }); err != nil {
		t.Errorf("a bucket that is gone was not noticed: %v", err)
	}
}

func TestNoSecretInTheLedgerOrTheSpecs(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k, closeAll := h.start(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos", Access: &claim.AccessSpec{Name: "default", Templates: map[string]string{"x.ini": "k={{.spec.secretS3.accessSecretKey}}"}}})
	closeAll()
	for _, dir := range []string{h.state, h.cdi} {
		files, err := os.ReadDir(dir)
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(b, []byte("secret-key-1")) {
				t.Errorf("%s holds the secret", f.Name())
			}
		}
	}
	if b, err := os.ReadFile(filepath.Join(h.creds, "photos", "x.ini")); err != nil || string(b) != "k=secret-key-1" {
		t.Errorf("template: %q %v", b, err)
	}
}

func TestSweepTakesOnlyWhatIsOurs(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	stale := filepath.Join(h.cdi, "fairlead.dev-bucket_stale.json")
	foreign := filepath.Join(h.cdi, "fairlead.dev-bucket_foreign.json")
	for file, dir := range map[string]string{stale: h.creds, foreign: "/elsewhere/creds"} {
		if err := os.WriteFile(file, []byte(`{"hostPath":"`+dir+`/x"}`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h.open(t, v.endpoint)
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the stale spec: %v", err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("another daemon's spec: %v", err)
	}
}

func TestADriverThatWillNotRepeatItself(t *testing.T) {
	for _, code := range []codes.Code{codes.AlreadyExists, codes.PermissionDenied} {
		v, h := serveVendor(t), newHost(t)
		k, closeAll := h.start(t, v.endpoint)
		mustClaim(t, k, claim.Request{Name: "photos"})
		closeAll()
		v.set(func() { v.fail = func(string) error { return status.Error(code, "said that already") } })
		k, closeAll = h.start(t, v.endpoint)
		settled(t, k, "photos")
		c, err := k.Get("photos")
		if err != nil || c.Access(claim.DefaultName).Phase != claim.PhaseReady {
			t.Errorf("%s: %v %+v", code, err, c)
		}
		events, err := k.Events("photos")
		if err != nil || strings.Contains(fmt.Sprint(events), "said that already") != (code == codes.PermissionDenied) {
			t.Errorf("%s: %v %v", code, err, events)
		}
		closeAll()
	}
}

// An account that a driver makes a second time is not left behind.
//

func TestAStrayAccountIsRevoked(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k, closeAll := h.start(t, v.endpoint)
	c := mustClaim(t, k, claim.Request{Name: "photos"})
	closeAll()
	v.set(func() { v.stray = true })
	k, closeAll = h.start(t, v.endpoint)
	defer closeAll()
	settled(t, k, "photos")
	v.set(func() {
		if len(v.accounts[c.BucketID]) != 1 || v.accounts[c.BucketID][c.Accesses[0].Account.ID].key != "secret-key-1" {
			t.Errorf("the driver has %v", v.accounts)
		}
	})
	events, err := k.Events("photos")
	if err != nil || !strings.Contains(fmt.Sprint(events), "COSI-090") {
		t.Errorf("%v %v", events, err)
	}
}

func TestOurDriversLostAccountIsReplaced(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	h.builtIn = true
	k, closeAll := h.start(t, v.endpoint)
	c := mustClaim(t, k, claim.Request{Name: "photos"})
	closeAll()
	v.set(func() { delete(v.accounts[c.BucketID], c.Accesses[0].Account.ID); v.stray = true })
	k = h.open(t, v.endpoint)
	settled(t, k, "photos")
	c, err := k.Get("photos")
	if err != nil {
		t.Fatal(err)
	}
	v.set(func() {
		want := v.accounts[c.BucketID][c.Accesses[0].Account.ID].key
		if got := h.keyOnDisk(t, "photos"); want == "" || got != want {
			t.Errorf("the application reads %q, the driver knows %q", got, want)
		}
	})
}
