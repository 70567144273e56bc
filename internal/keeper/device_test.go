package keeper

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/cdi"
	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/device"
	"github.com/fairlead/fairlead/internal/testenv"
)

var modemRequest = claim.Request{Kind: claim.KindDevice, Name: "modem", Device: &claim.DeviceSpec{Match: "/dev/modem*"}}

// deviceHost is a host without devices.
func deviceHost(t *testing.T) *host {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Lacks(t, "needs root to make device nodes")
	}
	h := newHost(t)
	h.root = t.TempDir()
	for _, d := range []string{"dev", "sys", "proc"} {
		if err := os.Mkdir(filepath.Join(h.root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// plug makes a node of a device that no host has: the number is for local use.
func plug(t *testing.T, root, name string, minor uint32) {
	t.Helper()
	path := filepath.Join(root, "dev", name)
	_ = os.Remove(path)
	if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(60, minor))); err != nil {
		t.Fatal(err)
	}
}

func unplug(t *testing.T, root, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(root, "dev", name)); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

// awaitClaim waits until a claim is as it should be.
func awaitClaim(t *testing.T, k *Keeper, name string, is func(*claim.Claim) bool) claim.Claim {
	t.Helper()
	c, err := k.waitFor(soon(t), name, func(c *claim.Claim) (bool, error) { return is(c), nil })
	if err != nil {
		t.Fatalf("%v; the claim is %+v, %+v", err, c, c.Device)
	}
	return c
}

// spec reads the spec of a claimed device; nil if there is none.
func (h *host) spec(t *testing.T, name string) *cdi.Spec {
	t.Helper()
	file := filepath.Join(h.cdi, "fairlead.dev-device_"+name+".json")
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := cdi.Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (k *Keeper) reasons(t *testing.T, name string) (reasons []string) {
	t.Helper()
	events, err := k.Events(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		reasons = append(reasons, e.Reason)
	}
	return reasons
}

func TestClaimedDeviceIsACDIDevice(t *testing.T) {
	v, h := serveVendor(t), deviceHost(t)
	plug(t, h.root, "modem", 7)
	k := h.open(t, v.endpoint)
	c := mustClaim(t, k, modemRequest)
	d := c.Device
	node := claim.DeviceNode{Path: "/dev/modem", HostPath: "/dev/modem", Type: "c", Major: 60, Minor: 7}
	if c.Phase != claim.PhaseReady || d.Name != "fairlead.dev/device=modem" || d.Chosen != "char:modem" || !slices.Equal(d.Nodes, []claim.DeviceNode{node}) {
		t.Fatalf("%+v, %+v", c, d)
	}
	s := h.spec(t, "modem")
	e := s.Devices[0].ContainerEdits
	if s.Kind != "fairlead.dev/device" || s.Version != "0.3.0" || s.Devices[0].Name != "modem" || len(e.DeviceNodes) != 1 || e.DeviceNodes[0].Path != "/dev/modem" {
		t.Errorf("%+v", s)
	}
	if want := []string{"DEVICE_PATH=/dev/modem", "MODEM_DEVICE_PATH=/dev/modem"}; !slices.Equal(e.Env, want) {
		t.Errorf("the environment is %v, want %v", e.Env, want)
	}
	at := modemRequest
	at.Name, at.Device = "at", &claim.DeviceSpec{Match: "/dev/modem", Path: "/dev/line/1"}
	mustClaim(t, k, at)
	e = h.spec(t, "at").Devices[0].ContainerEdits
	if n := e.DeviceNodes[0]; n.Path != "/dev/line/1" || n.HostPath != "/dev/modem" || e.Env[0] != "DEVICE_PATH=/dev/line/1" {
		t.Errorf("%+v, %v", n, e.Env)
	}
}

func TestDeviceIsFollowed(t *testing.T) {
	v, h := serveVendor(t), deviceHost(t)
	k := h.open(t, v.endpoint)
	if _, err := k.Claim(modemRequest); err != nil {
		t.Fatal(err)
	}
	c := awaitClaim(t, k, "modem", func(c *claim.Claim) bool { return c.Message != "" })
	if c.Phase != claim.PhasePending || !strings.Contains(c.Message, "no device fits /dev/modem*") || h.spec(t, "modem") != nil {
		t.Errorf("%+v", c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Wait(ctx, "modem", ""); claim.CodeOf(err) != claim.CodeTimeout || !strings.Contains(err.Error(), "is waited for") {
		t.Errorf("waited with %v", err)
	}
	plug(t, h.root, "modem0", 7) // and now without being told: the host is watched
	c = awaitClaim(t, k, "modem", func(c *claim.Claim) bool { return c.Phase == claim.PhaseReady })
	if n := c.Device.Nodes[0]; n.Path != "/dev/modem0" || n.Minor != 7 || c.Message != "" || h.spec(t, "modem") == nil {
		t.Errorf("%+v, %+v", c, c.Device)
	}
	unplug(t, h.root, "modem0")
	k.followDevices()
	c = awaitClaim(t, k, "modem", func(c *claim.Claim) bool { return c.Phase == claim.PhasePending })
	if c.Device.Name != "" || c.Device.Nodes != nil || !strings.Contains(c.Message, "char:modem0 is not there") || h.spec(t, "modem") != nil {
		t.Errorf("%+v, %+v", c, c.Device)
	}
	plug(t, h.root, "modem1", 8)
	k.followDevices()
	c = awaitClaim(t, k, "modem", func(c *claim.Claim) bool { return c.Phase == claim.PhaseReady })
	if n := c.Device.Nodes[0]; n.Path != "/dev/modem1" || c.Device.Chosen != "char:modem1" || h.spec(t, "modem").Devices[0].ContainerEdits.DeviceNodes[0].Path != "/dev/modem1" {
		t.Errorf("%+v", c.Device)
	}
	plug(t, h.root, "modem1", 9)
	k.followDevices()
	awaitClaim(t, k, "modem", func(c *claim.Claim) bool { return c.Phase == claim.PhaseReady && c.Device.Nodes[0].Minor == 9 })
	if got, want := k.reasons(t, "modem"), []string{"Claimed", "Found", "Gone", "Found", "Changed"}; !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

func TestOneOfSeveralDevices(t *testing.T) {
	v, h := serveVendor(t), deviceHost(t)
	plug(t, h.root, "modem0", 0)
	plug(t, h.root, "modem1", 1)
	k := h.open(t, v.endpoint)
	_, err := k.Claim(modemRequest)
	if claim.CodeOf(err) != claim.CodeConflict || !strings.Contains(err.Error(), "char:modem0, char:modem1") {
		t.Errorf("two fit: %v", err)
	}
	if _, err := k.Get("modem"); claim.CodeOf(err) != claim.CodeNotFound {
		t.Errorf("what was refused is there: %v", err)
	}
	all := claim.Request{Kind: claim.KindDevice, Name: "all", Device: &claim.DeviceSpec{Match: "/dev/modem*", All: true}}
	if c := mustClaim(t, k, all); len(c.Device.Nodes) != 2 || len(h.spec(t, "all").Devices[0].ContainerEdits.DeviceNodes) != 2 {
		t.Errorf("%+v", c.Device)
	}
	unplug(t, h.root, "modem0")
	if c := mustClaim(t, k, modemRequest); c.Device.Chosen != "char:modem1" {
		t.Errorf("%+v", c.Device)
	}
	plug(t, h.root, "modem0", 0) // another that fits changes nothing
	if result, err := k.Claim(modemRequest); result != Exists || err != nil {
		t.Errorf("%s, %v", result, err)
	}
	k.followDevices()
	awaitClaim(t, k, "all", func(c *claim.Claim) bool { return len(c.Device.Nodes) == 2 })
	if c, _ := k.Get("modem"); c.Phase != claim.PhaseReady || c.Device.Nodes[0].Minor != 1 {
		t.Errorf("%+v", c.Device)
	}
	plug(t, h.root, "modem2", 2)
	unplug(t, h.root, "modem1")
	k.followDevices()
	c := awaitClaim(t, k, "modem", func(c *claim.Claim) bool { return c.Phase == claim.PhasePending })
	if !strings.Contains(c.Message, "2 devices fit /dev/modem*, and one is asked for: char:modem0, char:modem2") || h.spec(t, "modem") != nil {
		t.Errorf("%s", c.Message)
	}
}

// A running container has the node that it was given, whatever becomes of the
// device. A person is told of that, for as long as it is so.
func TestContainersWithAGoneDeviceAreTold(t *testing.T) {
	v, h := serveVendor(t), deviceHost(t)
	name := "fairlead-" + filepath.Base(filepath.Dir(t.TempDir())) // nobody else's
	plug(t, h.root, name, 7)
	k := h.open(t, v.endpoint)
	req := claim.Request{Kind: claim.KindDevice, Name: "modem", Device: &claim.DeviceSpec{Match: "/dev/" + name}}
	mustClaim(t, k, req)
	cmd := exec.Command("unshare", "-m", "sh", "-ec", `mount -t tmpfs tmpfs /dev; mknod "$1" c 60 7; echo ready; read end`, "sh", "/dev/"+name)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() { _ = in.Close(); _ = cmd.Wait() }
	defer stop()
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the container said %q", line)
	}
	stale := func() []claim.DeviceUser {
		t.Helper()
		c, err := k.Get("modem")
		if err != nil {
			t.Fatal(err)
		}
		return c.Device.Stale
	}
	if users := stale(); len(users) != 0 {
		t.Errorf("stale while nothing has changed: %v", users)
	}
	plug(t, h.root, name, 8)
	k.followDevices()
	awaitClaim(t, k, "modem", func(c *claim.Claim) bool { return c.Device.Nodes[0].Minor == 8 })
	users := stale()
	if len(users) != 1 || users[0].PID != cmd.Process.Pid || users[0].Comm != "sh" || users[0].Node.Minor != 7 {
		t.Errorf("stale are %+v, want process %d", users, cmd.Process.Pid)
	}
	events, _ := k.Events("modem")
	if e := events[len(events)-1]; e.Reason != "Stale" || !e.Warning || !strings.Contains(e.Message, "(60:7), which is gone") {
		t.Errorf("%+v", e)
	}
	stop()
	if users := stale(); len(users) != 0 {
		t.Errorf("stale when the container is gone: %v", users)
	}
}

func TestDevicesAfterARestart(t *testing.T) {
	v, h := serveVendor(t), deviceHost(t)
	plug(t, h.root, "modem", 7)
	k, closeAll := h.start(t, v.endpoint)
	mustClaim(t, k, modemRequest)
	closeAll()
	file := filepath.Join(h.cdi, "fairlead.dev-device_modem.json")
	inode := func() uint64 {
		var st unix.Stat_t
		if err := unix.Stat(file, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	before := inode()
	k, closeAll = h.start(t, v.endpoint)
	settled(t, k, "modem")
	if inode() != before {
		t.Error("the spec was written again, though nothing had changed")
	}
	closeAll()
	if err := os.Remove(file); err != nil { // a reboot empties /run
		t.Fatal(err)
	}
	k, closeAll = h.start(t, v.endpoint)
	settled(t, k, "modem")
	if h.spec(t, "modem") == nil {
		t.Error("the spec was not written again")
	}
	closeAll()
	// A kill after another spec was written, and before that was written down.
	if err := os.WriteFile(file, []byte(`{"cdiVersion":"0.3.0","kind":"fairlead.dev/device","devices":[]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	k, closeAll = h.start(t, v.endpoint)
	settled(t, k, "modem")
	if s := h.spec(t, "modem"); len(s.Devices) != 1 || s.Devices[0].ContainerEdits.DeviceNodes[0].Path != "/dev/modem" {
		t.Errorf("a spec that says something else stays: %+v", s)
	}
	closeAll()
	unplug(t, h.root, "modem") // while nobody looks
	k = h.open(t, v.endpoint)
	settled(t, k, "modem")
	if c, _ := k.Get("modem"); c.Phase != claim.PhasePending || h.spec(t, "modem") != nil {
		t.Errorf("%+v", c)
	}
}

func TestChoose(t *testing.T) {
	at := func(name string, minor uint32, paths ...string) device.Device {
		d := device.Device{Kind: device.Serial, Name: name}
		for _, p := range paths {
			d.Nodes = append(d.Nodes, device.Node{Path: p, HostPath: paths[len(paths)-1], Type: "c", Major: 188, Minor: minor})
		}
		return d
	}
	had := &claim.Device{Chosen: "serial:FTDI", Nodes: []claim.DeviceNode{{Path: "/dev/ttyUSB0", HostPath: "/dev/ttyUSB0", Type: "c", Major: 188}}}
	twins := []device.Device{at("FTDI-1-1", 0, "/dev/ttyUSB0"), at("FTDI-1-2", 1, "/dev/ttyUSB1")}
	if chosen, problem := choose(had, twins); problem != "" || len(chosen) != 1 || chosen[0].Name != "FTDI-1-1" {
		t.Errorf("a twin without a serial number came: %v, %q", chosen, problem)
	}
	had.Nodes[0].Minor = 7
	if _, problem := choose(had, twins); problem == "" {
		t.Error("neither of two is the one, and one was taken")
	}
	one := &claim.Device{DeviceSpec: claim.DeviceSpec{Path: "/dev/modem"}}
	chosen, problem := choose(one, []device.Device{at("A", 0, "/dev/serial/by-id/usb-A", "/dev/ttyUSB0")})
	if problem != "" || len(chosen[0].Nodes) != 1 || chosen[0].Nodes[0].Path != "/dev/modem" || chosen[0].Nodes[0].HostPath != "/dev/ttyUSB0" {
		t.Errorf("a node with a link: %v, %q", chosen, problem)
	}
	card := at("A", 0, "/dev/a")
	card.Nodes = append(card.Nodes, at("A", 1, "/dev/b").Nodes...)
	if _, problem := choose(one, []device.Device{card}); !strings.Contains(problem, "several nodes") {
		t.Errorf("two nodes at one path: %q", problem)
	}
}

func TestReleaseOfADevice(t *testing.T) {
	v, h := serveVendor(t), deviceHost(t)
	plug(t, h.root, "modem", 7)
	k := h.open(t, v.endpoint)
	mustClaim(t, k, modemRequest)
	yes := true
	for _, req := range []claim.ReleaseRequest{{DeleteData: &yes}, {Abandon: true}} {
		if err := k.Release("modem", req); claim.CodeOf(err) != claim.CodeInvalid {
			t.Errorf("%+v: %v", req, err)
		}
	}
	if err := k.Lease("modem", "test", os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if err := k.Release("modem", claim.ReleaseRequest{}); claim.CodeOf(err) != claim.CodeInUse {
		t.Errorf("a leased device: %v", err)
	}
	if err := k.Release("modem", claim.ReleaseRequest{Force: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.WaitGone(soon(t), "modem"); err != nil || h.spec(t, "modem") != nil {
		t.Errorf("after the release: %v", err)
	}
}

func TestDeviceRefusals(t *testing.T) {
	v, h := serveVendor(t), deviceHost(t)
	plug(t, h.root, "modem", 7)
	k := h.open(t, v.endpoint)
	for _, bad := range []claim.DeviceSpec{
		{}, {Match: "nonsense"}, {Match: "/etc/passwd"}, {Match: "/dev/../etc/x"}, {Match: "/dev/[x"},
		{Match: "/dev/modem", Path: "/etc/passwd"}, {Match: "/dev/modem", Path: "/dev/../x"}, {Match: "/dev/modem", Path: "/dev/x", All: true},
		{Match: "/dev/\n"}, {Match: "/dev/" + strings.Repeat("x", 600)},
	} {
		if _, err := k.Claim(claim.Request{Kind: claim.KindDevice, Name: "x", Device: &bad}); claim.CodeOf(err) != claim.CodeInvalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for _, bad := range []claim.Request{
		{Kind: claim.KindDevice, Name: "x"},
		{Kind: claim.KindDevice, Name: "x", Class: "default", Device: modemRequest.Device},
		{Kind: claim.KindDevice, Name: "x", Access: &claim.AccessSpec{}, Device: modemRequest.Device},
		{Kind: claim.KindBucket, Name: "x", Device: modemRequest.Device},
		{Kind: "volume", Name: "x"},
	} {
		if _, err := k.Claim(bad); claim.CodeOf(err) != claim.CodeInvalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	mustClaim(t, k, modemRequest)
	for what, err := range map[string]error{
		"access": second(k.AddAccess("modem", claim.AccessSpec{Name: "reader"})),
		"rotate": second(k.RotateAccess("modem", claim.DefaultName, 0)),
		"revoke": k.RevokeAccess("modem", claim.DefaultName),
		"creds":  second(k.Credentials("modem", claim.DefaultName)),
	} {
		if claim.CodeOf(err) != claim.CodeInvalid || !strings.Contains(err.Error(), "is for a device") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := k.Claim(claim.Request{Name: "modem"}); claim.CodeOf(err) != claim.CodeConflict {
		t.Errorf("a bucket of the same name: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }
