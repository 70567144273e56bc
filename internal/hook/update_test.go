package hook

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/ldcache"
)

// entries are those of the root's cache.
func (w *world) entries() []ldcache.Entry {
	w.t.Helper()
	data, err := os.ReadFile(w.root + "/etc/ld.so.cache")
	w.check(err)
	entries, err := ldcache.Parse(data)
	w.check(err)
	return entries
}

// cached is where the linker finds that library.
func (w *world) cached(name string) string {
	w.t.Helper()
	for _, e := range w.entries() {
		if e.Name == name {
			return e.Path
		}
	}
	return ""
}

// Req: CDI-111, CDI-114, CDI-115, CDI-116, CDI-119, CDI-120
func TestUpdateCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.watch()
	w.library("/usr/lib/libx.so.1.0", "libx.so.1")
	w.library("/opt/a/libx.so.1.9", "libx.so.1")
	w.library("/opt/a/libx.so.1.10", "libx.so.1")
	w.library("/opt/b/libx.so.1.99", "libx.so.1")
	w.library("/opt/b/liby.so", "")
	w.library("/opt/b/glibc-hwcaps/x86-64-v3/libx.so.1.99", "libx.so.1")
	w.write("/etc/ld.so.conf.d/own.conf", "/own\n")
	w.library("/own/libx.so.1.5", "libx.so.1")
	r := w.open()
	for range 2 {
		w.check(r.UpdateCache([]string{"/opt/a", "/opt/b", "/opt/none"}))
		if got := w.links("/opt") + w.links("/usr"); got != "a/libx.so.1 -> libx.so.1.10\nb/libx.so.1 -> libx.so.1.99\nlib/libx.so.1 -> libx.so.1.0\n" {
			t.Errorf("links: %s", got)
		}
		var got strings.Builder
		for _, e := range w.entries() {
			fmt.Fprintln(&got, e.Name, e.Flags, e.Hwcaps, e.Path)
		}
		want := `liby.so libc6,x86-64  /opt/b/liby.so
libx.so.1 libc6,x86-64 x86-64-v3 /opt/b/glibc-hwcaps/x86-64-v3/libx.so.1.99
libx.so.1 libc6,x86-64  /opt/a/libx.so.1
libx.so.1 libc6,x86-64  /opt/b/libx.so.1
libx.so.1 libc6,x86-64  /own/libx.so.1
libx.so.1 libc6,x86-64  /usr/lib/libx.so.1
`
		if got.String() != want {
			t.Errorf("got\n%swant\n%s", got.String(), want)
		}
	}
	info, err := os.Stat(w.root + "/etc/ld.so.cache")
	w.check(err)
	if info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v", info.Mode())
	}
	// Another device's hook puts its own first and keeps the others.
	w.library("/opt/c/libx.so.1.1", "libx.so.1")
	w.check(r.UpdateCache([]string{"/opt/c"}))
	text, err := os.ReadFile(w.root + "/etc/ld.so.conf.d/00-mounted-libraries.conf")
	w.check(err)
	if string(text) != "/opt/c\n/opt/a\n/opt/b\n/opt/none\n" || w.cached("libx.so.1") != "/opt/b/glibc-hwcaps/x86-64-v3/libx.so.1.99" {
		t.Errorf("%q, %s", text, w.cached("libx.so.1"))
	}
	if names := ls(t, w.root+"/etc") + ls(t, w.root+"/etc/ld.so.conf.d"); strings.Contains(names, "~") {
		t.Errorf("left behind: %s", names)
	}
}

func ls(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ") + " "
}

// Req: CDI-118
func TestNoCache(t *testing.T) {
	t.Parallel()
	for _, gone := range []string{"/etc/ld.so.cache", "/etc"} {
		w := newWorld(t)
		w.watch()
		w.check(os.RemoveAll(w.root + gone))
		w.library("/opt/a/libx.so.1.9", "libx.so.1")
		w.library("/usr/lib/liby.so.1.0", "liby.so.1")
		r := w.open()
		for range 2 {
			w.check(r.UpdateCache([]string{"/opt/a"}))
			if got := w.links(""); got != "opt/a/libx.so.1 -> libx.so.1.9\n" {
				t.Errorf("links: %q", got)
			}
			if _, err := os.Lstat(w.root + "/etc/ld.so.cache"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the cache was made: %v", err)
			}
			if _, err := os.Lstat(w.root + "/etc/ld.so.conf.d/" + foldersIn); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the configuration was changed: %v", err)
			}
		}
	}
}

