package keeper

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/mount"
)

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
		testenv.Lacks(t, "needs root: mounts a directory in a new mount namespace")
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

func TestClaimsOfADriverThatIsGoneCanBeAbandoned(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k, closeAll := h.start(t, v.endpoint)
	c := mustClaim(t, k, claim.Request{Name: "photos", DeletionPolicy: claim.Delete})
	closeAll()
	gone := "unix://" + shortDir(t) + "/gone.sock"
	k = h.open(t, gone)
	if err := k.Release("photos", claim.ReleaseRequest{}); err != nil {
		t.Fatal(err)
	}
	yes := true
	if err := k.Release("photos", claim.ReleaseRequest{Abandon: true, DeleteData: &yes}); claim.CodeOf(err) != claim.CodeInvalid {
		t.Errorf("deleting without the driver: %v", err)
	}
	if err := k.Release("photos", claim.ReleaseRequest{Abandon: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.WaitGone(soon(t), "photos"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(h.creds, "photos")); !os.IsNotExist(err) {
		t.Errorf("the files are left: %v", err)
	}
	if err := k.RemoveDriver("vendor"); err != nil {
		t.Error(err)
	}
	v.set(func() {
		if _, there := v.buckets[c.BucketID]; !there || len(v.accounts[c.BucketID]) != 1 {
			t.Error("the driver was asked after all")
		}
	})
}
