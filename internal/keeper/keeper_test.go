package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/cdi"
	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/mount"
)

// Req: COSI-012, COSI-033, COSI-034, COSI-052, COSI-118, COSI-133
func TestClaimBecomesABucketWithAKey(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	c := mustClaim(t, k, claim.Request{Name: "photos", Parameters: map[string]string{"opaque": "as it is"}})
	if c.Phase != claim.PhaseReady || c.BucketID != "id-"+c.BucketName || c.Protocol.S3 == nil {
		t.Fatalf("%+v", c)
	}
	a := c.Access(claim.DefaultName)
	if a.Account.ID != "acc-"+a.Account.Name || a.Device != "fairlead.dev/bucket=photos" || a.Directory != filepath.Join(h.creds, "photos") {
		t.Fatalf("%+v", a)
	}
	v.set(func() {
		if got := v.buckets[c.BucketID]["opaque"]; got != "as it is" {
			t.Errorf("the driver got the parameter %q", got)
		}
		if len(v.accounts[c.BucketID]) != 1 || v.keys != 1 {
			t.Errorf("the driver has %v", v.accounts)
		}
	})
	if key := h.keyOnDisk(t, "photos"); key != "secret-key-1" {
		t.Errorf("key %q", key)
	}
	spec, err := os.ReadFile(filepath.Join(h.cdi, "fairlead.dev-bucket_photos.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s cdi.Spec
	if err := json.Unmarshal(spec, &s); err != nil {
		t.Fatal(err)
	}
	if err := cdi.Validate(&s); err != nil || s.Kind != "fairlead.dev/bucket" || s.Version != "0.3.0" {
		t.Errorf("%v %s", err, spec)
	}
}

func TestTheSameClaimAgainIsFineAndAnotherIsNot(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	req := claim.Request{Name: "photos", Parameters: map[string]string{"a": "1"}}
	mustClaim(t, k, req)
	if result, err := k.Claim(req); err != nil || result != Exists {
		t.Errorf("%s, %v", result, err)
	}
	for _, other := range []claim.Request{
		{Name: "photos", Parameters: map[string]string{"a": "2"}},
		{Name: "photos", Existing: "x"},
		{Name: "photos", Parameters: map[string]string{"a": "1"}, DeletionPolicy: claim.Delete},
		{Name: "photos", Parameters: map[string]string{"a": "1"}, Access: &claim.AccessSpec{Mode: claim.ModeReadOnly}},
	} {
		if _, err := k.Claim(other); claim.CodeOf(err) != claim.CodeConflict {
			t.Errorf("%+v: %v, want a conflict", other, err)
		}
	}
	if _, err := k.Claim(claim.Request{Name: "x", Class: "nowhere"}); claim.CodeOf(err) != claim.CodeNotFound {
		t.Errorf("unknown class: %v", err)
	}
	if _, err := k.Claim(claim.Request{Name: "x", Driver: "nobody"}); claim.CodeOf(err) != claim.CodeNotFound {
		t.Errorf("unknown driver: %v", err)
	}
}

func TestTwoAtOnceMakeOneClaim(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	var wg sync.WaitGroup
	results := make(chan string, 20)
	for range cap(results) {
		wg.Go(func() {
			result, err := k.Claim(claim.Request{Name: "photos"})
			if err != nil {
				t.Error(err)
			}
			results <- result
		})
	}
	wg.Wait()
	close(results)
	created := 0
	for r := range results {
		if r == Created {
			created++
		}
	}
	if _, err := k.Wait(soon(t), "photos", claim.DefaultName); err != nil {
		t.Fatal(err)
	}
	v.set(func() {
		if created != 1 || len(v.buckets) != 1 || v.keys != 1 {
			t.Errorf("%d created, buckets %v, %d keys", created, v.buckets, v.keys)
		}
	})
}

// Req: COSI-028
func TestADriverIsFoundByTheNameItGivesItself(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "first"})
	if _, err := k.PutBucketClass(claim.BucketClass{Name: "mine", Driver: "vendor.example.com"}); err != nil {
		t.Fatal(err)
	}
	if c := mustClaim(t, k, claim.Request{Name: "photos", Class: "mine"}); c.Driver != "vendor" {
		t.Errorf("driver %q", c.Driver)
	}
}