// TestLinks: which links are made, which are left alone.
func TestLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, soname := range []string{"libfile.so.1", "libright.so.1", "libother.so.1", "libold.so.1", "libdangling.so.1", "libdir.so.1"} {
		w.library("/opt/"+soname+".2", soname)
	}
	w.library("/opt/real/libother.so.1.2", "libother.so.1")
	w.library("/opt/libold.so.1.1", "libold.so.1")
	w.write("/opt/libfile.so.1", "not a library")
	w.link("../opt/libright.so.1.2", "/opt/libright.so.1") // another way to say it
	w.link("real/libother.so.1.2", "/opt/libother.so.1")
	w.link("libold.so.1.1", "/opt/libold.so.1")
	w.link("libold.so.1.2", "/opt/libold.so") // for a compiler
	w.link("gone", "/opt/libdangling.so.1")
	w.link("gone", "/opt/libgone.so.1")
	w.mkdir(w.root + "/opt/libdir.so.1")
	w.check(w.open().UpdateCache([]string{"/opt"}))
	want := `libdangling.so.1 -> libdangling.so.1.2
libgone.so.1 -> gone
libold.so -> libold.so.1.2
libold.so.1 -> libold.so.1.2
libother.so.1 -> libother.so.1.2
libright.so.1 -> ../opt/libright.so.1.2
`
	if got := w.links("/opt"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestNoInclude: a container whose configuration does not read its directory,
// or that has none.
func TestNoInclude(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.library("/opt/a/libx.so.1.9", "libx.so.1")
	w.library("/own/libx.so.1.5", "libx.so.1")
	w.write("/etc/ld.so.conf", "/own\n")
	w.check(w.open().UpdateCache([]string{"/opt/a"}))
	if got := w.cached("libx.so.1"); got != "/opt/a/libx.so.1" {
		t.Errorf("found at %s", got)
	}
	w.check(os.RemoveAll(w.root + "/etc/ld.so.conf.d"))
	w.check(os.Remove(w.root + "/etc/ld.so.conf"))
	w.check(w.open().UpdateCache([]string{"/opt/a"}))
	if got := w.cached("libx.so.1"); got != "/opt/a/libx.so.1" || len(w.entries()) != 1 {
		t.Errorf("%+v", w.entries())
	}
}

// TestConf: configuration that means to keep the hook busy, or hang it.
func TestConf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(w *world)
		want string // of the error; empty: none
	}{
		"FIFO": {func(w *world) {
			w.check(os.Remove(w.root + "/etc/ld.so.conf"))
			w.check(unix.Mkfifo(w.root+"/etc/ld.so.conf", 0o600))
		}, "not a regular file"},
		"FIFO included": {func(w *world) { w.check(unix.Mkfifo(w.root+"/etc/ld.so.conf.d/a.conf", 0o600)) }, "not a regular file"},
		"directory":     {func(w *world) { w.mkdir(w.root + "/etc/ld.so.conf.d/a.conf") }, ""},
		"dangling":      {func(w *world) { w.link("gone", "/etc/ld.so.conf.d/a.conf") }, ""},
		"itself":        {func(w *world) { w.write("/etc/ld.so.conf.d/a.conf", "include /etc/ld.so.conf\ninclude *.conf\n/own\n") }, ""},
		"huge": {func(w *world) {
			w.check(os.Truncate(w.root+"/etc/ld.so.conf", 1<<40))
		}, "bytes"},
		"malformed pattern": {func(w *world) { w.write("/etc/ld.so.conf", "include /etc/[x\n/own\n") }, ""},
		"pattern in the middle": {func(w *world) {
			w.write("/etc/a1/x.conf", "/own\n")
			w.write("/etc/.a2/x.conf", "/no\n")
			w.write("/etc/ld.so.conf", "include /etc/[!b]*/?.conf\n")
		}, ""},
		"too many files": {func(w *world) {
			for i := range maxConfFiles + 1 {
				w.write(fmt.Sprintf("/etc/ld.so.conf.d/%d.conf", i), "")
			}
		}, "more than"},
		"too many patterns": {func(w *world) {
			w.write("/etc/ld.so.conf", strings.Repeat("include /etc/ld.so.conf\n", maxConfFiles+1))
		}, "more than"},
		"too many directories": {func(w *world) {
			var text strings.Builder
			for i := range maxDirs + 1 {
				w.mkdir(fmt.Sprintf("%s/opt/%d", w.root, i))
				fmt.Fprintf(&text, "/opt/%d\n", i)
			}
			w.write("/etc/ld.so.conf", text.String())
		}, "more than"},
		"link loop": {func(w *world) { w.link("a.conf", "/etc/ld.so.conf.d/a.conf") }, "symbolic links"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.library("/own/libx.so.1", "libx.so.1")
			c.make(w)
			err := w.open().UpdateCache([]string{"/own"})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if c.want == "" && w.cached("libx.so.1") != "/own/libx.so.1" {
				t.Errorf("%+v", w.entries())
			}
		})
	}
}

