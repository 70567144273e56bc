package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/ldcache"
	"github.com/fairlead/fairlead/internal/testenv"
)

// hookProgram is the hook as "make build" makes it, built when first needed.
var hookProgram = sync.OnceValues(func() (string, error) { return build("fairlead-hook", "../../cmd/fairlead-hook") })

// Where a device puts its library: a directory that no dynamic linker looks
// into, under a name that no program asks for.
const (
	libraryDir    = "/opt/device/lib"
	libraryFile   = libraryDir + "/libdevice.so.1.2.3"
	librarySoname = "libdevice.so.1"
	libraryAnswer = "the library answers"
)

// library is a vendor's shared library, and an image with a program that is
// linked to it.
type library struct {
	h             *host
	path, program string
}

func newLibrary(h *host) library {
	h.t.Helper()
	needsRoot(h.t)
	needs(h.t, "runc", "cc", "ldd")
	dir := tempDir(h.t, "")
	l := library{h: h, path: dir + "/" + filepath.Base(libraryFile), program: dir + "/program"}
	l.compile(`const char *device(void) { return "`+libraryAnswer+`"; }`,
		"-shared", "-fPIC", "-Wl,-soname,"+librarySoname, "-x", "c", "-", "-o", l.path)
	l.compile(`const char *device(void); int puts(const char *); int main(void) { return puts(device()) < 0; }`,
		"-x", "c", "-", "-x", "none", l.path, "-o", l.program)
	return l
}

func (l library) compile(source string, flags ...string) {
	l.h.t.Helper()
	if r := l.h.exec(source, append([]string{"cc"}, flags...)...); r.code != 0 {
		testenv.Lacksf(l.h.t, "cc: %s", r)
	}
}

// image fills a root file system: the program and what it needs of libc, and a
// cache in which nothing is.
func (l library) image(root string) {
	l.h.t.Helper()
	files := regexp.MustCompile(`/\S+`).FindAllString(l.h.exec("", "ldd", l.program).stdout, -1)
	if len(files) == 0 {
		l.h.t.Fatal("ldd names no file")
	}
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(root+f), 0o755); err != nil {
			l.h.t.Fatal(err)
		}
		write(l.h.t, root+f, read(l.h.t, f), 0o755)
	}
	write(l.h.t, root+"/program", read(l.h.t, l.program), 0o755)
	if err := os.MkdirAll(root+"/etc", 0o755); err != nil {
		l.h.t.Fatal(err)
	}
	write(l.h.t, root+"/etc/ld.so.cache", "", 0o644)
}

// spec writes a CDI spec of two devices: one mounts the library, the other has
// the standard hooks besides.
func (l library) spec(path, version, kind string) {
	l.h.t.Helper()
	hook, err := hookProgram()
	if err != nil {
		l.h.t.Fatal(err)
	}
	entry := func(args ...string) map[string]any {
		return map[string]any{
			"hookName": "createContainer", "path": hook, "env": []string{"LC_ALL=C"}, "args": append([]string{filepath.Base(hook)}, args...),
		}
	}
	mounts := []any{map[string]any{"hostPath": l.path, "containerPath": libraryFile, "options": []string{"ro", "nosuid", "nodev", "bind"}}}
	text, err := json.Marshal(map[string]any{"cdiVersion": version, "kind": kind, "devices": []any{
		map[string]any{"name": "mounted", "containerEdits": map[string]any{"mounts": mounts}},
		map[string]any{"name": "whole", "containerEdits": map[string]any{"mounts": mounts, "hooks": []any{
			entry("create-symlinks", "--link="+librarySoname+"::"+libraryDir+"/libdevice.so"),
			entry("update-ldcache", "--folder="+libraryDir),
		}}},
	}})
	if err != nil {
		l.h.t.Fatal(err)
	}
	write(l.h.t, path, string(text), 0o644)
}

// check runs the program in containers: it starts when the device has the hooks,
// and the container's cache and links say why; the host's cache is left alone.
func (l library) check(root string, run func(device string) result) {
	t := l.h.t
	t.Helper()
	host, _ := os.ReadFile("/etc/ld.so.cache")
	for _, device := range []string{"", "mounted"} {
		if r := run(device); r.code == 0 || !strings.Contains(r.stdout+r.stderr, librarySoname+": cannot open shared object file") {
			t.Errorf("without the hooks, with device %q: %s", device, r)
		}
	}
	for range 2 { // a container may be started again
		if r := run("whole"); r.code != 0 || strings.TrimSpace(r.stdout) != libraryAnswer {
			t.Errorf("with the hooks: %s", r)
		}
	}
	entries, err := ldcache.Parse([]byte(read(t, root, "/etc/ld.so.cache")))
	if err != nil {
		t.Fatal(err)
	}
	found := func(e ldcache.Entry) bool { return e.Name == librarySoname && e.Path == libraryDir+"/"+librarySoname }
	if !slices.ContainsFunc(entries, found) {
		t.Errorf("the cache has %+v", entries)
	}
	for link, want := range map[string]string{librarySoname: filepath.Base(libraryFile), "libdevice.so": librarySoname} {
		if got, err := os.Readlink(root + libraryDir + "/" + link); got != want {
			t.Errorf("%s -> %q, %v", link, got, err)
		}
	}
	if after, _ := os.ReadFile("/etc/ld.so.cache"); string(after) != string(host) {
		t.Error("the cache of the host has changed")
	}
}