func TestRotationOverlaps(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	now := time.Now()
	var mu sync.Mutex
	h.clock = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	k := h.open(t, v.endpoint)
	c := mustClaim(t, k, claim.Request{Name: "photos"})
	gen, err := k.RotateAccess("photos", claim.DefaultName, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = k.WaitRotated(soon(t), "photos", claim.DefaultName, gen); err != nil {
		t.Fatal(err)
	}
	if key := h.keyOnDisk(t, "photos"); key != "secret-key-2" {
		t.Errorf("the application reads %q", key)
	}
	v.set(func() {
		if len(v.accounts[c.BucketID]) != 2 {
			t.Errorf("within the grace the driver has %v", v.accounts)
		}
	})
	mu.Lock()
	now = now.Add(2 * time.Hour)
	mu.Unlock()
	e, _ := k.entry("photos")
	k.kick(e)
	c, err = k.waitFor(soon(t), "photos", func(c *claim.Claim) (bool, error) { return len(c.Accesses[0].Retiring) == 0, nil })
	if err != nil {
		t.Fatal(err)
	}
	v.set(func() {
		if _, ok := v.accounts[c.BucketID][c.Accesses[0].Account.ID]; !ok || len(v.accounts[c.BucketID]) != 1 {
			t.Errorf("after the grace the driver has %v", v.accounts)
		}
	})
}

func TestRefusedRotationKeepsTheKey(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos"})
	v.set(func() { v.fail = func(string) error { return status.Error(codes.PermissionDenied, "no more keys") } })
	gen, err := k.RotateAccess("photos", claim.DefaultName, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.WaitRotated(soon(t), "photos", claim.DefaultName, gen); claim.CodeOf(err) != claim.CodeDriver || !strings.Contains(err.Error(), "no more keys") {
		t.Errorf("%v", err)
	}
	if key := h.keyOnDisk(t, "photos"); key != "secret-key-1" {
		t.Errorf("key %q", key)
	}
}

func TestExpiredAccessIsRevokedAndGone(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	now := time.Now()
	var mu sync.Mutex
	h.clock = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	k := h.open(t, v.endpoint)
	c := mustClaim(t, k, claim.Request{Name: "photos", Access: &claim.AccessSpec{Name: claim.DefaultName, Expiry: now.Add(time.Hour)}})
	mu.Lock()
	now = now.Add(2 * time.Hour)
	mu.Unlock()
	e, _ := k.entry("photos")
	k.kick(e)
	if _, err := k.waitFor(soon(t), "photos", func(c *claim.Claim) (bool, error) { return c.Accesses[0].Phase == claim.PhaseFailed, nil }); err != nil {
		t.Fatal(err)
	}
	v.set(func() {
		if len(v.accounts[c.BucketID]) != 0 {
			t.Errorf("the driver still has %v", v.accounts)
		}
	})
	if _, err := os.Lstat(filepath.Join(h.creds, "photos")); !os.IsNotExist(err) {
		t.Errorf("the files are still there: %v", err)
	}
	if _, err := k.Credentials("photos", claim.DefaultName); err == nil {
		t.Error("credentials of an expired access were handed out")
	}
}

func TestReleaseKeepsDataUnlessSaid(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	v.set(func() { v.full = true })
	yes := true
	for _, c := range []struct {
		name      string
		request   claim.Request
		release   claim.ReleaseRequest
		remaining int
	}{
		{"kept", claim.Request{}, claim.ReleaseRequest{}, 1},
		{"deleted", claim.Request{}, claim.ReleaseRequest{DeleteData: &yes}, 0},
	} {
		c.request.Name = c.name
		got := mustClaim(t, k, c.request)
		if err := k.Release(c.name, c.release); err != nil {
			t.Fatal(err)
		}
		if _, err := k.WaitGone(soon(t), c.name); err != nil {
			t.Fatal(err)
		}
		v.set(func() {
			_, there := v.buckets[got.BucketID]
			if there != (c.remaining == 1) || len(v.accounts[got.BucketID]) != 0 {
				t.Errorf("%s: bucket there: %v, accounts %v", c.name, there, v.accounts[got.BucketID])
			}
		})
		for _, left := range []string{filepath.Join(h.creds, c.name), filepath.Join(h.cdi, "fairlead.dev-bucket_"+c.name+".json")} {
			if _, err := os.Lstat(left); !os.IsNotExist(err) {
				t.Errorf("%s is left: %v", left, err)
			}
		}
		if _, err := k.Get(c.name); claim.CodeOf(err) != claim.CodeNotFound {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A class that deletes never deletes what is not empty, unless a person says so.
func TestClassThatDeletesDoesNotForce(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	c := mustClaim(t, k, claim.Request{Name: "photos", DeletionPolicy: claim.Delete})
	v.set(func() { v.full = true })
	if err := k.Release("photos", claim.ReleaseRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.waitFor(soon(t), "photos", func(c *claim.Claim) (bool, error) { return strings.Contains(c.Message, "3 objects"), nil }); err != nil {
		t.Fatal(err)
	}
	yes := true
	if err := k.Release("photos", claim.ReleaseRequest{DeleteData: &yes}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.WaitGone(soon(t), "photos"); err != nil {
		t.Fatal(err)
	}
	v.set(func() {
		if _, there := v.buckets[c.BucketID]; there || !v.forced {
			t.Error("the bucket is still there")
		}
	})
}

func TestExistingBucketIsNeitherMadeNorDeleted(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	v.set(func() { v.buckets["old"] = nil })
	c := mustClaim(t, k, claim.Request{Name: "archive", Existing: "old", DeletionPolicy: claim.Delete})
	if c.BucketID != "old" || c.BucketName != "" {
		t.Errorf("%+v", c)
	}
	yes := true
	if err := k.Release("archive", claim.ReleaseRequest{DeleteData: &yes}); claim.CodeOf(err) != claim.CodeInvalid {
		t.Errorf("deleting it: %v", err)
	}
	if err := k.Release("archive", claim.ReleaseRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.WaitGone(soon(t), "archive"); err != nil {
		t.Fatal(err)
	}
	v.set(func() {
		if _, there := v.buckets["old"]; !there || v.calls["create"]+v.calls["delete"] != 0 {
			t.Errorf("calls %v", v.calls)
		}
	})
}

// Req: COSI-097, COSI-099, COSI-102, COSI-120, COSI-123, COSI-125, COSI-127, COSI-113
func TestWhatADriverRefusesIsNotRepeated(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.AlreadyExists, codes.OutOfRange, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented} {
		v, h := serveVendor(t), newHost(t)
		k := h.open(t, v.endpoint)
		v.fail = func(string) error { return status.Error(code, "not like this") }
		if _, err := k.Claim(claim.Request{Name: "photos"}); err != nil {
			t.Fatal(err)
		}
		c, err := k.Wait(soon(t), "photos", claim.DefaultName)
		if claim.CodeOf(err) != claim.CodeDriver || !strings.Contains(err.Error(), "not like this") || c.Phase != claim.PhaseFailed {
			t.Errorf("%s: %v, %+v", code, err, c)
		}
		v.set(func() {
			if v.calls["create"] != 1 {
				t.Errorf("%s: created %d times", code, v.calls["create"])
			}
			v.fail = nil
		})
		if _, err := k.Claim(claim.Request{Name: "photos"}); err != nil { // a person says it again
			t.Fatal(err)
		}
		if _, err := k.Wait(soon(t), "photos", claim.DefaultName); code != codes.Unimplemented && err != nil {
			t.Errorf("%s: mended, but %v", code, err)
		}
	}
}

// Req: COSI-094, COSI-103
func TestADriverThatFailsIsTriedAgain(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	v.fail = func(call string) error {
		if v.calls[call] < 3 {
			return status.Error(codes.Internal, "the disk hiccuped")
		}
		return nil
	}
	mustClaim(t, k, claim.Request{Name: "photos"})
	events, err := k.Events("photos")
	if err != nil || !strings.Contains(fmt.Sprint(events), "the disk hiccuped") {
		t.Errorf("%v %v", events, err)
	}
}

func TestARefusedAccessFailsAlone(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos"})
	if _, err := k.AddAccess("photos", claim.AccessSpec{Name: "drop", Mode: claim.ModeWriteOnly}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Wait(soon(t), "photos", "drop"); claim.CodeOf(err) != claim.CodeDriver || !strings.Contains(err.Error(), "WriteOnly") {
		t.Errorf("%v", err)
	}
	if _, err := k.Wait(soon(t), "photos", claim.DefaultName); err != nil {
		t.Errorf("the first access: %v", err)
	}
	if err := k.RevokeAccess("photos", "drop"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.WaitRevoked(soon(t), "photos", "drop"); err != nil {
		t.Error(err)
	}
}

// Req: COSI-077
func TestSixtyFourAccessesOfOneClaim(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos"})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			name := fmt.Sprintf("a%d", i)
			if _, err := k.AddAccess("photos", claim.AccessSpec{Name: name}); err != nil {
				t.Error(err)
			}
			if _, err := k.Wait(soon(t), "photos", name); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	c, _ := k.Get("photos")
	v.set(func() {
		if len(v.accounts[c.BucketID]) != 65 || len(c.Accesses) != 65 {
			t.Errorf("%d accounts, %d accesses", len(v.accounts[c.BucketID]), len(c.Accesses))
		}
	})
}

func TestLeasedClaimIsNotReleased(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos"})
	user := exec.Command("sleep", "1000")
	if err := user.Start(); err != nil {
		t.Fatal(err)
	}
	if err := k.Lease("photos", "exec", user.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := k.Release("photos", claim.ReleaseRequest{}); claim.CodeOf(err) != claim.CodeInUse || !strings.Contains(err.Error(), "exec") {
		t.Errorf("%v, want in use", err)
	}
	_ = user.Process.Kill()
	_ = user.Wait()
	if err := k.Release("photos", claim.ReleaseRequest{}); err != nil {
		t.Errorf("after the process ended: %v", err)
	}
}

func TestClaimMountedInANamespaceIsNotReleased(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts a directory in a new mount namespace")
	}
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	c := mustClaim(t, k, claim.Request{Name: "photos"})
	target := t.TempDir()
	user := exec.Command("unshare", "-m", "sh", "-c", `mount --bind "$0" "$1" && echo up && exec sleep 1000`, c.Accesses[0].Directory, target)
	out, err := user.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := user.Start(); err != nil {
		t.Fatal(err)
	}
	var up string
	if _, err := fmt.Fscanln(out, &up); err != nil {
		t.Fatal(err)
	}
	if users, err := mount.Users(c.Accesses[0].Directory); err != nil || len(users) != 1 {
		t.Errorf("users %v, %v", users, err)
	}
	if err := k.Release("photos", claim.ReleaseRequest{}); claim.CodeOf(err) != claim.CodeInUse {
		t.Errorf("%v, want in use", err)
	}
	_ = user.Process.Kill()
	_ = user.Wait()
	if err := k.Release("photos", claim.ReleaseRequest{}); err != nil {
		t.Errorf("after the container ended: %v", err)
	}
}

func TestClaimsWaitForTheirDriver(t *testing.T) {
	h := newHost(t)
	v := &vendor{endpoint: "unix://" + shortDir(t) + "/late.sock", buckets: map[string]map[string]string{}, accounts: map[string]map[string]account{}, calls: map[string]int{}, region: "r"}
	k := h.open(t, v.endpoint)
	if _, err := k.Claim(claim.Request{Name: "photos"}); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := k.Wait(short, "photos", claim.DefaultName); claim.CodeOf(err) != claim.CodeTimeout {
		t.Errorf("%v, want a timeout", err)
	}
	v.serve(t)
	if _, err := k.Wait(soon(t), "photos", claim.DefaultName); err != nil {
		t.Error(err)
	}
}

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

// settled waits until all of a claim is published and verified.
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

// Req: COSI-090
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

// Req: COSI-020, COSI-136, COSI-149
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

// Without a grace the old key is dead when the rotation is said to be done, and
// not a moment later: whoever rotates a leaked key relies on it.
func TestRotationWithoutGraceWaitsForTheRevoke(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	c := mustClaim(t, k, claim.Request{Name: "photos"})
	for range 5 {
		gen, err := k.RotateAccess("photos", claim.DefaultName, 0)
		if err != nil {
			t.Fatal(err)
		}
		if c, err = k.WaitRotated(soon(t), "photos", claim.DefaultName, gen); err != nil {
			t.Fatal(err)
		}
		if old := c.Accesses[0].Retiring; len(old) != 0 {
			t.Errorf("the old key still works: %+v", old)
		}
		v.set(func() {
			if n := len(v.accounts[c.BucketID]); n != 1 {
				t.Errorf("the driver has %d accounts", n)
			}
		})
	}
}

// A driver may refuse to repeat itself (COSI-078); the access that works goes
// on working.
//
// Req: COSI-078, COSI-094
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
// Req: COSI-090
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

// What a driver answers is seen while the call is still being repeated.
func TestRepeatedCallsTellWhy(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	v.set(func() {
		v.fail = func(string) error { return status.Error(codes.Unavailable, "the back end is away") }
	})
	if _, err := k.Claim(claim.Request{Name: "photos"}); err != nil {
		t.Fatal(err)
	}
	_, err := k.waitFor(soon(t), "photos", func(c *claim.Claim) (bool, error) {
		return c.Phase == claim.PhasePending && strings.Contains(c.Message, "the back end is away"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	v.set(func() { v.fail = nil })
	if c, err := k.Wait(soon(t), "photos", claim.DefaultName); err != nil || c.Message != "" {
		t.Errorf("once the driver is mended: %q, %v", c.Message, err)
	}
}

// A driver that tells a key in an error does not make us tell it.
// Req: COSI-149
func TestKeysInErrorsAreMasked(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k := h.open(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos"})
	for _, code := range []codes.Code{codes.Internal, codes.Unavailable, codes.PermissionDenied} {
		v.set(func() {
			v.fail = func(string) error { return status.Errorf(code, "%s: acc-ba has the key %q", code, "secret-key-1") }
		})
		if _, err := k.RotateAccess("photos", claim.DefaultName, 0); err != nil && code == codes.Internal {
			t.Fatal(err)
		}
		c, err := k.waitFor(soon(t), "photos", func(c *claim.Claim) (bool, error) {
			return strings.Contains(c.Accesses[0].Message, code.String()), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if m := c.Accesses[0].Message; strings.Contains(m, "secret-key-1") || !strings.Contains(m, `acc-ba has the key "***"`) {
			t.Errorf("the message is %q", m)
		}
	}
	events, err := k.Events("photos")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if strings.Contains(e.Message, "secret-key-1") {
			t.Errorf("an event says %q", e.Message)
		}
	}
}

// What a kill left of a half-written CDI spec is removed; what another daemon
// is writing is not.
func TestUnfinishedSpecsAreSwept(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k, closeAll := h.start(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos"})
	closeAll()
	for name, text := range map[string]string{
		".fairlead.dev-bucket_photos.json.tmp-1": "",
		".fairlead.dev-bucket_gone.json.tmp-2":   `{"hostPath": "` + h.creds + `/gone"}`,
		".fairlead.dev-bucket_other.json.tmp-3":  `{"hostPath": "/run/other/creds/other"}`,
		".fairlead.dev-bucket_other.json.tmp-4":  "",
	} {
		if err := os.WriteFile(filepath.Join(h.cdi, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.open(t, v.endpoint)
	entries, err := os.ReadDir(h.cdi)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{".fairlead.dev-bucket_other.json.tmp-3", ".fairlead.dev-bucket_other.json.tmp-4", "fairlead.dev-bucket_photos.json"}
	if !slices.Equal(names, want) {
		t.Errorf("the CDI directory holds %v, want %v", names, want)
	}
}
