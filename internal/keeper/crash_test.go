package keeper

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/testenv"
)

// The crash tests run a keeper in a child process and kill it (SIGKILL, by the
// child itself, so that the place is exact) at every point between two effects
// that a scenario passes. A second child must then converge: nothing lost,
// nothing leaked, nothing made twice.

// scenario is what the child does; it must be repeatable, as a person who saw
// no answer repeats a command.
type scenario struct {
	// before is done by a child that is not killed.
	before, act func(t *testing.T, k *Keeper)
	// claims is the number of claims afterwards, keys that of accounts each.
	claims, keys int
	buckets      int
	// nodes has the host have a device, which takes root.
	nodes bool
}

var scenarios = map[string]scenario{
	"claim":   {act: claimPhotos, claims: 1, keys: 1, buckets: 1},
	"access":  {before: claimPhotos, act: addReader, claims: 1, keys: 2, buckets: 1},
	"rotate":  {before: claimPhotos, act: rotateNow, claims: 1, keys: 1, buckets: 1},
	"revoke":  {before: func(t *testing.T, k *Keeper) { claimPhotos(t, k); addReader(t, k) }, act: revokeReader, claims: 1, keys: 1, buckets: 1},
	"release": {before: claimPhotos, act: func(t *testing.T, k *Keeper) { release(t, k, false) }, buckets: 1},
	"delete":  {before: claimPhotos, act: func(t *testing.T, k *Keeper) { release(t, k, true) }},

	"device":         {act: claimModem, claims: 1, nodes: true},
	"device back":    {before: claimModem, act: replugModem, claims: 1, nodes: true},
	"device release": {before: claimModem, act: releaseModem, nodes: true},
}

func claimPhotos(t *testing.T, k *Keeper) { mustClaim(t, k, claim.Request{Name: "photos"}) }

func claimModem(t *testing.T, k *Keeper) { mustClaim(t, k, modemRequest) }

// replugModem takes the device out and puts it in again under another number.
func replugModem(t *testing.T, k *Keeper) {
	unplug(t, k.cfg.Devices.Root, "modem")
	k.followDevices()
	awaitClaim(t, k, "modem", func(c *claim.Claim) bool { return c.Phase == claim.PhasePending })
	plug(t, k.cfg.Devices.Root, "modem", 301)
	k.followDevices()
	awaitClaim(t, k, "modem", func(c *claim.Claim) bool {
		return c.Phase == claim.PhaseReady && c.Device.Nodes[0].Minor == 301
	})
}

func releaseModem(t *testing.T, k *Keeper) {
	if err := k.Release("modem", claim.ReleaseRequest{}); err != nil && claim.CodeOf(err) != claim.CodeNotFound {
		t.Fatal(err)
	}
	if _, err := k.WaitGone(soon(t), "modem"); err != nil {
		t.Fatal(err)
	}
}

