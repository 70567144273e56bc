package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fairlead/fairlead/internal/control"
	"github.com/fairlead/fairlead/internal/creds"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"fairlead": main, "s3": s3Main})
}

// TestScripts runs testdata/*.txtar against the real main; those of
// testdata/daemon have a place of their own for a daemon each.
func TestScripts(t *testing.T) {
	for _, dir := range []string{"testdata", "testdata/daemon"} {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Dir:                 dir,
				WorkdirRoot:         t.TempDir(), // its own would stay behind where -run leaves scripts out
				Setup:               setup,
				Cmds:                commands(),
				RequireExplicitExec: true,
				RequireUniqueNames:  true,
				UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
			})
		})
	}
}

// setup gives a script directories that nobody else uses. The run directory
// holds sockets, whose paths are short, and credentials, which stay in memory.
func setup(e *testscript.Env) error {
	parent := "/dev/shm"
	if creds.EnsureTmpfs(parent) != nil {
		parent = ""
	}
	run, err := os.MkdirTemp(parent, "fl")
	if err != nil {
		return err
	}
	e.Defer(func() { _ = os.RemoveAll(run) })
	e.Setenv(envRun, run)
	e.Setenv(envState, filepath.Join(e.WorkDir, "state"))
	e.Setenv(envCDI, filepath.Join(e.WorkDir, "cdi"))
	e.Setenv(envS3Listen, "127.0.0.1:0")
	e.Setenv("RUN", run)
	return nil
}

func commands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"status": cmdStatus,
		"ready":  cmdReady,
		"await":  cmdAwait,
		"leased": cmdLeased,
		"mask":   cmdMask,
	}
}

// cmdStatus runs a command and checks its exit status: status 4 fairlead …
func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N CMD [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// cmdReady waits until the script's daemon is ready.
func cmdReady(ts *testscript.TestScript, _ bool, _ []string) {
	client := control.NewClient(filepath.Join(ts.Getenv(envRun), socketName))
	until(ts, "the daemon is ready", func(ctx context.Context) (bool, error) {
		s, err := client.Status(ctx)
		return s.Ready, err
	})
}

// cmdAwait waits until somebody answers at a socket: await PATH.
func cmdAwait(ts *testscript.TestScript, _ bool, args []string) {
	until(ts, "somebody answers at "+args[0], func(ctx context.Context) (bool, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", args[0])
		if err != nil {
			return false, err
		}
		return true, conn.Close()
	})
}

// cmdLeased waits until a claim is leased: leased NAME.
func cmdLeased(ts *testscript.TestScript, _ bool, args []string) {
	client := control.NewClient(filepath.Join(ts.Getenv(envRun), socketName))
	until(ts, args[0]+" is leased", func(ctx context.Context) (bool, error) {
		c, err := client.Get(ctx, args[0])
		return len(c.Leases) > 0, err
	})
}

// until watches a condition, with a deadline.
func until(ts *testscript.TestScript, what string, is func(context.Context) (bool, error)) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, err := is(ctx)
		if yes && err == nil {
			return
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("not in time: %s: %v", what, err)
		case <-tick.C:
		}
	}
}

// cmdMask prints the last stdout again with what differs from run to run masked.
func cmdMask(ts *testscript.TestScript, _ bool, _ []string) {
	text := ts.ReadFile("stdout")
	for _, m := range []struct{ pattern, with string }{
		{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, "UID"},
		{`\d{4}-\d\d-\d\dT[\d:.]+Z`, "TIME"},
		{`photos-[0-9a-f]{12}`, "photos-DIGITS"},
		{`FLAK[A-Z0-9]{16}`, "ACCOUNT"},
		{regexp.QuoteMeta(ts.Getenv("RUN")), "RUN"},
	} {
		text = regexp.MustCompile(m.pattern).ReplaceAllString(text, m.with)
	}
	_, err := fmt.Fprint(ts.Stdout(), text)
	ts.Check(err)
}
