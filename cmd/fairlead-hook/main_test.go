package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program is the built hook.
var program string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = dir + "/fairlead-hook"
	if err := build(program, "", "."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build builds a program as the hook is released, but for what is stamped.
func build(file, stamp, source string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= "+stamp, "-o", file, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// container is one that a runtime would call the hook for.
type container struct {
	t      testing.TB
	root   string
	bundle string
}

func newContainer(t testing.TB) *container {
	t.Helper()
	c := &container{t: t, bundle: t.TempDir()}
	c.root = c.bundle + "/rootfs"
	c.mkdir("/etc/ld.so.conf.d")
	c.mkdir("/usr/lib")
	c.write(c.bundle+"/config.json", `{"ociVersion":"1.0.2","root":{"path":"rootfs"}}`)
	return c
}

func (c *container) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *container) mkdir(dir string) { c.t.Helper(); c.check(os.MkdirAll(c.root+dir, 0o755)) }

func (c *container) write(name, text string) {
	c.t.Helper()
	c.check(os.WriteFile(name, []byte(text), 0o644))
}

func (c *container) state() string {
	return fmt.Sprintf(`{"ociVersion":"1.0.2","id":"test","status":"creating","pid":1,"bundle":%q}`, c.bundle)
}

// call runs the hook as a runtime does, from a directory and with an environment
// that should not matter.
func (c *container) call(stdin io.Reader, args ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	cmd := exec.Command(program, args...)
	var out, talk bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &talk
	cmd.Dir = "/"
	cmd.Env = []string{"LD_PRELOAD=/evil.so", "LD_LIBRARY_PATH=/evil", "PATH=/evil", "HOME=/evil"}
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		c.t.Fatal(err)
	}
	return out.String(), talk.String(), cmd.ProcessState.ExitCode()
}

// do runs a hook that must succeed.
func (c *container) do(args ...string) {
	c.t.Helper()
	if stdout, stderr, code := c.call(strings.NewReader(c.state()), args...); code != 0 || stdout+stderr != "" {
		c.t.Fatalf("%q: exit code %d\n%s%s", args, code, stdout, stderr)
	}
}

func (c *container) readlink(name string) string {
	c.t.Helper()
	target, err := os.Readlink(c.root + name)
	c.check(err)
	return target
}