func addReader(t *testing.T, k *Keeper) {
	if _, err := k.AddAccess("photos", claim.AccessSpec{Name: "reader", Mode: claim.ModeReadOnly}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Wait(soon(t), "photos", "reader"); err != nil {
		t.Fatal(err)
	}
}

// rotateNow brings the access to its second key, whoever began that.
func rotateNow(t *testing.T, k *Keeper) {
	c, err := k.Get("photos")
	if err != nil {
		t.Fatal(err)
	}
	if a := c.Access(claim.DefaultName); a.Next == nil && a.Account.Generation == 1 {
		if _, err := k.RotateAccess("photos", claim.DefaultName, 0); err != nil {
			t.Fatal(err)
		}
	}
	_, err = k.waitFor(soon(t), "photos", func(c *claim.Claim) (bool, error) {
		a := c.Access(claim.DefaultName)
		return a.Account.Generation == 2 && a.Next == nil && len(a.Retiring) == 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func revokeReader(t *testing.T, k *Keeper) {
	if err := k.RevokeAccess("photos", "reader"); err != nil && claim.CodeOf(err) != claim.CodeNotFound {
		t.Fatal(err)
	}
	if _, err := k.WaitRevoked(soon(t), "photos", "reader"); err != nil {
		t.Fatal(err)
	}
}

func release(t *testing.T, k *Keeper, deleteData bool) {
	if err := k.Release("photos", claim.ReleaseRequest{DeleteData: &deleteData}); err != nil && claim.CodeOf(err) != claim.CodeNotFound {
		t.Fatal(err)
	}
	if _, err := k.WaitGone(soon(t), "photos"); err != nil {
		t.Fatal(err)
	}
}

// TestCrashChild is the child; it does nothing in an ordinary run.
func TestCrashChild(t *testing.T) {
	name := os.Getenv("KEEPER_TEST_SCENARIO")
	if name == "" {
		return
	}
	killAt := os.Getenv("KEEPER_TEST_KILL")
	n := map[string]int{}
	at = func(point string) {
		mu.Lock()
		defer mu.Unlock()
		n[point]++
		here := fmt.Sprintf("%s#%d", point, n[point])
		fmt.Println("POINT", here)
		if here == killAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	dir := os.Getenv("KEEPER_TEST_DIR")
	h := crashHost(dir)
	k := h.open(t, os.Getenv("KEEPER_TEST_ENDPOINT"))
	s := scenarios[name]
	if os.Getenv("KEEPER_TEST_BEFORE") != "" {
		s.before(t, k)
	} else {
		s.act(t, k)
	}
	for _, e := range k.entries() {
		settled(t, k, e.name)
	}
}

var mu = make(chanMutex, 1)

// chanMutex is a mutex whose holder may be killed.
type chanMutex chan struct{}

func (m chanMutex) Lock()   { m <- struct{}{} }
func (m chanMutex) Unlock() { <-m }

// child runs a child and returns the points that it passed. killed says
// whether it died at killAt.
func child(t *testing.T, dir, endpoint, name, killAt string, before bool) (points []string, killed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
	cmd.Env = append(os.Environ(), "KEEPER_TEST_SCENARIO="+name, "KEEPER_TEST_DIR="+dir, "KEEPER_TEST_ENDPOINT="+endpoint, "KEEPER_TEST_KILL="+killAt,
		"GORACE=atexit_sleep_ms=0") // else each child sleeps a second before it ends
	if before {
		cmd.Env = append(cmd.Env, "KEEPER_TEST_BEFORE=1")
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	for s := bufio.NewScanner(strings.NewReader(out.String())); s.Scan(); {
		if p, ok := strings.CutPrefix(s.Text(), "POINT "); ok {
			points = append(points, p)
		}
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
		return points, true
	}
	if err != nil {
		t.Fatalf("%s, to be killed at %q: %v\n%s", name, killAt, err, out.String())
	}
	return points, false
}

func crashDir(t *testing.T) string {
	dir := shortDir(t)
	for _, d := range []string{"state", "creds", "cdi", "d", "host/dev", "host/sys", "host/proc"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func crashHost(dir string) *host {
	return &host{state: dir + "/state", creds: dir + "/creds", cdi: dir + "/cdi", sockets: dir + "/d", root: dir + "/host"}
}

// Req: COSI-090, COSI-103
func TestKilledAtEveryPointItConverges(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scenarios[name]
			if s.nodes && os.Geteuid() != 0 {
				testenv.Lacks(t, "needs root to make device nodes")
			}
			points, _ := crashOnce(t, name, s, "") // the points of a run that is left alone
			for _, point := range points {
				// Which steps are begun, and how often, depends on when the
				// driver is reached; what comes of them does not.
				_, killed := crashOnce(t, name, s, point)
				if !killed && (strings.HasPrefix(point, "intent:") || strings.HasSuffix(point, ":result#1")) {
					t.Errorf("not killed at %s, of %v", point, points)
				}
			}
			if len(points) < 4 {
				t.Errorf("few points: %v", points)
			}
		})
	}
}

// crashOnce kills one run, lets a second one converge, and looks at the world.
// It returns the points that the first run passed.
func crashOnce(t *testing.T, name string, s scenario, killAt string) (points []string, killed bool) {
	t.Helper()
	dir, v := crashDir(t), serveVendor(t)
	if s.nodes {
		plug(t, dir+"/host", "modem", 300)
	}
	if s.before != nil {
		child(t, dir, v.endpoint, name, "", true)
	}
	points, killed = child(t, dir, v.endpoint, name, killAt, false)
	if killed {
		child(t, dir, v.endpoint, name, "", false)
	}
	check(t, killAt, dir, v, s)
	return points, killed
}

// check looks at what is left of the world after a scenario.
func check(t *testing.T, killAt, dir string, v *vendor, s scenario) {
	t.Helper()
	h := crashHost(dir)
	k, closeAll := h.start(t, v.endpoint)
	defer closeAll()
	list := k.List()
	accounts := 0
	v.set(func() {
		for _, m := range v.accounts {
			accounts += len(m)
		}
		if len(list) != s.claims || len(v.buckets) != s.buckets || accounts != s.keys {
			t.Errorf("killed at %s: %d claims, %d buckets, %d accounts; want %d, %d, %d: %v", killAt, len(list), len(v.buckets), accounts, s.claims, s.buckets, s.keys, v.accounts)
		}
	})
	devices, specs := map[string]bool{}, map[string]bool{}
	for _, c := range list {
		if c.Kind == claim.KindDevice {
			specs[deviceFile(c.Name)] = true
			if c.Phase != claim.PhaseReady || c.Device.Name != "fairlead.dev/device=modem" {
				t.Errorf("killed at %s: %+v", killAt, c)
			}
		}
		for _, a := range c.Accesses {
			device := claim.DeviceName(c.Name, a.Name)
			devices[device], specs[cdiFile(c.Name, a.Name)] = true, true
			v.set(func() {
				if got, want := h.keyOnDisk(t, device), v.accounts[c.BucketID][a.Account.ID].key; got != want {
					t.Errorf("killed at %s: %s reads %q, the driver knows %q", killAt, device, got, want)
				}
			})
		}
	}
	checkDir(t, killAt, h.creds, devices)
	checkDir(t, killAt, h.cdi, specs)
}

// checkDir wants exactly these entries.
func checkDir(t *testing.T, killAt, dir string, want map[string]bool) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(want) {
		t.Errorf("killed at %s: %s holds %v, want %v", killAt, dir, entries, slices.Sorted(maps.Keys(want)))
	}
	for _, e := range entries {
		if !want[e.Name()] {
			t.Errorf("killed at %s: %s is left over in %s", killAt, e.Name(), dir)
		}
	}
}
