package hook

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Req: CDI-102
func TestParseLink(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]Link{
		"a::/b":                        {"a", "/b"},
		"../lib/x.so.1::/usr/lib/x.so": {"../lib/x.so.1", "/usr/lib/x.so"},
		"/a::/b//c/./d/":               {"/a", "/b/c/d"},
		"a:b::/c:d":                    {"a:b", "/c:d"},
	} {
		if got, err := ParseLink(s); err != nil || got != want {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "a", "::", "a::", "::/b", "a::b", "a::/b::/c", "a::/", "a::/b/../c", "a::/..", "a::/b\x00", strings.Repeat("x", 4096) + "::/b"} {
		if got, err := ParseLink(s); err == nil {
			t.Errorf("%q is taken for %+v", s, got)
		}
	}
}

func FuzzParseLink(f *testing.F) {
	f.Add("a::/b")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLink(s)
		if err != nil {
			return
		}
		if again, err := ParseLink(l.Target + "::" + l.Path); err != nil || again != l {
			t.Errorf("%q: %+v, then %+v, %v", s, l, again, err)
		}
	})
}

// Req: CDI-100, CDI-103, CDI-104, CDI-107, CDI-110
func TestCreateSymlinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.watch()
	w.write("/usr/lib/file", "x")
	w.link("old", "/usr/lib/link")
	w.link("/usr/lib", "/usr/to-dir")
	w.check(unix.Mkfifo(w.root+"/usr/lib/fifo", 0o600))
	links := []Link{
		{"libx.so.1", "/opt/a/b/c/libx.so"}, // parents are made, the target need not exist
		{"new", "/usr/lib/file"},
		{"new", "/usr/lib/link"},
		{"/new", "/usr/lib/fifo"},
		{"new", "/usr/to-dir"}, // the link itself, not something in what it leads to
		{"twice", "/usr/lib/twice"},
		{"other", "/usr/lib/twice"},
	}
	r := w.open()
	for range 2 {
		w.check(r.CreateSymlinks(links))
		want := "lib/fifo -> /new\nlib/file -> new\nlib/link -> new\nlib/twice -> other\nto-dir -> new\n"
		if got := w.links("/usr"); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if got := w.links("/opt"); got != "a/b/c/libx.so -> libx.so.1\n" {
			t.Errorf("%q", got)
		}
	}
	info, err := os.Stat(w.root + "/opt/a/b")
	w.check(err)
	if info.Mode().Perm() != 0o755 {
		t.Errorf("a new directory has mode %v", info.Mode())
	}
}

// TestRepeat: what is right already is not touched, so that a repeat cannot
// fail where the first time did not.
func TestRepeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := []Link{{"a", "/usr/lib/b"}}
	r := w.open()
	w.check(r.CreateSymlinks(l))
	before := inode(t, w.root+"/usr/lib/b")
	w.check(r.CreateSymlinks(l))
	if inode(t, w.root+"/usr/lib/b") != before {
		t.Error("the link was made again")
	}
	// A run that was killed leaves the link's other name.
	w.link("half", "/usr/lib/.fairlead-hook~b")
	w.check(r.CreateSymlinks([]Link{{"c", "/usr/lib/b"}}))
	if got := w.links("/usr/lib"); got != "b -> c\n" {
		t.Errorf("%q", got)
	}
}

func TestCreateSymlinksRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.watch()
	w.mkdir(w.root + "/usr/lib/dir")
	w.write("/usr/file", "")
	w.link("nowhere", "/usr/dangling")
	w.link("loop", "/usr/loop")
	r := w.open()
	for _, c := range []struct {
		link Link
		want error
	}{
		{Link{"a", "/usr/lib/dir"}, unix.EISDIR},
		{Link{"a", "/usr/file/x"}, unix.ENOTDIR},
		{Link{"a", "/usr/dangling/x"}, unix.ENOENT},
		{Link{"a", "/usr/loop/x"}, unix.ELOOP},
		{Link{"a", "/usr/" + strings.Repeat("x", 256)}, unix.ENAMETOOLONG},
	} {
		err := r.CreateSymlinks([]Link{c.link})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.link.Path) {
			t.Errorf("%+v: %v, want %v", c.link, err, c.want)
		}
	}
	if got := w.links("/usr"); got != "dangling -> nowhere\nloop -> loop\n" {
		t.Errorf("left behind: %q", got)
	}
}

func TestChmod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.watch()
	w.mkdir(w.root + "/dev/dri")
	w.write("/dev/dri/card0", "")
	w.link("/dev/dri/card0", "/dev/card")
	w.link(w.outside+"/file", "/dev/escape")
	w.check(os.Link(w.outside+"/file", w.root+"/dev/hard"))
	w.before = w.snapshot()
	r := w.open()
	for range 2 {
		w.check(r.Chmod([]string{"/dev/dri", "/dev/card"}, 0o711))
	}
	for _, name := range []string{"/dev/dri", "/dev/dri/card0"} {
		if info, err := os.Stat(w.root + name); err != nil || info.Mode().Perm() != 0o711 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if err := r.Chmod([]string{"/dev/none"}, 0o755); !errors.Is(err, unix.ENOENT) {
		t.Errorf("what does not exist: %v", err)
	}
	if err := r.Chmod([]string{"/dev/escape"}, 0o755); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a link that would lead outside: %v", err)
	}
	if err := r.Chmod([]string{"/dev/hard"}, 0o755); err == nil || !strings.Contains(err.Error(), "hard links") {
		t.Errorf("a file that has a name outside: %v", err)
	}
	for _, s := range []string{"", "888", "4755", "2755", "-1", "u+x", "0o755"} {
		if mode, err := ParseMode(s); err == nil {
			t.Errorf("mode %q is taken for %#o", s, mode)
		}
	}
	if mode, err := ParseMode("0755"); err != nil || mode != 0o755 {
		t.Errorf("mode 0755: %#o, %v", mode, err)
	}
}
