package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/internal/claim"
)

// systemCDI is where podman 4 looks for specs; it can be told of no other place.
const systemCDI = "/var/run/cdi"

var systemCDIUsers struct {
	sync.Mutex
	count int
	made  bool
}

// useSystemCDI makes that directory if it is absent. The last test that uses it
// removes it then.
func useSystemCDI(t testing.TB) {
	t.Helper()
	u := &systemCDIUsers
	u.Lock()
	defer u.Unlock()
	if _, err := os.Stat(systemCDI); u.count == 0 {
		u.made = os.IsNotExist(err)
	}
	if err := os.MkdirAll(systemCDI, 0o755); err != nil {
		t.Fatal(err)
	}
	u.count++
	t.Cleanup(func() {
		u.Lock()
		defer u.Unlock()
		if u.count--; u.count == 0 && u.made {
			_ = os.Remove(systemCDI) // if it is empty
		}
	})
}

// podman runs containers from a root that holds what a test puts there, without an
// image or a registry, and keeps all that it writes in directories of the test's own.
type podman struct {
	h     *host
	flags []string
	root  string
}

func newPodman(h *host) *podman {
	h.t.Helper()
	needsRoot(h.t)
	needs(h.t, "podman", "runc")
	dir := tempDir(h.t, "")
	p := &podman{h: h, root: dir + "/root", flags: []string{
		"podman", "--root=" + dir + "/storage", "--runroot=" + h.run + "/podman", "--tmpdir=" + h.run + "/libpod",
		"--storage-driver=vfs", "--runtime=runc",
	}}
	// cgroupfs and the limits: what works in a virtual machine without systemd
	// and on one with both cgroup hierarchies.
	conf := dir + "/containers.conf"
	write(h.t, conf, `[containers]
default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
`, 0o600)
	h.env = append(h.env, "CONTAINERS_CONF="+conf)
	for _, d := range []string{"proc", "sys", "dev", "etc", "run", "tmp"} {
		if err := os.MkdirAll(filepath.Join(p.root, d), 0o755); err != nil {
			h.t.Fatal(err)
		}
	}
	return p
}

// withS3 puts a client of S3 into the containers.
func (p *podman) withS3() *podman {
	p.h.t.Helper()
	program, err := s3Program()
	if err != nil {
		p.h.t.Fatal(err)
	}
	write(p.h.t, p.root+"/s3", read(p.h.t, program), 0o755)
	return p
}

// bucket is the CDI device of a bucket.
func bucket(access string) string { return "fairlead.dev/bucket=" + access }

// run is the command line of a container with these CDI devices.
func (p *podman) run(devices []string, argv ...string) []string {
	line := append(p.flags[:len(p.flags):len(p.flags)], "run", "--rm", "-i", "--network=host")
	for _, d := range devices {
		line = append(line, "--device="+d)
	}
	return append(append(line, "--rootfs", p.root), argv...)
}

// container is one that runs and answers.
type container struct {
	t       testing.TB
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	answers *bufio.Reader
	stderr  *output
}

func (p *podman) start(device, program string) *container {
	p.h.t.Helper()
	argv := p.run([]string{device}, program)
	c := &container{t: p.h.t, cmd: p.h.command(argv...), stderr: &output{}}
	c.cmd.Stderr = c.stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.stdin, c.answers = stdin, bufio.NewReader(stdout)
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = c.stdin.Close(); _ = c.cmd.Wait() })
	return c
}

// ask has the program in the container do something.
func (c *container) ask(line, want string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.stdin, line); err != nil {
		c.t.Fatalf("%s: %v\n%s", line, err, c.stderr)
	}
	got, err := c.answers.ReadString('\n')
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", line, err, c.stderr)
	}
	if got = strings.TrimSpace(got); got != want {
		c.t.Errorf("in the container, %s: %q, want %q", line, got, want)
	}
}

func (c *container) end() {
	c.t.Helper()
	_ = c.stdin.Close()
	if err := c.cmd.Wait(); err != nil {
		c.t.Errorf("podman: %v\n%s", err, c.stderr)
	}
}

// TestContainer: an unmodified program in a container uses its bucket through
// the CDI device and nothing else, sees a rotation without a restart, may do
// what its access may, and keeps its claim from being released.
//
// Req: CDI-020, CDI-021
func TestContainer(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	p := newPodman(h).withS3()
	useSystemCDI(t)
	h.cdi = systemCDI
	name := "e2e-" + claim.NewUID()[:8] // others may use the directory too
	t.Cleanup(func() {
		for _, f := range files(t, systemCDI) {
			if strings.HasPrefix(f, "fairlead.dev-bucket_"+name) {
				t.Errorf("left in %s: %s", systemCDI, f)
				_ = os.Remove(filepath.Join(systemCDI, f))
			}
		}
	})
	h.up()
	h.ok("claim", "bucket", name)
	h.ok("access", "add", name+".viewer", "--mode", "ReadOnly")
	t.Cleanup(func() { h.ok("release", name, "--force", "--if-exists") })

	c := p.start(bucket(name), "/s3")
	c.ask("put from-container hello", "ok stored")
	c.ask("get from-container", "ok hello")
	if text, err := h.key(name).get(t.Context(), "from-container"); text != "hello" {
		t.Errorf("outside of the container: %q, %v", text, err)
	}

	// The rotation reaches the running container: its old key is dead, its
	// files are other ones.
	old := h.key(name)
	h.ok("access", "rotate", name)
	old.dead(t)
	c.ask("put after-rotation hello", "ok stored")

	// In use is in use, by whichever access.
	h.refused(5, []string{"in use by process", "in a container", "hint: "}, "release", name)
	c.ask("list", "ok after-rotation from-container")

	readOnly := p.run([]string{bucket(name + ".viewer")}, "/s3")
	r := h.exec("get from-container\nput x y\nlist\n", readOnly...)
	if want := "ok hello\nerror AccessDenied\nok after-rotation from-container\n"; r.stdout != want {
		t.Errorf("read-only: want %q: %s", want, r)
	}

	c.end()
	h.ok("release", name)
	if r := h.exec("", p.run([]string{bucket(name)}, "/s3", "list")...); r.code == 0 {
		t.Errorf("a released bucket is given to a container: %s", r)
	}
}