// TestLibraryPodman: podman reads the spec, and runc runs the hooks.
//
// Req: CDI-100, CDI-101, CDI-102, CDI-105, CDI-106, CDI-109
// Req: CDI-111, CDI-112, CDI-113, CDI-114, CDI-115, CDI-117, CDI-122
func TestLibraryPodman(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	p := newPodman(h)
	l := newLibrary(h)
	l.image(p.root)
	kind := "example.com/e2e-" + claim.NewUID()[:8] // others may use the directory too
	useSystemCDI(t)
	spec := filepath.Join(systemCDI, strings.ReplaceAll(kind, "/", "-")+".json")
	t.Cleanup(func() { _ = os.Remove(spec) })
	l.spec(spec, "0.3.0", kind)
	l.check(p.root, func(device string) result {
		line := append(slices.Clone(p.flags), "run", "--rm", "--network=none")
		if device != "" {
			line = append(line, "--device="+kind+"="+device)
		}
		return h.exec("", append(line, "--rootfs", p.root, "/program")...)
	})
}

// TestLibraryRunc: "fairlead cdi inject" puts the device into the configuration
// that "runc spec" makes, with a spec that podman would be too old for.
//
// Req: CDI-098, CDI-100, CDI-101, CDI-102, CDI-105, CDI-106, CDI-109
// Req: CDI-111, CDI-112, CDI-113, CDI-114, CDI-115, CDI-117, CDI-122
func TestLibraryRunc(t *testing.T) {
	t.Parallel()
	b := newBundle(newLibrary(newHost(t)))
	b.l.spec(b.specs+"/device.yaml", "0.8.0", "example.com/library")
	b.l.check(b.dir+"/rootfs", func(device string) result {
		if device == "" {
			return b.run()
		}
		return b.run("example.com/library=" + device)
	})
}

// TestResourceAbsent: what a spec names may be missing when it is written and
// when it is injected; the container that needs it does not start, and says why.
//
// Req: CDI-125, CDI-126, CDI-127
func TestResourceAbsent(t *testing.T) {
	t.Parallel()
	b := newBundle(newLibrary(newHost(t)))
	absent := b.specs + "/not-installed"
	write(t, b.specs+"/device.json", `{"cdiVersion": "0.3.0", "kind": "example.com/absent", "devices": [
		{"name": "mount", "containerEdits": {"mounts": [{"hostPath": "`+absent+`", "containerPath": "/x", "options": ["ro", "bind"]}]}},
		{"name": "hook", "containerEdits": {"hooks": [{"hookName": "createContainer", "path": "`+absent+`", "env": ["LC_ALL=C"]}]}},
		{"name": "failing", "containerEdits": {"hooks": [{"hookName": "createContainer", "path": "/bin/false", "env": ["LC_ALL=C"]}]}}]}`, 0o644)
	for device, want := range map[string]string{"mount": absent, "hook": absent, "failing": "exit status 1"} {
		if r := b.run("example.com/absent=" + device); r.code == 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("device %s, want an error that says %q: %s", device, want, r)
		}
	}
}

// bundle is what runc runs: an image, and a configuration made anew each time.
type bundle struct {
	l          library
	dir, specs string
	runs       int
}

func newBundle(l library) *bundle {
	l.h.t.Helper()
	b := &bundle{l: l, dir: tempDir(l.h.t, ""), specs: tempDir(l.h.t, "")}
	l.image(b.dir + "/rootfs")
	for _, dir := range []string{"proc", "dev", "sys"} {
		if err := os.Mkdir(filepath.Join(b.dir, "rootfs", dir), 0o755); err != nil {
			l.h.t.Fatal(err)
		}
	}
	return b
}

// run runs a container with these devices.
func (b *bundle) run(devices ...string) result {
	b.l.h.t.Helper()
	generate(b.l.h, b.dir)
	if len(devices) > 0 {
		args := append([]string{"cdi", "inject", b.dir + "/config.json"}, devices...)
		b.l.h.ok(append(args, "--spec-dir", b.specs, "--in-place")...)
	}
	b.runs++
	return b.l.h.exec("", "runc", "--root", b.dir+"/state", "run", "--bundle", b.dir, fmt.Sprintf("%s-%d", filepath.Base(b.dir), b.runs))
}

// generate makes the configuration that runc itself proposes, for the program
// and without a terminal.
func generate(h *host, bundle string) {
	h.t.Helper()
	path := bundle + "/config.json"
	_ = os.Remove(path)
	cmd := exec.Command("runc", "spec", "--bundle", bundle)
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("runc spec: %v: %s", err, out)
	}
	var config map[string]any
	if err := json.Unmarshal([]byte(read(h.t, path)), &config); err != nil {
		h.t.Fatal(err)
	}
	process := config["process"].(map[string]any)
	process["terminal"], process["args"] = false, []string{"/program"}
	text, err := json.Marshal(config)
	if err != nil {
		h.t.Fatal(err)
	}
	write(h.t, path, string(text), 0o644)
}
