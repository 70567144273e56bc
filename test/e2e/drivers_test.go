package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/fairlead/fairlead/internal/claim"
)

// vendor is the command of a vendor's driver, and the directory it notes what
// it did in.
func (h *host) vendor(kind string) (argv []string, dir string) {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	dir = tempDir(h.t, "")
	return []string{self, vendorArg, kind, dir}, dir
}

// addVendor has the daemon run a vendor's driver.
func (h *host) addVendor(name, kind string) (dir string) {
	h.t.Helper()
	argv, dir := h.vendor(kind)
	h.ok(append([]string{"driver", "add", name, "--exec", "--"}, argv...)...)
	return dir
}

// noted waits until the vendor has noted so many files of that prefix.
func (h *host) noted(dir, prefix string, n int) {
	h.t.Helper()
	h.until(fmt.Sprintf("%d of %s", n, prefix), func(context.Context) error {
		have := 0
		for _, name := range files(h.t, dir) {
			if strings.HasPrefix(name, prefix) {
				have++
			}
		}
		if have < n {
			return fmt.Errorf("%d", have)
		}
		return nil
	})
}

// describes waits until "describe" says all of that of a claim.
func (h *host) describes(name string, says ...string) {
	h.t.Helper()
	h.until("describe "+name, func(context.Context) error {
		out := h.ok("describe", name)
		for _, s := range says {
			if !strings.Contains(out, s) {
				return fmt.Errorf("it does not say %q:\n%s", s, out)
			}
		}
		return nil
	})
}

