package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/testenv"
)

// nodeProgram is testdata/node, built when first needed.
var nodeProgram = sync.OnceValues(func() (string, error) { return build("node", "./testdata/node") })

// plugs are loop devices that come and go as hardware does: the kernel tells of
// them, and makes their nodes, under numbers that nobody else uses.
type plugs struct {
	t       *testing.T
	control *os.File
	ten     int // the numbers are ten to ten+9
}

func newPlugs(t *testing.T) *plugs {
	t.Helper()
	needsRoot(t)
	needs(t, "losetup")
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		testenv.Lacksf(t, "loop devices cannot be made: %v", err)
	}
	t.Cleanup(func() { _ = control.Close() })
	return &plugs{t, control, 10 * (1000 + rand.IntN(100_000))}
}

func (p *plugs) path(i int) string { return fmt.Sprintf("/dev/loop%d", p.ten+i) }

// match fits all of them.
func (p *plugs) match() string { return strings.TrimSuffix(p.path(0), "0") + "[0-9]" }

// in plugs in a device that holds a line.
func (p *plugs) in(i int, line string) {
	p.t.Helper()
	file := filepath.Join(p.t.TempDir(), "disk")
	write(p.t, file, line+"\n"+strings.Repeat("\x00", 4096), 0o600)
	if err := unix.IoctlSetInt(int(p.control.Fd()), unix.LOOP_CTL_ADD, p.ten+i); err != nil {
		p.t.Fatalf("add loop device %d: %v", p.ten+i, err)
	}
	p.t.Cleanup(func() { p.out(i) })
	h := &host{t: p.t}
	if r := h.exec("", "losetup", p.path(i), file); r.code != 0 {
		p.t.Fatalf("losetup: %s", r)
	}
}

// out takes a device out, if it is in.
func (p *plugs) out(i int) {
	p.t.Helper()
	h := &host{t: p.t}
	if _, err := os.Stat(p.path(i)); err != nil {
		return
	}
	h.exec("", "losetup", "-d", p.path(i)) // which fails if nothing is attached
	h.until("the device is free", func(context.Context) error {
		return unix.IoctlSetInt(int(p.control.Fd()), unix.LOOP_CTL_REMOVE, p.ten+i)
	})
}

// untilPhase waits until a claim is as far as that.
func (h *host) untilPhase(name string, phase claim.Phase) (c claim.Claim) {
	h.t.Helper()
	h.until(fmt.Sprintf("%s is %s", name, phase), func(context.Context) error {
		if c = h.get(name); c.Phase != phase {
			return fmt.Errorf("%s: %s", c.Phase, c.Message)
		}
		return nil
	})
	return c
}

// TestDevice: a claim for a device is given to containers while the device is
// there, under whatever number; of a container that was given one which is gone
// a person is told.
//
// Req: CDI-020, CDI-021
func TestDevice(t *testing.T) {
	t.Parallel()
	plugs := newPlugs(t)
	h := newHost(t)
	p := newPodman(h)
	program, err := nodeProgram()
	if err != nil {
		t.Fatal(err)
	}
	write(t, p.root+"/node", read(t, program), 0o755)
	useSystemCDI(t)
	h.cdi = systemCDI
	name := "e2e-" + claim.NewUID()[:8]
	device := "fairlead.dev/device=" + name
	d := h.up()
	spec := filepath.Join(systemCDI, "fairlead.dev-device_"+name+".json")
	t.Cleanup(func() { _ = os.Remove(spec) })

	h.refused(8, []string{"no device fits " + plugs.match()}, "claim", "device", name, "--match", plugs.match(), "--wait", "10ms")
	plugs.in(1, "the first disk")
	c := h.untilPhase(name, claim.PhaseReady)
	if want := plugs.path(1); c.Device.Name != device || len(c.Device.Nodes) != 1 || c.Device.Nodes[0].HostPath != want {
		t.Fatalf("%+v", c.Device)
	}
	old := p.start(device, "/node")
	old.ask("read", "ok the first disk")
	if r := h.try("exec", name, "--", "sh", "-c", "head -n 1 $DEVICE_PATH"); r.stdout != "the first disk\n" {
		t.Errorf("without a container: %s", r)
	}

	// Out: no container is given what is not there.
	plugs.out(1)
	h.untilPhase(name, claim.PhasePending)
	if r := h.exec("read\n", p.run([]string{device}, "/node")...); r.code == 0 || !strings.Contains(r.stderr, device) {
		t.Errorf("a device that is gone is given to a container: %s", r)
	}
	h.refused(8, []string{"is not ready", "is waited for"}, "exec", name, "--", "true")

	// In again under another number, while no daemon looks.
	d.kill()
	plugs.in(2, "the second disk")
	h.up()
	h.untilPhase(name, claim.PhaseReady)
	if r := h.exec("read\n", p.run([]string{device}, "/node")...); r.stdout != "ok the second disk\n" {
		t.Errorf("after the return: %s", r)
	}
	// (Opening the node of a loop device that is gone makes an empty one.)
	old.ask("read", "error EOF")
	if text := h.ok("describe", name); !strings.Contains(text, "(node), in a container, still has "+plugs.path(1)) {
		t.Errorf("describe does not tell of the container that has the old device:\n%s", text)
	}
	old.end()
	if text := h.ok("describe", name); strings.Contains(text, "Out of date") {
		t.Errorf("describe tells of a container that is gone:\n%s", text)
	}
	h.ok("release", name)
	if _, err := os.Lstat(spec); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
}
