package main

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"

	"github.com/fairlead/fairlead/internal/ldcache"
)

// tool is a dynamically linked program that needs a library besides libc.
const tool = "/bin/ls"

// injected is where a device puts libraries that the image lacks.
const injected = "/opt/injected"

// runcContainer is a real container: the tool with its libraries but one, which
// is bind mounted as a device would do it, under a name that is not its SONAME.
type runcContainer struct {
	*container
	soname string
	config map[string]any
}

func newRuncContainer(t *testing.T) *runcContainer {
	t.Helper()
	if os.Getuid() != 0 {
		testenv.Lacks(t, "runc needs root here")
	}
	if _, err := exec.LookPath("runc"); err != nil {
		if os.Getenv("FAIRLEAD_TEST_PREREQUISITES") != "" {
			t.Fatal(err)
		}
		testenv.Lacks(t, err)
	}
	c := &runcContainer{container: newContainer(t)}
	c.check(os.Remove(c.bundle + "/config.json"))
	for _, dir := range []string{"/proc", "/dev", "/tmp", "/bin", injected} {
		c.mkdir(dir)
	}
	libraries := c.install(tool)
	var source string
	for _, name := range needed(t, tool) {
		if !strings.HasPrefix(name, "libc.so") && !strings.HasPrefix(name, "ld-") {
			c.soname, source = name, libraries[name]
		}
	}
	if c.soname == "" {
		testenv.Lacksf(t, "%s needs no library but libc", tool)
	}
	c.check(os.Remove(c.root + source))
	c.config = map[string]any{
		"ociVersion": "1.0.2",
		"root":       map[string]any{"path": "rootfs"},
		"process":    map[string]any{"cwd": "/", "args": []string{tool, "/"}, "env": []string{"PATH=/bin", "LD_PRELOAD=/tmp/evil.so"}, "user": map[string]any{"uid": 0, "gid": 0}},
		"mounts": []map[string]any{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
			{"destination": injected + "/library.so.1.2.3", "source": source, "options": []string{"bind", "ro"}},
		},
		"linux": map[string]any{
			"cgroupsPath": "/fairlead-" + filepath.Base(filepath.Dir(c.bundle)) + filepath.Base(c.bundle),
			"namespaces":  []map[string]string{{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}},
		},
	}
	return c
}