// TestDriverRefuses: what a driver will never do is said at once, with the
// driver's own words, and kept for "describe".
//
// Req: COSI-097, COSI-099, COSI-108, COSI-140, COSI-151, COSI-152, COSI-166, COSI-170
func TestDriverRefuses(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.up()
	dir := h.addVendor("vendor", "scripted")
	for _, code := range []string{
		"INVALID_ARGUMENT", "ALREADY_EXISTS", "OUT_OF_RANGE",
		"PERMISSION_DENIED", "UNAUTHENTICATED", "FAILED_PRECONDITION", "NOT_FOUND",
		"UNIMPLEMENTED", // the last: such a method is not called again
	} {
		name := strings.ReplaceAll(strings.ToLower(code), "_", "-")
		says := "the vendor says " + code
		h.refused(9, []string{says, "fairlead describe " + name}, "claim", "bucket", name, "--driver", "vendor", "--param", "code="+code)
		h.describes(name, "Failed", says, "Refused")
		// A person may ask again; nothing is tried until then.
		h.refused(9, []string{says}, "claim", "bucket", name, "--driver", "vendor", "--param", "code="+code)
	}
	// UNIMPLEMENTED stays so as long as the driver runs.
	h.kill9(h.watch(h.driver("vendor").PID))
	// An access that is refused does not harm the claim and its other accesses.
	h.ok("claim", "bucket", "good", "--driver", "vendor")
	h.refused(9, []string{"the vendor says OUT_OF_RANGE"}, "access", "add", "good.far", "--param", "code=OUT_OF_RANGE")
	if c := h.get("good"); c.Phase != claim.PhaseReady || c.Access("default").Phase != claim.PhaseReady || c.Access("far").Phase != claim.PhaseFailed {
		t.Errorf("after a refused access the claim is %+v", c)
	}
	// What was refused is mended at the driver and asked for again.
	if err := (vendor{dir}).note("mended"); err != nil {
		t.Fatal(err)
	}
	h.ok("claim", "bucket", "not-found", "--driver", "vendor", "--param", "code=NOT_FOUND")
	h.ok("release", "good", "not-found", "unimplemented")
	if got := files(t, h.run+"/creds"); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

// TestDriverFails: what may pass is tried again, with the reason in sight, and
// gets ready by itself.
func TestDriverFails(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.up()
	dir := h.addVendor("vendor", "scripted")
	transient := []string{"INTERNAL", "UNKNOWN", "DATA_LOSS", "UNAVAILABLE", "ABORTED", "RESOURCE_EXHAUSTED"}
	for _, code := range transient {
		name := strings.ReplaceAll(strings.ToLower(code), "_", "-")
		h.refused(8, []string{"not ready yet", "fairlead describe " + name},
			"claim", "bucket", name, "--driver", "vendor", "--param", "code="+code, "--wait", "50ms")
		h.describes(name, "Pending", "the vendor says "+code, "Waiting")
	}
	// A panic is the driver's own affair: it answers and lives on.
	h.refused(8, nil, "claim", "bucket", "panics", "--driver", "vendor", "--param", "do=panic", "--wait", "50ms")
	h.describes("panics", "Pending", "Waiting")
	if d := h.driver("vendor"); d.Restarts != 0 {
		t.Errorf("the driver has ended: %+v", d)
	}
	if err := (vendor{dir}).note("mended"); err != nil {
		t.Fatal(err)
	}
	for _, code := range transient {
		h.ok("claim", "bucket", strings.ReplaceAll(strings.ToLower(code), "_", "-"), "--driver", "vendor", "--param", "code="+code)
	}
}

// TestHungDriver: a driver that never answers holds up nobody else's claims,
// and not the daemon's end. Claims of the hung driver are more than it is given
// at a time.
func TestHungDriver(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.up()
	dir := h.addVendor("vendor", "scripted")
	const hung = 70
	for i := range hung {
		req := claim.Request{Name: fmt.Sprintf("hung-%d", i), Driver: "vendor", Parameters: map[string]string{"do": "hang"}, Access: &claim.AccessSpec{Name: "default"}}
		if _, err := h.client().Claim(t.Context(), req, 0); err != nil {
			t.Fatal(err)
		}
	}
	h.noted(dir, "hangs-", 64)
	// Ours come and go while all of those hang.
	for i := range 3 {
		name := fmt.Sprintf("ours-%d", i)
		h.ok("claim", "bucket", name)
		h.key(name).alive(t)
		h.ok("access", "rotate", name)
		h.ok("release", name, "--delete-data")
	}
	h.ok("get")
	for i := range hung {
		if c := h.get(fmt.Sprintf("hung-%d", i)); c.Phase != claim.PhasePending {
			t.Errorf("%s is %s", c.Name, c.Phase)
		}
		if i == 3 {
			break
		}
	}
	child := h.watch(h.driver("vendor").PID)
	d.stop()
	h.gone(child)
}

// TestDriverCrashesInACall: the call is made again when the driver is back.
func TestDriverCrashesInACall(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.up()
	h.addVendor("vendor", "scripted")
	h.ok("claim", "bucket", "photos", "--driver", "vendor", "--param", "do=crash-once")
	h.ok("access", "add", "photos.more", "--param", "do=crash-once")
	if d := h.driver("vendor"); d.Restarts != 2 || d.State != "Ready" {
		t.Errorf("the driver is %+v", d)
	}
}

// TestDriverLeavesItsSocket: a driver that knows nothing of stale sockets is
// started again all the same, after its own death and the daemon's.
//
// Req: COSI-157
func TestDriverLeavesItsSocket(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.up()
	h.addVendor("teller", "teller")
	h.kill9(h.watch(h.driver("teller").PID))
	h.ok("claim", "bucket", "photos", "--driver", "teller")
	d.kill()
	h.up()
	h.ok("claim", "bucket", "more", "--driver", "teller")
}

// TestDriverThatCannotRun: its back-off, its last words and its output are shown.
//
// Req: COSI-173
func TestDriverThatCannotRun(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.up()
	const says = "the back end's certificate has expired"
	argv, _ := h.vendor("broken")
	h.refused(8, []string{says, "fairlead driver log broken"}, append([]string{"driver", "add", "broken", "--wait", "3s", "--exec", "--"}, argv...)...)
	h.until("the back-off shows", func(context.Context) error {
		if d := h.driver("broken"); d.Restarts < 2 || d.State == "Ready" || d.PID == 0 && !strings.Contains(d.Message, says) {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
	if out := h.ok("driver", "list", "-o", "wide"); !strings.Contains(out, "broken") || strings.Contains(out, "broken   Ready") {
		t.Errorf("driver list: %s", out)
	}
	if out := h.ok("driver", "log", "broken"); !strings.Contains(out, "vendor: starting") || !strings.Contains(out, says) {
		t.Errorf("driver log: %s", out)
	}
	h.refused(8, []string{"not ready"}, "claim", "bucket", "photos", "--driver", "broken", "--wait", "100ms")
	h.refused(5, []string{"photos"}, "driver", "remove", "broken")
	h.ok("claim", "bucket", "ours") // nobody else minds

	write(t, h.run+"/text", "this is no program", 0o755)
	h.refused(8, []string{"exec format error"}, "driver", "add", "text", "--wait", "3s", "--exec", "--", h.run+"/text")
	h.ok("driver", "remove", "text")
	h.refused(2, []string{"no such file"}, "driver", "add", "absent", "--exec", "--", "/nonexistent/driver")
}

// TestDriverAnswersGarbage: an answer that breaks the specification is never
// used, and said to be the driver's.
//
// Req: COSI-081, COSI-084
func TestDriverAnswersGarbage(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.up()
	h.addVendor("raw", "raw")
	for answer, says := range map[string]string{
		"empty": "bucket_id", "noise": "DriverCreateBucketResponse", "long-id": "bucket_id", "huge": "larger than",
	} {
		h.refused(8, nil, "claim", "bucket", answer, "--driver", "raw", "--param", "answer="+answer, "--wait", "50ms")
		h.describes(answer, "Pending", "answer to DriverCreateBucket", says)
	}
	// A method that the driver has not.
	h.refused(9, []string{"no /cosi.v1alpha1.Provisioner/DriverGrantBucketAccess here"}, "claim", "bucket", "half", "--driver", "raw")

	// No gRPC at all.
	socket := h.run + "/noise.sock"
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write(bytes.Repeat([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), 100))
			_ = c.Close()
		}
	}()
	h.refused(8, []string{"has not answered"}, "driver", "add", "noise", "unix://"+socket, "--wait", "200ms")
	// A path that is no socket.
	write(t, h.run+"/file.sock", "precious", 0o600)
	h.refused(8, []string{"has not answered"}, "driver", "add", "file", "unix://"+h.run+"/file.sock", "--wait", "200ms")
	h.ok("claim", "bucket", "ours")
	if text := read(t, h.run, "file.sock"); text != "precious" {
		t.Errorf("a file was taken for a socket: %q", text)
	}
}

// TestDriverComesAndGoes: a driver that somebody else runs may be away when the
// daemon starts, and at any later time; what was asked for meanwhile is done
// when it is back.
//
// Req: COSI-154
func TestDriverComesAndGoes(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.up()
	argv, dir := h.vendor("scripted")
	endpoint := "unix://" + h.run + "/vendor.sock"
	start := func() (stop func()) {
		cmd := h.command(argv...)
		cmd.Env = append(cmd.Env, "COSI_ENDPOINT="+endpoint)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return func() { _ = cmd.Process.Signal(syscall.SIGKILL); _ = cmd.Wait() }
	}
	h.refused(8, []string{"vendor"}, "driver", "add", "vendor", endpoint, "--wait", "50ms")
	stop := start()
	h.until("the driver is reached", func(context.Context) error {
		if d := h.driver("vendor"); d.State != "Ready" || d.Identity != "vendor.example.com" {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
	h.ok("claim", "bucket", "before", "--driver", "vendor")
	account := h.get("before").Accesses[0].Account.ID
	stop()

	h.refused(8, nil, "claim", "bucket", "meanwhile", "--driver", "vendor", "--wait", "50ms")
	h.describes("meanwhile", `driver "vendor" has not answered`)
	h.refused(8, nil, "release", "before", "--wait", "50ms")
	h.refused(8, nil, "access", "add", "meanwhile.more", "--wait", "50ms")
	d.kill()
	d = h.up() // and the daemon may go, too
	if p := h.get("meanwhile").Phase; p != claim.PhasePending {
		t.Errorf("without a driver the claim is %s", p)
	}
	stop = start()
	t.Cleanup(func() { stop() })
	h.until("what was asked for is done", func(context.Context) error {
		c, err := h.client().Get(t.Context(), "meanwhile")
		if err != nil || c.Phase != claim.PhaseReady || len(c.Accesses) != 2 || c.Accesses[1].Phase != claim.PhaseReady {
			return fmt.Errorf("%+v, %v", c, err)
		}
		if _, err = h.client().Get(t.Context(), "before"); claim.CodeOf(err) != claim.CodeNotFound {
			return fmt.Errorf("the released claim is still there: %v", err)
		}
		return nil
	})
	h.noted(dir, "revoked-"+account, 1)
	d.stop()
}

// TestDraftDriver: a driver that knows only the older draft works from claim to
// release.
//
// Req: DRAFT-030
func TestDraftDriver(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.up()
	h.addVendor("old", "draft")
	if d := h.driver("old"); d.Protocol != "draft" || d.Identity != "old.example.com" {
		t.Errorf("the driver is %+v", d)
	}
	class := h.run + "/class.yaml"
	write(t, class, `apiVersion: objectstorage.k8s.io/v1alpha1
kind: BucketAccessClass
metadata: {name: old}
driverName: old.example.com
authenticationType: Key
parameters: {endpoint: "https://old.example.com", region: far, accessPolicy: "{}"}
`, 0o600)
	h.ok("apply", "-f", class)
	h.ok("claim", "bucket", "photos", "--driver", "old", "--no-access")
	h.ok("access", "add", "photos.default", "--class", "old")
	k, account := h.key("photos"), h.get("photos").Accesses[0].Account
	want := key{endpoint: "https://old.example.com", region: "far", bucket: h.get("photos").BucketID, id: "OLDKEY", secret: vendorSecret(account.Name)}
	if k != want {
		t.Errorf("the application reads %+v, want %+v", k, want)
	}
	h.ok("access", "rotate", "photos")
	if now := h.key("photos"); now.secret == k.secret {
		t.Error("rotated, the key is still the same")
	}
	h.ok("release", "photos", "--delete-data")
}
