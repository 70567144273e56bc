package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/internal/testenv"

	"github.com/fairlead/fairlead/internal/claim"
)

// TestOneDaemonAPlace: a second daemon on the same state or the same socket
// refuses and harms nothing; what a killed one left is replaced; what is no
// socket is never touched.
func TestOneDaemonAPlace(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.up()
	h.ok("claim", "bucket", "photos")
	k := h.key("photos")

	other := tempDir(t, "/dev/shm")
	h.refused(5, []string{"another daemon", h.state, "hint: "}, "up", "--run-dir", other, "--cdi-dir", other+"/cdi")
	h.refused(5, []string{h.socket()}, "up", "--state", other+"/state", "--run-dir", other, "--cdi-dir", other+"/cdi", "--socket", h.socket())
	k.alive(t)
	h.ok("get", "photos")

	d.kill()
	if fi, err := os.Lstat(h.socket()); err != nil || fi.Mode().Type() != os.ModeSocket {
		t.Fatalf("a killed daemon leaves %v, %v", fi, err)
	}
	h.refused(7, []string{"fairlead up"}, "get")
	d = h.up()
	k.alive(t)
	d.stop()
	if _, err := os.Lstat(h.socket()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a stopped daemon leaves its socket: %v", err)
	}

	for what, make := range map[string]func(string) error{
		"file":      func(p string) error { return os.WriteFile(p, []byte("precious"), 0o600) },
		"directory": func(p string) error { return os.Mkdir(p, 0o700) },
		"link":      func(p string) error { return os.Symlink("/etc/passwd", p) },
	} {
		path := h.run + "/" + what + ".sock"
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Lstat(path)
		r := h.try("up", "--socket", path)
		if after, err := os.Lstat(path); r.code == 0 || !strings.Contains(r.stderr, path) || err != nil || !os.SameFile(before, after) {
			t.Errorf("a socket path that is a %s: %v, %s", what, err, r)
		}
	}
	if text := read(t, h.run, "file.sock"); text != "precious" {
		t.Errorf("the file now holds %q", text)
	}
}

// TestForeignUser: whoever is neither root nor the daemon's user is refused,
// even where somebody has opened the socket to all.
func TestForeignUser(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	h := newHost(t)
	h.up()
	h.ok("claim", "bucket", "photos")
	for path, mode := range map[string]os.FileMode{h.run: 0o711, h.socket(): 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	nobody := *h
	nobody.uid = 65534
	for _, args := range [][]string{{"get"}, {"claim", "bucket", "mine"}, {"release", "photos", "--force"}, {"env", "photos"}, {"driver", "list"}} {
		r := nobody.try(args...)
		if r.code != 6 || r.stdout != "" || !strings.Contains(r.stderr, "user 65534 may not use this daemon") {
			t.Errorf("fairlead %v: %s", args, r)
		}
	}
	if r := nobody.exec("", "cat", h.run+"/creds/photos/AWS_SECRET_ACCESS_KEY"); r.code == 0 {
		t.Errorf("anybody reads the key: %s", r)
	}
	h.key("photos").alive(t)
}

// TestOtherUser: without root there are buckets and files, and it is said that
// there is no CDI.
func TestOtherUser(t *testing.T) {
	t.Parallel()
	needsRoot(t)
	h := newHost(t)
	h.uid, h.cdi = 65534, ""
	for _, dir := range []string{filepath.Dir(h.state), h.run} {
		if err := os.Chown(dir, h.uid, h.uid); err != nil {
			t.Fatal(err)
		}
	}
	sdk, err := s3Program()
	if err != nil {
		t.Fatal(err)
	}
	// The XDG directories instead of ours.
	h.env = []string{"FAIRLEAD_STATE_DIR=", "FAIRLEAD_RUN_DIR=", "XDG_STATE_HOME=" + filepath.Dir(h.state), "XDG_RUNTIME_DIR=" + h.run}
	h.state, h.run = filepath.Dir(h.state)+"/fairlead", h.run+"/fairlead"
	d := h.up()
	if !strings.Contains(d.output.String(), "buckets and files only") {
		t.Errorf("it is not said what a user has:\n%s", d.output)
	}
	h.ok("claim", "bucket", "photos")
	h.key("photos").alive(t)
	if out := h.ok("exec", "photos", "--", sdk, "list"); out != "ok alive\n" {
		t.Errorf("exec: %q", out)
	}
	h.ok("access", "rotate", "photos")
	if device := h.get("photos").Accesses[0].Device; device != "" {
		t.Errorf("there is a device %q", device)
	}
	h.ok("release", "photos", "--delete-data")
	d.stop()
}

// TestServiceManager: systemd is told when the daemon is ready and when it
// stops; its drivers know nothing of that. The unit that "install" writes is
// one that systemd understands.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: h.run + "/notify", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = notify.Close() })
	told := func(want string) {
		t.Helper()
		if err := notify.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1024)
		n, err := notify.Read(b)
		if err != nil || !strings.Contains(string(b[:n]), want) {
			t.Errorf("systemd is told %q, want %s: %v", b[:n], want, err)
		}
	}
	h.env = []string{"NOTIFY_SOCKET=" + h.run + "/notify"}
	d := h.launch()
	told("READY=1")
	h.ok("get") // ready is ready
	h.until("the driver runs", func(context.Context) error {
		if d := h.driver(claim.ObjectsDriver); d.State != "Ready" {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
	if env := read(t, "/proc", fmt.Sprint(h.driver(claim.ObjectsDriver).PID), "environ"); strings.Contains(env, "NOTIFY_SOCKET") {
		t.Error("the driver knows of systemd's socket")
	}
	d.stop()
	told("STOPPING=1")

	unit := h.run + "/fairlead.service"
	write(t, unit, h.ok("install", "--print", "--", "--s3-listen", "127.0.0.1:9000"), 0o644)
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		testenv.Lacks(t, "the unit is not checked: no systemd-analyze")
	}
	if r := h.exec("", "systemd-analyze", "verify", "--man=no", unit); r.code != 0 || strings.Contains(r.stderr, unit) {
		t.Errorf("systemd-analyze verify: %s", r)
	}
}
