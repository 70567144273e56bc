package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// TestCDIScripts runs testdata/cdi/*.txtar against the real main.
func TestCDIScripts(t *testing.T) {
	cmds := commands()
	cmds["holds"] = cmdHolds
	cmds["fifo"] = cmdFIFO
	cmds["owned"] = cmdOwned
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/cdi",
		WorkdirRoot:         t.TempDir(),
		Setup:               setupCDI,
		Cmds:                cmds,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// setupCDI gives a script the spec directories etc and run, and a cache of its
// own wherever the user keeps one.
func setupCDI(e *testscript.Env) error {
	e.Setenv(envSpecDirs, "etc:run") // relative: goldens name no place of this run
	e.Setenv(envRun, filepath.Join(e.WorkDir, ".run"))
	e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, ".cache"))
	// Whoever runs the tests may have a umask by which the archive's files are
	// his alone, or open to his group.
	return filepath.Walk(e.WorkDir, func(path string, fi os.FileInfo, err error) error {
		switch {
		case err != nil:
			return err
		case fi.IsDir():
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
	})
}

// cmdHolds waits until a file holds a text: holds FILE TEXT.
func cmdHolds(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	until(ts, args[0]+" holds "+args[1], func(context.Context) (bool, error) {
		text, err := os.ReadFile(path)
		return strings.Contains(string(text), args[1]), err
	})
}

// cmdFIFO makes a FIFO: fifo PATH.
func cmdFIFO(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(unix.Mkfifo(ts.MkAbs(args[0]), 0o644))
}

// cmdOwned checks or sets owner and mode: owned PATH UID MODE, or owned -set ….
// Where the owner cannot be set, for want of root, it is left alone.
func cmdOwned(ts *testscript.TestScript, _ bool, args []string) {
	set := args[0] == "-set"
	if set {
		args = args[1:]
	}
	path := ts.MkAbs(args[0])
	uid, err := strconv.Atoi(args[1])
	ts.Check(err)
	if os.Geteuid() != 0 {
		uid = os.Geteuid()
	}
	mode, err := strconv.ParseUint(args[2], 8, 32)
	ts.Check(err)
	if set {
		ts.Check(os.Chown(path, uid, -1))
		ts.Check(os.Chmod(path, os.FileMode(mode)))
		return
	}
	var st unix.Stat_t
	ts.Check(unix.Lstat(path, &st))
	if got := fmt.Sprintf("%d %o", st.Uid, st.Mode&0o7777); got != fmt.Sprintf("%d %o", uid, mode) {
		ts.Fatalf("%s is of %s", args[0], got)
	}
}
