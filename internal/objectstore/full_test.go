package objectstore

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"
)

// smallDisk mounts an ext4 file system of 16 MiB for the test.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Lacks(t, "mounting a small file system needs root")
	}
	image, dir := filepath.Join(t.TempDir(), "image"), filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 16<<20); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"mkfs.ext4", "-q", "-m", "0", "-N", "512", image},
		{"mount", "-o", "loop", image, dir},
	} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			testenv.Lacksf(t, "%s: %v: %s", command[0], err, out)
		}
	}
	t.Cleanup(func() {
		os.Chdir("/")
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// TestDiskFull: a full disk is told as such to S3 clients and to callers, what
// was there stays whole, and everything goes on once there is room.
func TestDiskFull(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, filepath.Join(smallDisk(t), "store"))
	create(t, s, "bucket", BucketOptions{})
	cred := grant(t, s, GrantOptions{Bucket: "bucket", Name: "a"})
	c := client(cred)
	mustPut(t, c, "bucket", "keep", "precious")
	body := strings.Repeat("x", 1<<20)
	var err error
	stored := 0
	for err == nil && stored < 32 {
		if err = put(ctx, c, "bucket", fmt.Sprintf("fill%d", stored), body); err == nil {
			stored++
		}
	}
	wantCode(t, "put on a full disk", err, "InsufficientStorage")
	wantCode(t, "replace on a full disk", put(ctx, c, "bucket", "keep", body), "InsufficientStorage")
	for n := 1 << 16; n > 0; n /= 4 { // the last blocks and inodes
		for i := 0; put(ctx, c, "bucket", fmt.Sprintf("small%d/%d", n, i), strings.Repeat("y", n)) == nil && i < 600; i++ {
		}
	}
	mustGet(t, c, "bucket", "keep", "precious")
	for i := range stored {
		mustGet(t, c, "bucket", fmt.Sprintf("fill%d", i), body)
	}
	for i := range 400 {
		if err = s.CreateBucket(ctx, fmt.Sprintf("more-%d", i), BucketOptions{}); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrNoSpace) {
		t.Errorf("create on a full disk: %v", err)
	}
	for i := range stored {
		key := fmt.Sprintf("fill%d", i)
		if err := removeObject(ctx, c, "bucket", key); err != nil {
			t.Fatalf("make room: %v", err)
		}
	}
	mustPut(t, c, "bucket", "keep", body)
	s = reopen(t, s)
	mustGet(t, client(grant(t, s, GrantOptions{Bucket: "bucket", Name: "a"})), "bucket", "keep", body)
	create(t, s, "after", BucketOptions{})
}
