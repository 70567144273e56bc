package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// eventually watches a condition until it holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // a zombie nobody has reaped yet is gone too
	return err != nil || strings.Contains(string(stat), ") Z ")
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func sh(script string) Command {
	return Command{Name: "test", Argv: []string{"/bin/sh", "-c", script}, Env: os.Environ()}
}

// Req: COSI-173
func TestChildIsRestartedAndItsOutputKept(t *testing.T) {
	c := Start(quiet(), sh("echo hello; exit 3"))
	defer c.Stop()
	eventually(t, "two restarts", func() bool { return c.State().Restarts >= 2 })
	if got := c.State().Message; got != "" && got != "exit status 3: hello" {
		t.Errorf("message %q", got)
	}
	if got := strings.Count(c.Log(), "hello\n"); got < 2 {
		t.Errorf("log holds hello %d times", got)
	}
}

func TestCommandThatCannotStart(t *testing.T) {
	c := Start(quiet(), Command{Name: "test", Argv: []string{"/nonexistent/driver"}})
	defer c.Stop()
	eventually(t, "a restart", func() bool { return c.State().Restarts >= 1 })
	if got := c.State(); !strings.Contains(got.Message, "/nonexistent/driver") || got.PID != 0 {
		t.Errorf("state %+v", got)
	}
}

func TestPrepareComesBeforeEachStart(t *testing.T) {
	dir := t.TempDir()
	cmd := sh("mkdir " + dir + "/left") // fails the second time, unless tidied
	cmd.Prepare = func() error {
		_ = os.Remove(dir + "/left")
		return nil
	}
	c := Start(quiet(), cmd)
	eventually(t, "two restarts", func() bool { return c.State().Restarts >= 2 })
	c.Stop()
	if log := c.Log(); log != "" {
		t.Errorf("it said %q", log)
	}
	cmd.Prepare = func() error { return errors.New("not now") }
	c = Start(quiet(), cmd)
	eventually(t, "a reason", func() bool { return c.State().Message == "not now" })
	c.Stop()
}

func TestStopEndsAStubbornChildAndWhatItStarted(t *testing.T) {
	cmd := sh("trap '' TERM; sleep 1000 & echo $!; wait; sleep 1000")
	cmd.Grace = 50 * time.Millisecond
	c := Start(quiet(), cmd)
	eventually(t, "the grandchild", func() bool { return strings.Contains(c.Log(), "\n") })
	var grandchild int
	if _, err := fmt.Sscan(c.Log(), &grandchild); err != nil {
		t.Fatal(err)
	}
	child := c.State().PID
	c.Stop()
	eventually(t, "both gone", func() bool { return gone(child) && gone(grandchild) })
}

func TestChildDiesWithAKilledSupervisor(t *testing.T) {
	if os.Getenv("SUPERVISE_TEST") != "" {
		c := Start(quiet(), sh("exec sleep 1000"))
		eventually(t, "a child", func() bool { return c.State().PID != 0 })
		fmt.Println(c.State().PID)
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildDiesWithAKilledSupervisor$")
	cmd.Env = append(os.Environ(), "SUPERVISE_TEST=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanln(bufio.NewReader(out), &pid); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, "the child gone", func() bool { return gone(pid) })
}

func TestTailKeepsTheEnd(t *testing.T) {
	var tl tail
	for i := range 40000 {
		_, _ = fmt.Fprintf(&tl, "line %d\n", i)
	}
	if s := tl.String(); len(s) > logSize || !strings.HasSuffix(s, "line 39999\n") || tl.lastLine() != "line 39999" {
		t.Errorf("%d bytes, last %q", len(s), tl.lastLine())
	}
}

func TestEnvironHidesWhatIsTheDaemons(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/x")
	t.Setenv("FAIRLEAD_METRICS_LISTEN", "wrong:1") // two children would want one port
	t.Setenv("COSI_ENDPOINT", "unix:///wrong.sock")
	env := strings.Join(Environ("COSI_ENDPOINT=unix:///right.sock"), "\n")
	if strings.Contains(env, "NOTIFY_SOCKET") || strings.Contains(env, "wrong") || !strings.Contains(env, "right") {
		t.Error(env)
	}
}
