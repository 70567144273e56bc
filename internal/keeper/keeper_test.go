package keeper

import (
	"encoding/json"
	"fmt"
	"os"
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

// A class that deletes never deletes what is not empty, unless a person says so.
// Req: COSI-097, COSI-099, COSI-102, COSI-120, COSI-123, COSI-125, COSI-127, COSI-113
// Req: COSI-094, COSI-103
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

// settled waits until all of a claim is published and verified.
// Req: COSI-090
// Req: COSI-020, COSI-136, COSI-149
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
// Req: COSI-090
// Our own driver never makes a second account: a new one means that the old one
// is lost, and the new one is used.
// A driver that is gone for good must not keep its claims, or itself, for ever.
// What a driver answers is seen while the call is still being repeated.
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
