package hook

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/fairlead/fairlead/internal/ldcache"
	"github.com/fairlead/fairlead/internal/testenv"

	"golang.org/x/sys/unix"
)

// attacks are root file systems that lead somewhere else. Each is given to every
// hook, with paths that go through it.
var attacks = map[string]func(w *world){
	"absolute link to a directory": func(w *world) { w.link(w.outside+"/dir", "/victim") },
	"relative link to a directory": func(w *world) {
		rel, err := filepath.Rel(w.root, w.outside+"/dir")
		w.check(err)
		w.link(rel, "/victim")
	},
	"very many ..":     func(w *world) { w.link(strings.Repeat("../", 200)+w.outside[1:]+"/dir", "/victim") },
	"chain of links":   func(w *world) { w.link("/tmp/a", "/victim"); w.link("b/..", "/tmp/a"); w.link("/../..", "/tmp/b") },
	"link to /proc":    func(w *world) { w.link("/proc/self/root"+w.outside+"/dir", "/victim") },
	"link to a file":   func(w *world) { w.link(w.outside+"/file", "/victim") },
	"dangling outside": func(w *world) { w.link(w.outside+"/none", "/victim") },
	"links in a directory": func(w *world) {
		for _, name := range []string{"libcanary.so.1", "libcanary.so", "x", "sub", "libx.so.1", "glibc-hwcaps"} {
			w.link(w.outside+"/dir/libcanary.so.1.2", "/victim/"+name)
		}
	},
	"hwcaps": func(w *world) {
		w.link(w.outside+"/dir", "/victim/glibc-hwcaps/x86-64-v2")
		w.link("../../../outside", "/victim/glibc-hwcaps/x86-64-v3")
	},
	"hard links": func(w *world) {
		w.mkdir(w.root + "/victim")
		w.check(os.Remove(w.root + "/etc/ld.so.cache"))
		for from, to := range map[string]string{
			"/ld.so.cache": "/etc/ld.so.cache", "/x.conf": "/etc/ld.so.conf.d/00-mounted-libraries.conf", "/file": "/victim/x",
		} {
			w.check(os.Link(w.outside+from, w.root+to))
		}
	},
	"/etc outside": func(w *world) {
		w.check(os.RemoveAll(w.root + "/etc"))
		w.link(w.outside, "/etc")
	},
	"cache outside": func(w *world) {
		w.check(os.Remove(w.root + "/etc/ld.so.cache"))
		w.link(w.outside+"/ld.so.cache", "/etc/ld.so.cache")
		w.link(w.outside+"/file", "/etc/.fairlead-hook~ld.so.cache")
	},
	"conf outside": func(w *world) {
		w.check(os.Remove(w.root + "/etc/ld.so.conf"))
		w.link(w.outside+"/x.conf", "/etc/ld.so.conf")
	},
	"conf.d outside": func(w *world) {
		w.check(os.RemoveAll(w.root + "/etc/ld.so.conf.d"))
		w.link("../../outside", "/etc/ld.so.conf.d")
	},
	"conf names the outside": func(w *world) {
		w.write("/etc/ld.so.conf", w.outside+"/dir\n/../../"+w.outside+"/dir\ninclude "+w.outside+"/*.conf\ninclude ../../outside/*.conf\n../outside/dir\n")
	},
	"conf file outside": func(w *world) { w.link(w.outside+"/x.conf", "/etc/ld.so.conf.d/00-mounted-libraries.conf") },
	"lib outside":       func(w *world) { w.link(w.outside+"/dir", "/lib"); w.link(w.outside+"/dir", "/lib64") },
	"SONAMEs that are paths": func(w *world) {
		for i, soname := range []string{"../../outside/dir/x", w.outside + "/dir/x", "..", ".", "a/b"} {
			w.library(fmt.Sprintf("/victim/liba%d.so", i), soname)
		}
	},
	"FIFOs and sockets": func(w *world) {
		w.mkdir(w.root + "/victim")
		for _, name := range []string{"/victim/libx.so.1", "/victim/x", "/etc/ld.so.conf.d/a.conf"} {
			w.check(unix.Mkfifo(w.root+name, 0o600))
		}
		w.check(os.Remove(w.root + "/etc/ld.so.cache"))
		w.check(unix.Mkfifo(w.root+"/etc/ld.so.cache", 0o600))
		w.check(unix.Mknod(w.root+"/victim/liby.so.1", unix.S_IFSOCK|0o600, 0))
	},
}

