package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/claim"
)

// smallDisk puts the host's state on a file system of its own.
func (h *host) smallDisk(megabytes int64) (mounted string) {
	h.t.Helper()
	needsRoot(h.t)
	needs(h.t, "mkfs.ext4", "mount", "umount")
	dir := tempDir(h.t, "")
	image, mounted := dir+"/image", dir+"/mounted"
	write(h.t, image, "", 0o600)
	if err := errors.Join(os.Truncate(image, megabytes<<20), os.Mkdir(mounted, 0o755)); err != nil {
		h.t.Fatal(err)
	}
	for _, argv := range [][]string{{"mkfs.ext4", "-q", "-m", "0", image}, {"mount", "-o", "loop", image, mounted}} {
		if r := h.exec("", argv...); r.code != 0 {
			testenv.Lacksf(h.t, "%q: %s", argv, r)
		}
	}
	h.t.Cleanup(func() {
		if r := h.exec("", "umount", mounted); r.code != 0 {
			h.t.Errorf("umount: %s", r)
		}
	})
	h.state = mounted + "/state"
	return mounted
}

// fill takes all the space there is. Freed is what removing the file gives.
func fill(t testing.TB, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1 << 20, 4 << 10, 1} {
		chunk := make([]byte, size)
		for err == nil {
			_, err = f.Write(chunk)
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
		err = nil
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDiskFull: what does not fit is refused with a reason; nothing that was
// acknowledged is lost; with space again all goes on by itself, without a
// restart and after a kill.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	mounted := h.smallDisk(48)
	d := h.up()
	h.ok("claim", "bucket", "photos")
	k := h.key("photos")
	k.alive(t)
	driver := h.driver(claim.ObjectsDriver).PID
	fill(t, mounted+"/filler")

	// Small changes may still fit into what the databases have to spare.
	acknowledged := []string{"photos"}
	var full error
	for i := 0; full == nil && i < 500; i++ {
		name := fmt.Sprintf("c%d", i)
		resp, err := h.client().Claim(t.Context(), claim.Request{Name: name, Access: &claim.AccessSpec{Name: "default"}}, patience/20)
		if full = err; err == nil || resp.Claim.Name != "" {
			acknowledged = append(acknowledged, name)
		}
	}
	if full == nil || !strings.Contains(full.Error(), "no space left") {
		t.Errorf("on a full disk a claim fails with: %v", full)
	}
	large := strings.Repeat("x", 1<<20)
	if err := k.put(t.Context(), "large", large); s3Code(err) != "InsufficientStorage" {
		t.Errorf("1 MiB on a full disk: %v", err)
	}
	if _, err := k.get(t.Context(), "large"); s3Code(err) != "NoSuchKey" {
		t.Errorf("a refused object is there: %v", err)
	}
	if text, err := k.get(t.Context(), "alive"); text != k.id {
		t.Errorf("an object from before: %q, %v", text, err)
	}
	h.ok("get")
	if now := h.driver(claim.ObjectsDriver); now.PID != driver {
		t.Errorf("the driver did not survive: %+v", now)
	}

	if err := os.Remove(mounted + "/filler"); err != nil {
		t.Fatal(err)
	}
	ready := func() {
		t.Helper()
		h.until("all claims are ready", func(context.Context) error {
			for _, name := range acknowledged {
				if c, err := h.client().Get(t.Context(), name); err != nil || c.Phase != claim.PhaseReady {
					return fmt.Errorf("%s: %s %s %v", name, c.Phase, c.Message, err)
				}
			}
			return nil
		})
	}
	ready()
	if err := k.put(t.Context(), "large", large); err != nil {
		t.Errorf("with space again: %v", err)
	}
	h.ok("claim", "bucket", "later")
	acknowledged = append(acknowledged, "later")
	d.kill()
	d = h.up()
	ready()
	for _, name := range acknowledged {
		h.key(name).alive(t)
	}
	if text, err := k.get(t.Context(), "large"); text != large {
		t.Errorf("the large object: %d bytes, %v", len(text), err)
	}
	d.stop()
}