// TestHugeAndDeep: a file that is all hole, a deep tree, a very long name.
func TestHugeAndDeep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.library("/opt/libx.so.1.2", "libx.so.1")
	w.check(os.Truncate(w.root+"/opt/libx.so.1.2", 1<<40))
	w.write("/opt/libhole.so.1", "")
	w.check(os.Truncate(w.root+"/opt/libhole.so.1", 1<<40))
	deep := "/opt" + strings.Repeat("/d", 1000)
	w.mkdir(w.root + deep)
	w.library(deep+"/liby.so.1.2", "liby.so.1")
	long := "lib" + strings.Repeat("z", 249) + ".so"
	w.library("/opt/"+long, long)
	r := w.open()
	w.check(r.UpdateCache([]string{"/opt", deep}))
	w.check(r.CreateSymlinks([]Link{{"x", deep + strings.Repeat("/e", 900)}, {"new", "/opt/" + long}, {"newer", "/opt/" + long}}))
	if len(w.entries()) != 3 || w.cached("libx.so.1") != "/opt/libx.so.1" || w.cached(long) != "/opt/"+long {
		t.Errorf("%+v", w.entries())
	}
}

// TestBounds: what an image can make very many of takes no more of the host's
// memory than a few hundred directories of libraries need.
func TestBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.open()
	w.write("/etc/ld.so.conf", strings.Repeat("/a\n", 100_000))
	if _, err := r.confDirs(); err == nil || !strings.Contains(err.Error(), "directories") {
		t.Errorf("a configuration of very many directories: %v", err)
	}
	w.write("/etc/ld.so.conf", "include /*/"+strings.Repeat("x/", 300_000)+"\ninclude "+strings.Repeat("y", 5000)+"\n/lib\n")
	if dirs, err := r.confDirs(); err != nil || len(dirs) != 1 {
		t.Errorf("patterns longer than any path: %q, %v", dirs, err)
	}
	w.library("/lib/liba.so.1", "liba.so.1")
	s := newScan(r)
	defer s.close()
	s.room = 10
	w.check(s.addAll([]string{"/lib"}, true))
	s.dirs[0].folder = false
	if err := s.run(); err == nil || !strings.Contains(err.Error(), "libraries") {
		t.Errorf("more libraries than there is room for: %v", err)
	}
	w.link(strings.Repeat("a/", 2000), "/lib/liblong.so")
	d, err := r.open("/lib", unix.O_RDONLY|unix.O_DIRECTORY)
	w.check(err)
	defer unix.Close(d)
	l, err := newListing(r, scanDir{fd: d, path: "/lib"})
	w.check(err)
	if target, ok := l.targets["liblong.so"]; !ok || target != "" {
		t.Errorf("a link that leads out of its directory is kept: %d bytes, %v", len(target), ok)
	}
}

// TestForeignContainer: the cache is in the byte order of who reads it.
func TestForeignContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := library("libx.so.1")
	swap(b)
	w.write("/opt/libx.so.1.2", string(b))
	w.check(w.open().UpdateCache([]string{"/opt"}))
	data, err := os.ReadFile(w.root + "/etc/ld.so.cache")
	w.check(err)
	if data[28] != 3 || w.cached("libx.so.1") != "/opt/libx.so.1" {
		t.Errorf("byte order %d, %+v", data[28], w.entries())
	}
}

// swap turns what library made into one for a big-endian s390x.
func swap(b []byte) {
	b[5] = 2
	le, be := binary.LittleEndian, binary.BigEndian
	for at := 16; at < 20; at += 2 {
		be.PutUint16(b[at:], le.Uint16(b[at:]))
	}
	be.PutUint16(b[18:], 22)
	for _, at := range []int{20, 48, 64, 68} {
		be.PutUint32(b[at:], le.Uint32(b[at:]))
	}
	for at := 52; at < 64; at += 2 {
		be.PutUint16(b[at:], le.Uint16(b[at:]))
	}
	for _, at := range []int{24, 32, 40} {
		be.PutUint64(b[at:], le.Uint64(b[at:]))
	}
	for at := 72; at < 64+56+48; at += 8 {
		be.PutUint64(b[at:], le.Uint64(b[at:]))
	}
}

func TestFolderThatIsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("/opt/file", "")
	if err := w.open().UpdateCache([]string{"/opt/file"}); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("%v", err)
	}
	for _, s := range []string{"/a=b", "", "opt", "/opt/../x", "/opt#x", "/a\n/b", "/opt "} {
		if got, err := ParseFolder(s); err == nil {
			t.Errorf("%q is taken for %q", s, got)
		}
	}
	if got, err := ParseFolder("/opt//lib/"); err != nil || got != "/opt/lib" {
		t.Errorf("%q, %v", got, err)
	}
}