// TestSpellings: flags as the specification writes them, and as others do.
//
// Req: CDI-102, CDI-107, CDI-113, CDI-119
func TestSpellings(t *testing.T) {
	t.Parallel()
	c := newContainer(t)
	c.do("create-symlinks", "--link=a::/usr/1", "--link", "b::/usr/2", "-link=c::/usr/3", "-link", "d::/usr/4")
	for name, want := range map[string]string{"/usr/1": "a", "/usr/2": "b", "/usr/3": "c", "/usr/4": "d"} {
		if got := c.readlink(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	c.mkdir("/dev/dri/by-path")
	c.do("chmod", "--mode", "711", "--path", "/dev/dri", "--path=/dev/dri/by-path")
	c.do("chmod", "--mode=711", "--path=/dev/dri")
	for _, name := range []string{"/dev/dri", "/dev/dri/by-path"} {
		if info, err := os.Stat(c.root + name); err != nil || info.Mode().Perm() != 0o711 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	c.do("update-ldcache", "--folder=/usr/lib", "--folder", "/opt/lib")
	c.do("update-ldcache")
}

// TestErrors: each says in one line what is wrong, and the exit code says that
// something is.
func TestErrors(t *testing.T) {
	t.Parallel()
	c := newContainer(t)
	c.mkdir("/usr/dir")
	c.mkdir("/etc/ld.so.cache")
	for _, test := range []struct {
		args  string
		stdin string
		code  int
		want  string
	}{
		{"", "", 2, "want create-symlinks, update-ldcache or chmod"},
		{"ldconfig", "", 2, "want create-symlinks"},
		{"create-symlinks", "", 2, "--link is required"},
		{"create-symlinks --link", "", 2, "link"},
		{"create-symlinks --link=a", "", 2, "TARGET::PATH"},
		{"create-symlinks --link=a::b", "", 2, "absolute"},
		{"create-symlinks --link=a::/b/../c", "", 2, `".."`},
		{"create-symlinks --link=a::/b --force", "", 2, "force"},
		{"create-symlinks --link=a::/b more", "", 2, `"more"`},
		{"update-ldcache --folder=lib", "", 2, "absolute"},
		{"chmod --mode=755", "", 2, "--path is required"},
		{"chmod --path=/dev", "", 2, "--mode is required"},
		{"chmod --path=/dev --mode=rwx", "", 2, "octal"},
		{"create-symlinks --link=a::/b", "", 1, "stdin is empty"},
		{"create-symlinks --link=a::/b", "nonsense", 1, "read container state"},
		{"create-symlinks --link=a::/b", `{"ociVersion":"1","id":"x","bundle":"/none"}`, 1, "/none/config.json"},
		{"create-symlinks --link=a::/usr/dir", c.state(), 1, "create link /usr/dir to a: is a directory"},
		{"chmod --mode=755 --path=/none", c.state(), 1, "change mode of /none"},
		{"update-ldcache", c.state(), 1, "write /etc/ld.so.cache"},
	} {
		stdout, stderr, code := c.call(strings.NewReader(test.stdin), strings.Fields(test.args)...)
		if code != test.code || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 ||
			!strings.HasPrefix(stderr, "fairlead-hook") || stdout != "" {
			t.Errorf("%s: exit code %d, want %d\n%s%swant %q", test.args, code, test.code, stdout, stderr, test.want)
		}
	}
	for _, arg := range []string{"--help", "--version"} {
		if stdout, stderr, code := c.call(nil, arg); code != 0 || stdout == "" || stderr != "" {
			t.Errorf("%s: exit code %d\n%s%s", arg, code, stdout, stderr)
		}
	}
}

// TestOneLine: an image chooses names; they do not steer the terminal of who
// reads the error.
func TestOneLine(t *testing.T) {
	t.Parallel()
	c := newContainer(t)
	c.mkdir("/usr/\x1b[2Jdir")
	_, stderr, code := c.call(strings.NewReader(c.state()), "create-symlinks", "--link=a::/usr/\x1b[2Jdir")
	if code != 1 || strings.ContainsRune(stderr, 0x1b) {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// TestBinary: it needs nothing of the container or the host, and is small.
func TestBinary(t *testing.T) {
	t.Parallel()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Error("it is not static")
		}
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 4<<20 {
		t.Errorf("it has %d bytes", info.Size())
	}
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range strings.Fields(string(out)) {
		if !strings.HasPrefix(pkg, "golang.org/x/sys/") && !strings.HasPrefix(pkg, "github.com/fairlead/fairlead/") {
			t.Errorf("it imports %s", pkg)
		}
	}
}

// TestMapsNothing: with an environment that an image wrote, nothing but the
// program itself is mapped or run while it waits for its state.
func TestMapsNothing(t *testing.T) {
	t.Parallel()
	c := newContainer(t)
	r, w, err := os.Pipe()
	c.check(err)
	defer func() { _ = w.Close() }()
	cmd := exec.Command(program, "create-symlinks", "--link=a::/b")
	cmd.Stdin = r
	cmd.Env = []string{"LD_PRELOAD=/evil.so"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.check(cmd.Start())
	_ = r.Close()
	maps := wait(t, func() (string, bool) {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", cmd.Process.Pid))
		return string(text), strings.Contains(string(stat), ") S ")
	})
	for line := range strings.Lines(maps) {
		if fields := strings.Fields(line); len(fields) > 5 && strings.HasPrefix(fields[5], "/") && fields[5] != program {
			t.Errorf("it maps %s", fields[5])
		}
	}
	_, err = io.WriteString(w, c.state())
	c.check(err)
	c.check(w.Close())
	c.check(cmd.Wait())
	if got := c.readlink("/b"); got != "a" {
		t.Errorf("%q", got)
	}
}

// TestDeadline: a runtime that never says which container it is about does not
// get a hook that never ends.
func TestDeadline(t *testing.T) {
	t.Parallel()
	c := newContainer(t)
	hurried := t.TempDir() + "/fairlead-hook"
	c.check(build(hurried, "-X main.deadline=100ms", "."))
	r, w, err := os.Pipe()
	c.check(err)
	defer func() { _, _ = r.Close(), w.Close() }()
	cmd := exec.Command(hurried, "update-ldcache")
	cmd.Stdin = r
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), "not done after 100ms") {
		t.Errorf("%v\n%s", err, out)
	}
}

// wait watches until there is what is waited for.
func wait[T any](t testing.TB, see func() (T, bool)) T {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		v, ok := see()
		if ok {
			return v
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited too long; last seen: %v", v)
		}
		<-time.After(time.Millisecond)
	}
}

// libraries copies the shared libraries of this machine into a container, as
// hard links where that can be: nothing writes to them.
func (c *container) libraries(dirs ...string) {
	c.t.Helper()
	for _, dir := range dirs {
		c.mkdir(dir)
		names, _ := filepath.Glob(dir + "/*.so*")
		for _, name := range names {
			c.copy(name, c.root+name)
		}
	}
}

func (c *container) copy(from, to string) {
	c.t.Helper()
	info, err := os.Lstat(from)
	c.check(err)
	c.check(os.MkdirAll(filepath.Dir(to), 0o755))
	switch {
	case info.Mode().Type() == os.ModeSymlink:
		target, err := os.Readlink(from)
		c.check(err)
		c.check(os.Symlink(target, to))
	case !info.Mode().IsRegular():
	case os.Link(from, to) != nil:
		data, err := os.ReadFile(from)
		c.check(err)
		c.check(os.WriteFile(to, data, info.Mode().Perm()))
	}
}
