package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"
)

// A user other than root has the XDG directories and no CDI, and is told so.
func TestUserOtherThanRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Lacks(t, "only root can become another user")
	}
	const uid = 65534
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "fairlead")
	copyProgram(t, program)
	for _, d := range []string{dir, filepath.Join(dir, "run"), filepath.Join(dir, "state")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	as := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + dir + "/run", "XDG_STATE_HOME=" + dir + "/state", "FAIRLEAD_S3_LISTEN=127.0.0.1:0"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	up := as("up")
	var log bytes.Buffer
	up.Stderr = &log
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() error {
		_ = up.Process.Signal(syscall.SIGTERM)
		return up.Wait()
	}
	out, err := untilRuns(t, as)
	if err != nil || strings.TrimSpace(out) != "bucket/mine" {
		t.Errorf("claim: %q, %v", out, err)
	}
	text, err := as("exec", "mine", "--", "env").Output()
	if err != nil || !strings.Contains(string(text), "AWS_CONFIG_FILE="+dir+"/run/fairlead/creds/mine/config\n") {
		t.Errorf("exec: %s, %v", text, err)
	}
	if text, err = as("get", "mine", "-o", "json").Output(); err != nil || strings.Contains(string(text), `"device"`) {
		t.Errorf("there is a CDI device: %s, %v", text, err)
	}
	refused(t, as)
	if err := stop(); err != nil {
		t.Errorf("up: %v", err)
	}
	if want := "buckets and files only: no CDI outside root unless --cdi-dir"; !strings.Contains(log.String(), want) {
		t.Errorf("it is not said that there is no CDI:\n%s", log.String())
	}
	if fi, err := os.Stat(filepath.Join(dir, "state/fairlead")); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("state directory: %v, %v", fi, err)
	}
}

// refused: root's daemon is not everybody's, and the hint says what to do.
func refused(t *testing.T, as func(...string) *exec.Cmd) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "root.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := errors.Join(os.Chmod(socket, 0o600), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	get := as("get", "--socket", socket)
	var talk bytes.Buffer
	get.Stderr = &talk
	if err := get.Run(); get.ProcessState.ExitCode() != 6 || !strings.Contains(talk.String(), "hint: ") {
		t.Errorf("root's socket: %v, %s", err, talk.String())
	}
}

// untilRuns claims a bucket once there is a daemon to claim it from.
func untilRuns(t *testing.T, as func(...string) *exec.Cmd) (string, error) {
	t.Helper()
	for {
		out, err := as("claim", "bucket", "mine").Output()
		exit, ended := err.(*exec.ExitError) //nolint:errorlint // Output returns it bare
		if !ended || exit.ExitCode() != 7 || t.Context().Err() != nil {
			return string(out), err
		}
	}
}

// copyProgram copies this program, which is fairlead under that name.
func copyProgram(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
