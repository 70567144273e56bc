package hook

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// world is a container's root and, beside it, what a hook must not touch.
type world struct {
	t             testing.TB
	root, outside string
	before        string
	// reached says that the canaries can be seen from the root too, so that
	// reading them, and taking away a name that they have there, is all right.
	reached bool
}

// newWorld makes a root with a little in it, and the canaries outside.
func newWorld(t testing.TB) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, root: dir + "/root", outside: dir + "/outside"}
	for _, d := range []string{"/etc/ld.so.conf.d", "/usr/lib", "/dev", "/tmp"} {
		w.mkdir(w.root + d)
	}
	w.write("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
	w.write("/etc/ld.so.cache", "")
	w.mkdir(w.outside + "/dir/sub")
	canary := library("libcanary.so.1")
	for _, name := range []string{"/file", "/dir/libcanary.so.1.2", "/dir/sub/libcanary.so.1.2", "/ld.so.cache", "/x.conf"} {
		w.check(os.WriteFile(w.outside+name, canary, 0o600))
	}
	w.check(os.Symlink("file", w.outside+"/link"))
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) mkdir(dir string) { w.t.Helper(); w.check(os.MkdirAll(dir, 0o755)) }

// write writes a file in the root.
func (w *world) write(name, text string) {
	w.t.Helper()
	w.mkdir(filepath.Dir(w.root + name))
	w.check(os.WriteFile(w.root+name, []byte(text), 0o644))
}

// link makes a link in the root.
func (w *world) link(target, name string) {
	w.t.Helper()
	w.mkdir(filepath.Dir(w.root + name))
	w.check(os.Symlink(target, w.root+name))
}

// open holds the root.
func (w *world) open(mounts ...Mount) *Root {
	w.t.Helper()
	r, err := OpenRoot(w.root, mounts)
	w.check(err)
	w.t.Cleanup(r.Close)
	return r
}

// watch remembers what is outside, and at the end of the test compares. A file
// that was read shows it by its access time, which lies in the past before.
func (w *world) watch() {
	w.t.Helper()
	var names []string
	w.check(filepath.WalkDir(w.outside, func(name string, _ fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	}))
	read, changed := unix.Timespec{Sec: 1e9}, unix.Timespec{Sec: 1e9 + 3600}
	for _, name := range names {
		w.check(unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{read, changed}, unix.AT_SYMLINK_NOFOLLOW))
	}
	w.before = w.snapshot()
	w.t.Cleanup(w.compare)
}

func (w *world) compare() {
	w.t.Helper()
	if after := w.snapshot(); after != w.before {
		w.t.Errorf("outside of the root, before:\n%safter:\n%s", w.before, after)
	}
}

// snapshot is all that can be said of what is outside, found out without
// reading it in a way that shows.
func (w *world) snapshot() string {
	w.t.Helper()
	var b strings.Builder
	var walk func(string)
	walk = func(name string) {
		var st unix.Stat_t
		w.check(unix.Lstat(name, &st))
		fmt.Fprintf(&b, "%s mode %o owner %d:%d size %d changed %v", name[len(w.outside):], st.Mode, st.Uid, st.Gid, st.Size, st.Mtim)
		if !w.reached {
			fmt.Fprintf(&b, " links %d read %v changed %v", st.Nlink, st.Atim, st.Ctim)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			fmt.Fprintln(&b)
			return
		}
		f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOATIME|unix.O_NONBLOCK, 0)
		w.check(err)
		defer func() { _ = f.Close() }()
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			data, err := io.ReadAll(f)
			w.check(err)
			fmt.Fprintf(&b, " %x\n", data)
			return
		}
		fmt.Fprintln(&b)
		entries, err := f.ReadDir(-1)
		w.check(err)
		for _, e := range entries {
			walk(name + "/" + e.Name())
		}
	}
	walk(w.outside)
	return b.String()
}

// TestCanaries proves that the canaries sing.
func TestCanaries(t *testing.T) {
	t.Parallel()
	for name, touch := range map[string]func(*world) error{
		"read": func(w *world) error { _, err := os.ReadFile(w.outside + "/file"); return err },
		"list": func(w *world) error { _, err := os.ReadDir(w.outside + "/dir"); return err },
		"mode": func(w *world) error { return os.Chmod(w.outside+"/file", 0o700) },
		"make": func(w *world) error { return os.Symlink("x", w.outside+"/dir/x") },
		"link": func(w *world) error { return os.Link(w.outside+"/file", w.root+"/x") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.watch()
			before := w.before
			w.check(touch(w))
			if w.before = w.snapshot(); w.before == before {
				t.Error("it does not show")
			}
		})
	}
}

// library is a shared library for this machine's commonest architecture, as far
// as the cache needs one.
func library(soname string) []byte {
	le := binary.LittleEndian
	b := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	b = le.AppendUint16(le.AppendUint16(b, 3), 62)
	b = le.AppendUint64(le.AppendUint64(append(b, make([]byte, 12)...), 64), 0)
	b = le.AppendUint32(b, 0)
	for _, v := range []uint16{64, 56, 1, 0, 0, 0} {
		b = le.AppendUint16(b, v)
	}
	dynamic, text := uint64(64+56), uint64(64+56+48)
	b = le.AppendUint32(le.AppendUint32(b, 2), 0)
	for _, v := range []uint64{dynamic, dynamic, 0, 48, 48, 8, 14, 1, 5, text, 0, 0} {
		b = le.AppendUint64(b, v)
	}
	return append(append(append(b, 0), soname...), 0)
}

func (w *world) library(name, soname string) { w.t.Helper(); w.write(name, string(library(soname))) }

// links are all links below a directory of the root and what they say.
func (w *world) links(dir string) string {
	w.t.Helper()
	var b bytes.Buffer
	w.check(filepath.WalkDir(w.root+dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type() == fs.ModeSymlink {
			target, _ := os.Readlink(name)
			fmt.Fprintf(&b, "%s -> %s\n", name[len(w.root+dir)+1:], target)
		}
		return err
	}))
	return b.String()
}

func inode(t testing.TB, name string) uint64 {
	t.Helper()
	info, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}