// hooks are all of them, with paths through /victim. What they return does not
// matter: it is what they did.
func hooks(r *Root) {
	for _, l := range []Link{
		{"x", "/victim"}, {"x", "/victim/x"}, {"x", "/victim/sub/x"}, {"x", "/victim/a/b/c"}, {"x", "/lib/x"}, {"x", "/etc/x"},
	} {
		if l.Path != "/victim" {
			_ = r.CreateSymlinks([]Link{l})
		}
	}
	_ = r.UpdateCache([]string{"/victim", "/victim/sub", "/lib"})
	_ = r.Chmod([]string{"/victim"}, 0o777)
	_ = r.Chmod([]string{"/victim/x"}, 0o777)
	_ = r.Chmod([]string{"/etc/ld.so.cache"}, 0o777)
	_ = r.CreateSymlinks([]Link{{"x", "/victim"}})
}

// Req: CDI-108, CDI-121
func TestHostileRoots(t *testing.T) {
	t.Parallel()
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			attack(w)
			w.reached = name == "hard links"
			w.watch()
			hooks(w.open())
		})
	}
}

// TestRace has somebody exchange a directory and a link to the outside, as fast
// as can be, while the hooks run.
func TestRace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.library("/usr/victim/libx.so.1.2", "libx.so.1")
	w.library("/usr/victim/sub/liby.so.1.2", "liby.so.1")
	w.link(w.outside+"/dir", "/usr/evil")
	w.link("/usr/victim", "/victim")
	w.link(w.outside+"/file", "/usr/victim2")
	w.write("/usr/file2", "x")
	w.link(w.outside, "/etc2")
	w.watch()

	var stop atomic.Bool
	var swaps atomic.Int64
	var wg sync.WaitGroup
	for _, pair := range [][2]string{{"/usr/victim", "/usr/evil"}, {"/usr/file2", "/usr/victim2"}, {"/etc", "/etc2"}} {
		wg.Go(func() {
			for !stop.Load() {
				if err := unix.Renameat2(unix.AT_FDCWD, w.root+pair[0], unix.AT_FDCWD, w.root+pair[1], unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
				swaps.Add(1)
			}
		})
	}
	r := w.open()
	for range 400 {
		_ = r.CreateSymlinks([]Link{{"x", "/usr/victim/x"}, {"y", "/victim/sub/x"}})
		_ = r.CreateSymlinks([]Link{{"y", "/usr/victim/x"}})
		_ = r.CreateSymlinks([]Link{{"y", "/victim/new/sub"}})
		_ = r.Chmod([]string{"/usr/file2"}, 0o600)
		_ = r.Chmod([]string{"/usr/file2"}, 0o666)
		_ = r.UpdateCache([]string{"/usr/victim", "/victim/sub"})
		_ = os.Remove(w.root + "/usr/victim/libx.so.1")
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d swaps", swaps.Load())
}

// inNamespace runs the rest of a test as root of a mount namespace of its own,
// whose mounts end with it.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv("FAIRLEAD_TEST_NAMESPACE") != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	if os.Getuid() != 0 {
		testenv.Lacks(t, "mounts need root")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "FAIRLEAD_TEST_NAMESPACE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
	return false
}

func (w *world) mount(source, target, kind string, flags uintptr) {
	w.t.Helper()
	w.check(unix.Mount(source, target, kind, flags, ""))
	w.t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
}

