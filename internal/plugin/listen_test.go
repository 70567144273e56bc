package plugin_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/plugin"
)

// socketPath is short enough for a socket, unlike many a t.TempDir.
func socketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "p.sock")
}

// staleSocket leaves at path what a killed process leaves.
func staleSocket(t testing.TB, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
}

func listen(t testing.TB, path string, mode fs.FileMode) net.Listener {
	t.Helper()
	l, err := plugin.Listen("unix://"+path, mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func names(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

// Req: COSI-141, COSI-156
func TestListenReplacesStaleSocket(t *testing.T) {
	path := socketPath(t)
	staleSocket(t, path)
	l := listen(t, path, 0)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if got := names(t, filepath.Dir(path)); got != "p.sock" {
		t.Errorf("beside the socket there is: %s", got)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := names(t, filepath.Dir(path)); got != "" {
		t.Errorf("left behind: %s", got)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
}

// Req: COSI-179
func TestRemoveStale(t *testing.T) {
	path := socketPath(t)
	remove := func(want error) {
		t.Helper()
		if err := plugin.RemoveStale("unix://" + path); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	remove(nil) // absent
	staleSocket(t, path)
	remove(nil)
	if left := names(t, filepath.Dir(path)); left != "" {
		t.Errorf("left: %s", left)
	}
	l := listen(t, path, 0)
	remove(plugin.ErrInUse)
	l.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	remove(plugin.ErrConfig)
	if left := names(t, filepath.Dir(path)); left != "p.sock" {
		t.Errorf("left: %q", left)
	}
}

func TestListenRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		put  func(t *testing.T, path string)
		want error
		text string
	}{
		"file": {func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, plugin.ErrConfig, "is a regular file, not a socket"},
		"directory": {func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, plugin.ErrConfig, "is a directory, not a socket"},
		"link to a stale socket": {func(t *testing.T, path string) {
			staleSocket(t, path+".real.sock")
			if err := os.Symlink(path+".real.sock", path); err != nil {
				t.Fatal(err)
			}
		}, plugin.ErrConfig, "is a symbolic link, not a socket"},
		"dangling link": {func(t *testing.T, path string) {
			if err := os.Symlink("/nowhere", path); err != nil {
				t.Fatal(err)
			}
		}, plugin.ErrConfig, "is a symbolic link, not a socket"},
		"named pipe": {func(t *testing.T, path string) {
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		}, plugin.ErrConfig, "is a named pipe, not a socket"},
		"live socket":       {func(t *testing.T, path string) { listen(t, path, 0) }, plugin.ErrInUse, "another process answers"},
		"live datagram":     {datagram, plugin.ErrInUse, "another process answers"},
		"missing directory": {func(t *testing.T, path string) { os.Remove(filepath.Dir(path)) }, plugin.ErrConfig, "directory is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			test.put(t, path)
			before := names(t, filepath.Dir(filepath.Dir(path))) != "" && exists(path)
			_, err := plugin.Listen("unix://"+path, 0)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v; want %v: %s", err, test.want, test.text)
			}
			if exists(path) != before {
				t.Error("what was there has been removed")
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func datagram(t *testing.T, path string) {
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
}

// Of many that find the same stale socket one replaces it, and nobody removes
// the fresh one as if it were stale.
func TestListenRace(t *testing.T) {
	for range 20 {
		path := socketPath(t)
		staleSocket(t, path)
		const starters = 16
		won := make(chan net.Listener, starters)
		var all sync.WaitGroup
		for range starters {
			all.Go(func() {
				l, err := plugin.Listen("unix://"+path, 0)
				switch {
				case err == nil:
					won <- l
				case !errors.Is(err, plugin.ErrInUse):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(won) != 1 {
			t.Fatalf("%d of %d listen", len(won), starters)
		}
		l := <-won
		if c, err := net.Dial("unix", path); err != nil {
			t.Errorf("the winner's socket is gone: %v", err)
		} else {
			c.Close()
		}
		l.Close()
	}
}

func TestCloseKeepsAnothersSocket(t *testing.T) {
	path := socketPath(t)
	first := listen(t, path, 0)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	listen(t, path, 0)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the second socket was removed by the first's owner: %v", err)
	}
	c.Close()
}

func TestCloseWithoutDirectory(t *testing.T) {
	path := socketPath(t)
	l := listen(t, path, 0)
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// Req: COSI-146
func TestSocketMode(t *testing.T) {
	for _, umask := range []int{0o022, 0o077} {
		for mode, want := range map[fs.FileMode]fs.FileMode{0: 0o660, 0o600: 0o600, 0o666: 0o666} {
			old := syscall.Umask(umask)
			path := socketPath(t)
			listen(t, path, mode)
			syscall.Umask(old)
			info, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != want {
				t.Errorf("umask %o: mode %o became %o, want %o", umask, mode, info.Mode().Perm(), want)
			}
		}
	}
}

// With no umask at all the socket is born with its mode: nobody changes it
// afterwards, so there was no moment in which more users could connect.
func TestSocketModeHasNoWindow(t *testing.T) {
	path := socketPath(t)
	w, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Add(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	old := syscall.Umask(0)
	listen(t, path, 0o600)
	syscall.Umask(old)
	last := filepath.Join(filepath.Dir(path), "last")
	if err := os.WriteFile(last, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		select {
		case e := <-w.Events:
			if e.Name == last {
				return
			}
			if e.Op != fsnotify.Create || e.Name != path {
				t.Errorf("seen: %v", e)
			}
		case err := <-w.Errors:
			t.Fatal(err)
		case <-ctx.Done():
			t.Fatal("no event for the last file")
		}
	}
}

// Req: COSI-179
func TestExitCode(t *testing.T) {
	for want, err := range map[int]error{
		0: nil, plugin.ExitConfig: plugin.ErrEndpoint, plugin.ExitUnavailable: plugin.ErrInUse,
		plugin.ExitNoPerm: fs.ErrPermission, plugin.ExitSoftware: errors.New("other"),
	} {
		if got := plugin.ExitCode(err); got != want {
			t.Errorf("ExitCode(%v) = %d, want %d", err, got, want)
		}
	}
}
