package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/creds"
)

// What the checks of the file system call too little or too slow.
const (
	diskFail = 128 << 20 // bytes free
	diskWarn = 1 << 30
	slowSync = 20 * time.Millisecond
)

func checkSocket(path string) check {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return fail("socket", "start the daemon: fairlead up", "%v", err)
	case fi.Mode().Type() != fs.ModeSocket:
		return fail("socket", "move it away and start the daemon again", "%s is no socket", path)
	case fi.Mode().Perm()&0o077 != 0:
		return fail("socket", "chmod 0600 "+path, "%s can be used by others than its owner (mode %04o)", path, fi.Mode().Perm())
	}
	return ok("socket", "%s, mode %04o", path, fi.Mode().Perm())
}

// checkRunDir looks at where credentials are, or would be. On a disk root's
// daemon mounts a tmpfs; another user's has to do with what there is.
func checkRunDir(dir string) check {
	err := creds.EnsureTmpfs(nearest(dir))
	switch {
	case errors.Is(err, creds.ErrOnDisk) && os.Geteuid() == 0 && nearest(dir) != dir:
		return ok("credentials", "%s will be in memory: the daemon mounts a tmpfs", dir)
	case errors.Is(err, creds.ErrOnDisk):
		return warn("credentials", "choose a place on a tmpfs: --run-dir", "%s is on a disk: credentials would be written to it", dir)
	case err != nil:
		return fail("credentials", "", "%v", err)
	}
	return ok("credentials", "%s is in memory", dir)
}

// checkState tries the file system that holds, or would hold, ledger and data.
func checkState(dir string) []check {
	place := nearest(dir)
	checks := []check{checkDisk(dir, place)}
	probe, err := os.MkdirTemp(place, ".fairlead-doctor-")
	if err != nil {
		return append(checks, warn("state directory", "run doctor as the daemon's user", "%s cannot be tried: %v", dir, err))
	}
	defer func() { _ = os.RemoveAll(probe) }()
	return append(checks, checkXattr(dir, filepath.Join(probe, "xattr")), checkSync(dir, filepath.Join(probe, "sync")))
}

// nearest is dir, or what is there of the way to it.
func nearest(dir string) string {
	for {
		if fi, err := os.Stat(dir); err == nil && fi.IsDir() || dir == "/" || dir == "." {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

func checkDisk(dir, place string) check {
	var st unix.Statfs_t
	if err := unix.Statfs(place, &st); err != nil {
		return fail("disk", "", "look at the file system of %s: %v", dir, err)
	}
	free := st.Bavail * uint64(st.Bsize) //nolint:gosec // a block size is positive
	switch {
	case free < diskFail:
		return fail("disk", "make room, or choose another place: --state", "%s has %d MiB left", dir, free>>20)
	case free < diskWarn:
		return warn("disk", "make room", "%s has %d MiB left", dir, free>>20)
	case st.Files > 0 && st.Ffree < 1000:
		return fail("disk", "delete files, or make the file system anew with more inodes", "%s has %d inodes left", dir, st.Ffree)
	}
	return ok("disk", "%s has %d GiB left", dir, free>>30)
}

// checkXattr: the embedded store keeps metadata in extended attributes.
func checkXattr(dir, file string) check {
	const hint = "use ext4, xfs or btrfs: --state"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return fail("xattr", "", "%v", err)
	}
	if err := unix.Setxattr(file, "user.fairlead.doctor", []byte("1"), 0); err != nil {
		return fail("xattr", hint, "%s has no extended attributes: %v", dir, err)
	}
	return ok("xattr", "%s has extended attributes", dir)
}

// checkSync takes the median of a few durable writes.
func checkSync(dir, file string) check {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return fail("fsync", "", "%v", err)
	}
	defer func() { _ = f.Close() }()
	var took []time.Duration
	for range 7 {
		start := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return fail("fsync", "", "%v", err)
		}
		if err := f.Sync(); err != nil {
			return fail("fsync", "look at the disk: its writes do not become durable", "%s: %v", dir, err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	median := took[len(took)/2].Round(10 * time.Microsecond)
	if median > slowSync {
		return warn("fsync", "every claim waits for a few of these: a faster disk helps", "%s takes %s for a durable write", dir, median)
	}
	return ok("fsync", "%s takes %s for a durable write", dir, median)
}

// cdiDirs are where runtimes look.
func cdiDirs() []string { return []string{"/etc/cdi", "/var/run/cdi", "/run/cdi"} }

func checkCDI(dir string) check {
	if dir == "" {
		return warn("CDI", "run the daemon as root, or name a directory: --cdi-dir", "no CDI: buckets are handed over as files and environment only")
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return warn("CDI", "the daemon makes it", "%s is not there yet", dir)
	case err != nil:
		return fail("CDI", "chmod 0755 "+dir, "%v", err)
	}
	if !slices.Contains(cdiDirs(), filepath.Clean(dir)) {
		return warn("CDI", "tell the runtime: podman --cdi-spec-dir, docker's cdi-spec-dirs", "%s is not where runtimes look", dir)
	}
	for _, e := range entries {
		if fi, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), "fairlead") && fi.Mode().Perm()&0o044 != 0o044 {
			return fail("CDI", "chmod 0644 "+filepath.Join(dir, e.Name()), "%s cannot be read by rootless runtimes", e.Name())
		}
	}
	return ok("CDI", "%s can be read, %d files", dir, len(entries))
}

// checkClock: signatures and certificates are refused if it is far off.
func checkClock(now time.Time) check {
	const hint = "set the clock, and let NTP keep it"
	if now.Year() < 2025 || now.Year() > 2100 {
		return fail("clock", hint, "it says %s", now.UTC().Format(time.RFC3339))
	}
	return ok("clock", "%s", now.UTC().Format(time.RFC3339))
}

// checkEndpoint asks the endpoint of the first bucket that has one, and
// compares its clock with ours: S3 refuses requests that are 15 minutes off.
func (a *app) checkEndpoint(ctx context.Context) check {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	endpoint, err := a.firstEndpoint(ctx)
	if err != nil {
		return warn("S3 endpoint", "", "%v", err)
	}
	if endpoint == "" {
		return ok("S3 endpoint", "not asked: no bucket is claimed yet")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, endpoint, nil)
	if err != nil {
		return fail("S3 endpoint", "", "%v", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		hint := "see: fairlead get drivers"
		if errors.Is(err, syscall.ECONNREFUSED) {
			hint = "nothing listens there; see: fairlead driver log objects"
		}
		return fail("S3 endpoint", hint, "%v", err)
	}
	_ = resp.Body.Close()
	if there, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		if off := a.now().Sub(there).Abs(); off > 5*time.Minute {
			return fail("S3 endpoint", "set the clock of either side", "%s answers, but its clock is %s off", endpoint, off.Round(time.Second))
		}
	}
	return ok("S3 endpoint", "%s answers", endpoint)
}

func (a *app) firstEndpoint(ctx context.Context) (string, error) {
	claims, err := a.client().Claims(ctx)
	if err != nil {
		return "", fmt.Errorf("list claims: %w", err)
	}
	for _, c := range claims {
		for _, x := range c.Accesses {
			if x.Phase != claim.PhaseReady {
				continue
			}
			got, err := a.client().Credentials(ctx, c.Name, x.Name)
			if err != nil {
				return "", fmt.Errorf("read credentials of %s: %w", c.Name, err)
			}
			if endpoint := got.Files["AWS_ENDPOINT_URL"]; len(endpoint) > 0 {
				return strings.TrimSpace(string(endpoint)), nil
			}
		}
	}
	return "", nil
}