// TestMounts: an image leads a path to a directory of the host that is bind
// mounted, where the container itself may be allowed nothing. The hook changes
// nothing there, but what was made for the container only.
//
// Req: CDI-108, CDI-109, CDI-121, CDI-122
func TestMounts(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	w := newWorld(t)
	w.mount(w.root, w.root, "", unix.MS_BIND)
	for _, d := range []string{"/data", "/run", "/shm", "/usr/lib/injected"} {
		w.mkdir(w.root + d)
	}
	w.write("/dev/node", "")
	w.link("/data", "/victim")
	w.link("/run", "/var/run")
	w.mount("tmpfs", w.root+"/run", "tmpfs", 0)
	w.mount("tmpfs", w.root+"/shm", "tmpfs", 0)
	w.mkdir(w.root + "/shm/data")
	w.reached = true
	w.watch()
	w.mount(w.outside+"/dir", w.root+"/data", "", unix.MS_BIND)
	w.mount(w.outside+"/dir", w.root+"/shm/data", "", unix.MS_BIND)
	w.mount(w.outside+"/dir", w.root+"/usr/lib/injected", "", unix.MS_BIND)
	w.mount(w.outside+"/file", w.root+"/dev/node", "", unix.MS_BIND)
	r := w.open(
		Mount{"/run", "tmpfs", nil}, Mount{"/shm", "tmpfs", nil}, Mount{"/data", "bind", []string{"rbind"}},
		Mount{"/shm/data", "tmpfs", []string{"bind"}}, Mount{"/dev/node", "none", nil}, Mount{"/usr/lib/injected", "", nil},
	)

	for _, l := range []Link{
		{"x", "/victim/x"}, {"x", "/data/x"}, {"x", "/victim/new/x"}, {"x", "/shm/data/x"}, {"x", "/usr/lib/injected/x"},
	} {
		if err := r.CreateSymlinks([]Link{l}); err == nil || !strings.Contains(err.Error(), ErrForeign.Error()) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if err := r.Chmod([]string{"/dev/node"}, 0o777); err == nil || !strings.Contains(err.Error(), ErrForeign.Error()) {
		t.Errorf("chmod of a node of the host: %v", err)
	}
	w.check(r.Chmod([]string{"/dev/node"}, 0o600)) // which it has
	w.check(r.CreateSymlinks([]Link{{"x", "/var/run/a/x"}, {"x", "/shm/x"}}))
	if target, err := os.Readlink(w.root + "/run/a/x"); err != nil || target != "x" {
		t.Errorf("on a file system of the container's own: %q, %v", target, err)
	}

	// The libraries of a bind mount are read; only their links cannot be made.
	hooks(w.open())
	err := r.UpdateCache([]string{"/usr/lib/injected"})
	if err == nil || !strings.Contains(err.Error(), "/usr/lib/injected") {
		t.Errorf("a link that is needed on a mount of the host: %v", err)
	}
	if got := w.cached("libcanary.so.1"); got != "/usr/lib/injected/libcanary.so.1" {
		t.Errorf("the rest was not done: %q", got)
	}

	// Bind mounts are not replaced either.
	w.mount(w.outside+"/file", w.root+"/etc/ld.so.cache", "", unix.MS_BIND)
	if err := r.UpdateCache(nil); err == nil {
		t.Error("a cache that is bind mounted was replaced")
	}
}

// TestMountSwapped: the place of a container's own tmpfs has become a link to
// one of the host's, which a bind mount shows with all that is mounted in it.
func TestMountSwapped(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	w := newWorld(t)
	w.mount(w.root, w.root, "", unix.MS_BIND)
	for _, d := range []string{"/data", "/run", "/dev"} {
		w.mkdir(w.root + d)
	}
	w.mount("tmpfs", w.outside+"/dir", "tmpfs", 0)
	w.mkdir(w.outside + "/dir/secret")
	w.mount(w.outside, w.root+"/data", "", unix.MS_BIND|unix.MS_REC)
	w.mount("tmpfs", w.root+"/dev", "tmpfs", 0)
	w.mkdir(w.root + "/dev/shm")
	w.mount("tmpfs", w.root+"/dev/shm", "tmpfs", 0)
	w.link("/data/dir", "/data/run")
	r := w.open(Mount{"/data", "bind", []string{"rbind"}}, Mount{"/data/run", "tmpfs", nil}, Mount{"/dev", "tmpfs", nil}, Mount{"/dev/shm", "tmpfs", nil})
	if err := r.CreateSymlinks([]Link{{"x", "/data/run/x"}}); err == nil || !strings.Contains(err.Error(), ErrForeign.Error()) {
		t.Errorf("a link in a tmpfs of the host: %v", err)
	}
	if err := r.Chmod([]string{"/data/run/secret"}, 0o777); err == nil || !strings.Contains(err.Error(), ErrForeign.Error()) {
		t.Errorf("a mode in a tmpfs of the host: %v", err)
	}
	w.check(r.CreateSymlinks([]Link{{"x", "/dev/x"}, {"x", "/dev/shm/x"}}))
}

// TestDevices: nodes in an image, whose mere opening could have effects.
func TestDevices(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		testenv.Lacks(t, "device nodes need root")
	}
	w := newWorld(t)
	w.watch()
	w.mkdir(w.root + "/victim")
	for _, name := range []string{"/victim/libx.so.1", "/victim/x"} {
		w.check(unix.Mknod(w.root+name, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5)))) // endless zeros
	}
	w.link("x", "/victim/liby.so.1")
	w.check(os.Remove(w.root + "/etc/ld.so.conf"))
	w.check(unix.Mknod(w.root+"/etc/ld.so.conf", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))))
	r := w.open()
	if err := r.UpdateCache([]string{"/victim"}); err == nil || !strings.Contains(err.Error(), ErrNotRegular.Error()) {
		t.Errorf("a device as configuration: %v", err)
	}
	w.check(os.Remove(w.root + "/etc/ld.so.conf"))
	w.check(r.UpdateCache([]string{"/victim"}))
	w.check(r.Chmod([]string{"/victim/x"}, 0o666))
}