// needed are the libraries that an ELF file names.
func needed(t testing.TB, name string) []string {
	t.Helper()
	f, err := elf.Open(name)
	if err != nil {
		testenv.Lacks(t, err)
	}
	defer func() { _ = f.Close() }()
	names, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// install copies a program and all that it needs, and returns where.
func (c *runcContainer) install(program string) map[string]string {
	c.t.Helper()
	data, err := os.ReadFile("/etc/ld.so.cache")
	if err != nil {
		testenv.Lacks(c.t, err)
	}
	entries, err := ldcache.Parse(data)
	c.check(err)
	places := map[string]string{}
	for i := len(entries) - 1; i >= 0; i-- {
		places[entries[i].Name] = entries[i].Path
	}
	libraries := map[string]string{}
	c.copyFile(program)
	c.copyFile(interpreter(c.t, program))
	for todo := needed(c.t, program); len(todo) > 0; todo = todo[1:] {
		name := todo[0]
		if libraries[name] == "" {
			libraries[name] = places[name]
			c.copyFile(places[name])
			todo = append(todo, needed(c.t, places[name])...)
		}
	}
	return libraries
}

func interpreter(t testing.TB, name string) string {
	t.Helper()
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	data, err := f.Section(".interp").Data()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(string(data), "\x00")
}

// copyFile copies a file and follows links.
func (c *runcContainer) copyFile(name string) {
	c.t.Helper()
	data, err := os.ReadFile(name)
	c.check(err)
	c.check(os.MkdirAll(filepath.Dir(c.root+name), 0o755))
	c.check(os.WriteFile(c.root+name, data, 0o755))
}

// run runs the container with these createContainer hooks.
func (c *runcContainer) run(hooks ...[]string) (string, error) {
	c.t.Helper()
	var entries []map[string]any
	for _, args := range hooks {
		entries = append(entries, map[string]any{
			"path": program, "args": append([]string{filepath.Base(program)}, args...), "env": []string{"FAIRLEAD=1"}, "timeout": 60,
		})
	}
	c.config["hooks"] = map[string]any{"createContainer": entries}
	text, err := json.Marshal(c.config)
	c.check(err)
	c.write(c.bundle+"/config.json", string(text))
	state, err := os.MkdirTemp("", "fl")
	c.check(err)
	defer func() { c.check(os.RemoveAll(state)) }()
	out, err := exec.Command("runc", "--root", state, "run", "--bundle", c.bundle, filepath.Base(state)).CombinedOutput()
	return string(out), err
}

// TestContainer: in a real container an injected library is found by its SONAME
// once the hook ran, and not before; links and modes are there when its program
// starts.
//
// Req: CDI-100, CDI-105, CDI-106, CDI-109, CDI-111, CDI-114, CDI-115, CDI-117, CDI-122
func TestContainer(t *testing.T) {
	t.Parallel()
	c := newRuncContainer(t)
	c.write(c.root+"/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
	c.write(c.root+"/etc/ld.so.cache", "")
	out, err := c.run()
	if err == nil || !strings.Contains(out, c.soname) {
		t.Fatalf("without the hook: %v\n%s", err, out)
	}
	update := []string{"update-ldcache", "--folder=" + injected}
	for range 2 { // a container may be started again
		out, err = c.run(update,
			[]string{"create-symlinks", "--link=" + c.soname + "::" + injected + "/compiler.so", "--link", "../null::/dev/dri/by-path/card"},
			[]string{"chmod", "--mode", "751", "--path", "/dev/dri"})
		if err != nil || !strings.Contains(out, "proc") {
			t.Fatalf("with the hooks: %v\n%s", err, out)
		}
	}
	if got := c.readlink(injected + "/" + c.soname); got != "library.so.1.2.3" && got != "compiler.so" {
		t.Errorf("%s -> %s", c.soname, got)
	}
	if got := c.readlink(injected + "/compiler.so"); got != c.soname {
		t.Errorf("compiler.so -> %s", got)
	}
	// What was made in the container's own /dev is seen there only.
	c.config["process"].(map[string]any)["args"] = []string{tool, "-ld", "/dev/dri", "/dev/dri/by-path/card"}
	out, err = c.run(update, []string{"create-symlinks", "--link=../null::/dev/dri/by-path/card"}, []string{"chmod", "--mode=751", "--path=/dev/dri"})
	if err != nil || !strings.Contains(out, "drwxr-x--x") || !strings.Contains(out, "/dev/dri/by-path/card -> ../null") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Lstat(c.root + "/dev/dri"); err == nil {
		t.Error("the hook worked below the container's mounts")
	}
}

// TestContainerFails: the runtime says what the hook said, and starts nothing.
//
// Req: CDI-127
func TestContainerFails(t *testing.T) {
	t.Parallel()
	c := newRuncContainer(t)
	out, err := c.run([]string{"chmod", "--mode=755", "--path=/none"})
	if err == nil || !strings.Contains(out, "change mode of /none to 0755: no such file or directory") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestContainerHostile: an image that leads the hooks' paths to a directory of
// the host, by links and by a volume of the container.
//
// Req: CDI-108, CDI-121
func TestContainerHostile(t *testing.T) {
	t.Parallel()
	c := newRuncContainer(t)
	outside := t.TempDir()
	for link, target := range map[string]string{"/usr/evil": outside, "/usr/volume": "/data", "/lib64/none": outside} {
		c.check(os.MkdirAll(filepath.Dir(c.root+link), 0o755))
		c.check(os.Symlink(target, c.root+link))
	}
	c.mkdir("/data")
	c.config["mounts"] = append(c.config["mounts"].([]map[string]any), map[string]any{
		"destination": "/data", "type": "bind", "source": outside, "options": []string{"rbind", "rw"},
	})
	for _, hook := range [][]string{
		{"create-symlinks", "--link=x::/usr/evil/x"},
		{"create-symlinks", "--link=x::/usr/volume/x"},
		{"chmod", "--mode=777", "--path=/usr/volume"},
	} {
		if out, err := c.run(hook); err == nil {
			t.Errorf("%q: %s", hook, out)
		}
	}
	entries, err := os.ReadDir(outside)
	c.check(err)
	info, err := os.Stat(outside)
	c.check(err)
	if len(entries) > 0 || info.Mode().Perm() == 0o777 {
		t.Errorf("outside: %v, mode %v", entries, info.Mode())
	}
}
