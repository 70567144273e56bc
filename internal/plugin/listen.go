package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultSocketMode lets the owner and the group of the socket connect.
const DefaultSocketMode fs.FileMode = 0o660

// ErrInUse is wrapped when another process answers on the endpoint.
var ErrInUse = errors.New("endpoint is in use")

// Listen binds the endpoint's socket with the given permissions; 0 means
// [DefaultSocketMode].
//
// A socket that a dead process left behind is replaced. What still answers
// gives [ErrInUse]; what is no socket, be it a file, a directory or a symbolic
// link, is never removed, and gives [ErrConfig]. Nothing else is created, not
// even for a moment (COSI-156), and the socket is at no time open to more
// users than mode says. Closing the listener removes the socket if it is
// still the same one.
func Listen(endpoint string, mode fs.FileMode) (net.Listener, error) {
	path, err := ParseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	if mode == 0 {
		mode = DefaultSocketMode
	}
	unlock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	defer unlock()
	l, err := bind(path, mode.Perm())
	if errors.Is(err, syscall.EADDRINUSE) {
		if err := removeStale(path); err != nil {
			return nil, err
		}
		l, err = bind(path, mode.Perm())
	}
	return l, err
}

// RemoveStale removes the socket of an endpoint that a dead process left behind,
// for one that is about to be started there and may not do so itself. Errors
// are those of [Listen]; an absent socket is none.
func RemoveStale(endpoint string) error {
	path, err := ParseEndpoint(endpoint)
	if err != nil {
		return err
	}
	unlock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("remove stale socket %s: %w", path, err)
	}
	defer unlock()
	return removeStale(path)
}

// lockDir keeps other processes of ours from probing, removing or binding a
// socket in dir meanwhile: between two of these steps a fresh socket looks
// like a stale one. The lock is on the directory itself, as no lock file may
// stand beside the socket (COSI-156).
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%w: the socket's directory is not there: %w", ErrConfig, err)
	}
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockWait); ; time.Sleep(lockPause) {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(deadline) {
			f.Close()
			return nil, fmt.Errorf("lock directory %s: %w", dir, err)
		}
	}
}

// The lock is held for microseconds, except by a stranger who locks directories.
const (
	lockWait  = 5 * time.Second
	lockPause = time.Millisecond
)

func bind(path string, mode fs.FileMode) (net.Listener, error) {
	// The socket's own mode, set before bind, becomes the mode of the file that
	// bind creates, less the umask. So there is no moment in which it is wider
	// than asked, and the umask, which all threads share, stays as it is.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), uint32(mode)) }); e != nil {
			return e
		}
		return err
	}}
	inner, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l := &listener{UnixListener: inner.(*net.UnixListener), path: path}
	l.SetUnlinkOnClose(false)
	if l.file, err = os.Lstat(path); err == nil && l.file.Mode().Perm() != mode {
		err = os.Chmod(path, mode) // gives back what the umask took
	}
	if err != nil {
		l.UnixListener.Close()
		return nil, fmt.Errorf("set mode of socket %s: %w", path, err)
	}
	return l, nil
}

// removeStale unlinks the socket at path if nobody answers there.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at socket %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%w: %s is %s, not a socket; it is left alone: remove it or choose another endpoint", ErrConfig, path, typeName(info.Mode()))
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("look whether socket %s is in use: %w", path, err)
	case !errors.Is(err, syscall.ECONNREFUSED):
		// An answer, a full backlog or another socket type: somebody is there.
		return fmt.Errorf("%w: another process answers on %s", ErrInUse, path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove stale socket: %w", err)
	}
	return nil
}

func typeName(m fs.FileMode) string {
	switch m.Type() {
	case 0:
		return "a regular file"
	case fs.ModeDir:
		return "a directory"
	case fs.ModeSymlink:
		return "a symbolic link"
	case fs.ModeNamedPipe:
		return "a named pipe"
	default:
		return "a device"
	}
}

// listener removes its socket when closed, if it is still its own: a later
// process may have put another one at the same path.
type listener struct {
	*net.UnixListener
	path  string
	file  fs.FileInfo
	close sync.Once
}

// Close removes the socket and stops listening, in this order: until the
// listener is closed the kernel keeps the inode, so that no other file can
// have its number.
func (l *listener) Close() (err error) {
	l.close.Do(func() { err = l.remove() })
	return errors.Join(err, l.UnixListener.Close())
}

func (l *listener) remove() error {
	unlock, err := lockDir(filepath.Dir(l.path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	now, err := os.Lstat(l.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(l.file, now) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Remove(l.path)
}
