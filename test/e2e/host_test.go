package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/control"
)

// patience is how long anything may take on a machine that is busy.
const patience = 40 * time.Second

// host is a place for one daemon: its directories outlive it.
type host struct {
	t               testing.TB
	state, run, cdi string
	env             []string // added to everything run here
	uid             int      // whom everything runs as
}

// newHost makes the directories: state on a disk, the rest on a tmpfs, with a
// path that is short enough for sockets.
func newHost(t testing.TB) *host {
	t.Helper()
	h := &host{t: t, state: tempDir(t, "") + "/state", run: tempDir(t, "/dev/shm")}
	h.cdi = h.run + "/cdi"
	return h
}

// tempDir is a directory that is gone, with whatever was mounted there, after
// the test. A mount that is left is a defect.
func tempDir(t testing.TB, parent string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		table, _ := os.ReadFile("/proc/self/mountinfo")
		for line := range strings.Lines(string(table)) {
			if point := strings.Fields(line)[4]; strings.HasPrefix(point, dir+"/") {
				t.Errorf("left mounted: %s", point)
				_ = unix.Unmount(point, unix.MNT_DETACH)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (h *host) socket() string { return h.run + "/fairlead.sock" }

func (h *host) client() *control.Client { return control.NewClient(h.socket()) }

// command is a command in the host's environment, which has nothing of ours in
// it but that.
func (h *host) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + h.state,
		"FAIRLEAD_STATE_DIR=" + h.state, "FAIRLEAD_RUN_DIR=" + h.run, "FAIRLEAD_CDI_DIR=" + h.cdi,
		"FAIRLEAD_S3_LISTEN=127.0.0.1:0",
	}, h.env...)
	// Nothing outlives the test, even one that panics.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if h.uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(h.uid), Gid: uint32(h.uid)}
	}
	return cmd
}

// result is what came of a command.
type result struct {
	stdout, stderr string
	code           int
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %s\nstderr: %s", r.code, r.stdout, r.stderr)
}

// try runs "fairlead ARGS" to its end.
func (h *host) try(args ...string) result { return h.exec("", append([]string{fairlead}, args...)...) }

// exec runs any command to its end, with that on its stdin.
func (h *host) exec(stdin string, argv ...string) result {
	h.t.Helper()
	cmd := h.command(argv...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		h.t.Fatalf("%q: %v", argv, err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// ok runs "fairlead ARGS", which must succeed, and returns its stdout.
func (h *host) ok(args ...string) string {
	h.t.Helper()
	r := h.try(args...)
	if r.code != 0 {
		h.t.Fatalf("fairlead %s: %s", strings.Join(args, " "), r)
	}
	return r.stdout
}

// refused runs "fairlead ARGS", which must end with that exit code and say all
// of that on stderr.
func (h *host) refused(code int, says []string, args ...string) {
	h.t.Helper()
	r := h.try(args...)
	shown := strings.Join(args, " ")
	if len(shown) > 200 {
		shown = shown[:200] + "…"
	}
	if r.code != code {
		h.t.Errorf("fairlead %s: want exit code %d: %s", shown, code, r)
		return
	}
	for _, s := range says {
		if !strings.Contains(r.stderr, s) {
			h.t.Errorf("fairlead %s: stderr does not say %q: %s", shown, s, r)
		}
	}
}

// get is a claim as the daemon shows it.
func (h *host) get(name string) claim.Claim {
	h.t.Helper()
	var c claim.Claim
	if err := json.Unmarshal([]byte(h.ok("get", name, "-o", "json")), &c); err != nil {
		h.t.Fatal(err)
	}
	return c
}

// driver is a driver as the daemon shows it.
func (h *host) driver(name string) claim.Driver {
	h.t.Helper()
	var list []claim.Driver
	if err := json.Unmarshal([]byte(h.ok("driver", "list", "-o", "json")), &list); err != nil {
		h.t.Fatal(err)
	}
	for _, d := range list {
		if d.Name == name {
			return d
		}
	}
	h.t.Fatalf("no driver %q", name)
	return claim.Driver{}
}

// daemon is a running "fairlead up".
type daemon struct {
	h      *host
	cmd    *exec.Cmd
	output *output
	ended  chan struct{}
}

// output collects what a process prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// up starts a daemon and waits until it is ready. It ends with the test.
func (h *host) up(flags ...string) *daemon {
	h.t.Helper()
	d := h.launch(flags...)
	h.until("the daemon is ready", func(ctx context.Context) error {
		select {
		case <-d.ended:
			h.t.Fatalf("the daemon ended: %s\n%s", d.cmd.ProcessState, d.output)
		default:
		}
		s, err := h.client().Status(ctx)
		if err == nil && !s.Ready {
			err = fmt.Errorf("not ready: %+v", s)
		}
		return err
	})
	return d
}

// launch starts a daemon.
func (h *host) launch(flags ...string) *daemon {
	h.t.Helper()
	d := &daemon{h: h, output: &output{}, ended: make(chan struct{})}
	d.cmd = h.command(append([]string{fairlead, "up"}, flags...)...)
	d.cmd.Stdout, d.cmd.Stderr = d.output, d.output
	d.cmd.WaitDelay = patience
	if err := d.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() {
		defer close(d.ended)
		_ = d.cmd.Wait() // the state is looked at
	}()
	h.t.Cleanup(func() {
		d.signal(syscall.SIGTERM)
		d.wait()
		if h.t.Failed() {
			h.t.Logf("the daemon said:\n%s", d.output)
		}
	})
	return d
}

func (d *daemon) signal(s syscall.Signal) {
	select {
	case <-d.ended:
	default:
		_ = d.cmd.Process.Signal(s)
	}
}

// wait waits for the end, which must come.
func (d *daemon) wait() {
	d.h.t.Helper()
	select {
	case <-d.ended:
	case <-time.After(patience):
		d.h.t.Errorf("the daemon does not end:\n%s", d.output)
		_ = d.cmd.Process.Kill()
		<-d.ended
	}
}

// stop stops the daemon as systemd does; that must be clean.
func (d *daemon) stop() {
	d.h.t.Helper()
	d.signal(syscall.SIGTERM)
	d.wait()
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		d.h.t.Errorf("the daemon's exit code is %d:\n%s", code, d.output)
	}
}

// kill is kill -9.
func (d *daemon) kill() {
	d.h.t.Helper()
	d.signal(syscall.SIGKILL)
	d.wait()
}

// until watches a condition; it must become true.
func (h *host) until(what string, is func(context.Context) error) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := is(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			h.t.Fatalf("not in time: %s: %v", what, err)
		case <-tick.C:
		}
	}
}

// process is a process that can be waited for, whoever started it: the number
// alone could be another's by now.
type process struct{ fd int }

// watch holds a process.
func (h *host) watch(pid int) process {
	h.t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		h.t.Fatalf("process %d: %v", pid, err)
	}
	h.t.Cleanup(func() { _ = unix.Close(fd) })
	return process{fd}
}

// gone waits for the end of a process.
func (h *host) gone(p process) {
	h.t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	if errors.Is(err, unix.EINTR) {
		h.gone(p)
		return
	}
	if err != nil || n == 0 {
		h.t.Fatalf("a process does not end: %v", err)
	}
}

// kill9 kills a process and waits for its end.
func (h *host) kill9(p process) {
	h.t.Helper()
	if err := unix.PidfdSendSignal(p.fd, unix.SIGKILL, nil, 0); err != nil {
		h.t.Fatal(err)
	}
	h.gone(p)
}

// files are the names in a directory; none if it is absent.
func files(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func read(t testing.TB, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
