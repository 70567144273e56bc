package keeper

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/internal/claim"
)

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