// TestSwappedLibrary: what was a file when its directory was listed is something
// else now. In a volume that others share it is not even opened.
func TestSwappedLibrary(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.library("/opt/libfile.so", "libfile.so")
	w.check(unix.Mkfifo(w.root+"/opt/libfifo.so", 0o600))
	notify, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	w.check(err)
	defer unix.Close(notify)
	_, err = unix.InotifyAddWatch(notify, w.root+"/opt/libfifo.so", unix.IN_OPEN)
	w.check(err)
	r := w.open()
	d, err := r.open("/opt", unix.O_RDONLY|unix.O_DIRECTORY)
	w.check(err)
	defer unix.Close(d)
	for _, shared := range []bool{true, false} {
		l := listing{root: r, dir: scanDir{fd: d, path: "/opt"}, shared: shared}
		var reader ldcache.Reader
		if lib := l.read(&reader, "libfile.so"); lib.Soname != "libfile.so" {
			t.Errorf("a file: %+v", lib)
		}
		if lib := l.read(&reader, "libfifo.so"); lib.Flags != 0 {
			t.Errorf("a FIFO: %+v", lib)
		}
		_, err := unix.Read(notify, make([]byte, 4096))
		if opened := err == nil; opened == shared {
			t.Errorf("shared %v: opened %v", shared, opened)
		}
	}
}

func TestOpenRoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/", "/.", "/proc/self/root", w.root + "/none", w.root + "/etc/ld.so.conf"} {
		if r, err := OpenRoot(path, nil); err == nil {
			r.Close()
			t.Errorf("%s is taken for the root of a container", path)
		}
	}
}
