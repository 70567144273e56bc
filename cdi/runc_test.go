package cdi

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// seen is what the process in the container finds.
type seen struct {
	Env          []string
	Groups       []int
	File         string
	MountError   string // of writing to the mount
	Major, Minor uint32
	Mode         uint32
	UID          uint32
	NodeError    string // of reading from the node
}

// TestMain lets the test binary be what runs in the container, and its hook.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("CDI_TEST_INSIDE") != "":
		inside()
	case os.Getenv("CDI_TEST_HOOK") != "":
		hook(os.Getenv("CDI_TEST_HOOK"))
	default:
		os.Exit(m.Run())
	}
}

func inside() {
	s := seen{Env: os.Environ()}
	s.Groups, _ = os.Getgroups()
	text, _ := os.ReadFile("/data/file")
	s.File = string(text)
	s.MountError = fmt.Sprint(os.WriteFile("/data/new", nil, 0o600))
	var st unix.Stat_t
	if err := unix.Stat("/dev/vendor0", &st); err != nil {
		s.NodeError = err.Error()
	}
	s.Major, s.Minor, s.Mode, s.UID = unix.Major(st.Rdev), unix.Minor(st.Rdev), st.Mode&0o777, st.Uid
	if f, err := os.Open("/dev/vendor0"); err != nil {
		s.NodeError = err.Error()
	} else if n, err := f.Read(make([]byte, 8)); n != 8 {
		s.NodeError = fmt.Sprint(n, err)
	}
	_ = json.NewEncoder(os.Stdout).Encode(s)
}

// hook keeps the state of the container, which a runtime gives to every hook.
func hook(file string) {
	state, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = os.WriteFile(file, state, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestRunc runs a container with what was injected.
//
// Req: CDI-057, CDI-058, CDI-060, CDI-064, CDI-095, CDI-098
func TestRunc(t *testing.T) {
	if _, err := exec.LookPath("runc"); err != nil || os.Geteuid() != 0 {
		testenv.Lacks(t, "needs runc, and root")
	}
	bundle := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(bundle, "rootfs"), 0o755))
	must(t, os.Mkdir(filepath.Join(bundle, "data"), 0o755))
	must(t, os.WriteFile(filepath.Join(bundle, "data", "file"), []byte("injected"), 0o644))
	self, err := os.Executable()
	must(t, err)
	program, err := os.ReadFile(self)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(bundle, "rootfs", "test"), program, 0o755))

	marks := filepath.Join(bundle, "hook-")
	runHook := func(name string) *Hook {
		return &Hook{HookName: name, Path: self, Args: []string{"hook"}, Env: []string{"CDI_TEST_HOOK=" + marks + name}, Timeout: ptr(10)}
	}
	hooks := []string{"createRuntime", "createContainer", "poststart", "poststop"}
	specs := t.TempDir()
	s := &Spec{Kind: "vendor.com/class", Devices: []Device{
		{Name: "0", ContainerEdits: ContainerEdits{
			Env:         []string{"CDI_TEST_INSIDE=0"},
			DeviceNodes: []*DeviceNode{{Path: "/dev/vendor0", HostPath: "/dev/zero", FileMode: ptr(uint32(0o640)), UID: ptr(uint32(7)), Permissions: "r"}},
		}},
		{Name: "1", ContainerEdits: ContainerEdits{Env: []string{"NOT_ASKED_FOR=1"}}},
	}, ContainerEdits: ContainerEdits{
		Mounts:         []*Mount{{HostPath: filepath.Join(bundle, "data"), ContainerPath: "/data", Options: []string{"ro"}}},
		AdditionalGIDs: []uint32{0, 4242},
	}}
	for _, name := range hooks {
		s.ContainerEdits.Hooks = append(s.ContainerEdits.Hooks, runHook(name))
	}
	must(t, Write(specs, "vendor.json", s))
	config := containerConfig()
	must(t, NewIndex([]string{specs}).Inject(config, "vendor.com/class=0"))
	got := runContainer(t, bundle, config)

	checkSeen(t, got)
	for _, name := range hooks {
		var state struct{ ID, Bundle string }
		text, err := os.ReadFile(marks + name)
		if err != nil || json.Unmarshal(text, &state) != nil || state.Bundle != bundle {
			t.Errorf("hook %s was told %q, %v", name, text, err)
		}
	}
}

func checkSeen(t *testing.T, got seen) {
	t.Helper()
	if !slices.Contains(got.Env, "CDI_TEST_INSIDE=0") || slices.Contains(got.Env, "NOT_ASKED_FOR=1") {
		t.Errorf("environment %q", got.Env)
	}
	if !slices.Contains(got.Groups, 4242) {
		t.Errorf("groups %v", got.Groups)
	}
	if got.File != "injected" || got.MountError == "<nil>" {
		t.Errorf("the mount holds %q; writing to it: %s", got.File, got.MountError)
	}
	if got.NodeError != "" || got.Major != 1 || got.Minor != 5 || got.Mode != 0o640 || got.UID != 7 {
		t.Errorf("the node is %d:%d, mode %o, of user %d; reading: %q", got.Major, got.Minor, got.Mode, got.UID, got.NodeError)
	}
}

// containerConfig is the least that a container is made of, and the host's
// libraries: built for the race detector, the test binary is not static.
func containerConfig() *oci.Spec {
	c := &oci.Spec{
		Version: "1.0.2",
		Process: &oci.Process{Args: []string{"/test"}, Cwd: "/", Env: []string{"PATH=/"}},
		Root:    &oci.Root{Path: "rootfs"},
		Mounts: []oci.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=755"}},
		},
		Linux: &oci.Linux{
			Namespaces: []oci.LinuxNamespace{{Type: oci.MountNamespace}, {Type: oci.PIDNamespace}, {Type: oci.IPCNamespace}, {Type: oci.UTSNamespace}},
			Resources:  &oci.LinuxResources{Devices: []oci.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
		},
	}
	for _, dir := range []string{"/lib", "/lib64", "/usr/lib"} {
		if _, err := os.Stat(dir); err == nil {
			c.Mounts = append(c.Mounts, oci.Mount{Destination: dir, Type: "bind", Source: dir, Options: []string{"rbind", "ro"}})
		}
	}
	return c
}

func runContainer(t *testing.T, bundle string, config *oci.Spec) (got seen) {
	t.Helper()
	text, err := json.Marshal(config)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600))
	name := fmt.Sprint("fairlead-cdi-test-", os.Getpid())
	cmd := exec.Command("runc", "--root", filepath.Join(bundle, "state"), "run", "--bundle", bundle, name)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("runc: %v; it said %q", err, out)
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("the container said %q: %v", out, err)
	}
	return got
}
