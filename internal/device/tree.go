package device

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of what is read: no file or directory of the kernel's comes near them.
const (
	maxFile    = 64 << 10
	maxEntries = 64 << 10
)

// tree is a directory taken for the root of a host. No path and no symbolic link
// leads out of it, whoever made the tree.
type tree struct {
	root *os.File
	path string // of the root, without links; "" for /
}

func openTree(root string) (*tree, error) {
	if root == "" {
		root = "/"
	}
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open root %s: %w", root, err)
	}
	f := os.NewFile(uintptr(fd), root)
	real, err := os.Readlink(fdPath(fd))
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("find root %s: %w", root, err)
	}
	return &tree{root: f, path: strings.TrimSuffix(real, "/")}, nil
}

func (t *tree) close() { t.root.Close() }

// below is a directory of the tree as a tree of its own: what its links call /
// is that directory.
func (t *tree) below(dir string) (*tree, error) {
	f, err := t.open(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	real, err := os.Readlink(fdPath(int(f.Fd())))
	if err != nil {
		f.Close()
		return nil, err
	}
	return &tree{root: f, path: strings.TrimSuffix(real, "/")}, nil
}

func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// open opens a path of the tree.
func (t *tree) open(name string, flags uint64) (*os.File, error) {
	how := unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	for range 8 { // EAGAIN: something was renamed meanwhile
		fd, err := unix.Openat2(int(t.root.Fd()), name, &how)
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
	return nil, &os.PathError{Op: "open", Path: name, Err: unix.EAGAIN}
}

// stat looks at a path, through links or at the link itself.
func (t *tree) stat(name string, follow bool) (unix.Stat_t, bool) {
	var st unix.Stat_t
	flags := uint64(unix.O_PATH)
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	f, err := t.open(name, flags)
	if err != nil {
		return st, false
	}
	defer f.Close()
	return st, unix.Fstat(int(f.Fd()), &st) == nil
}

func (t *tree) exists(name string) bool {
	_, ok := t.stat(name, true)
	return ok
}

// regular reports whether name is, or leads to, a regular file.
func (t *tree) regular(name string) bool {
	st, ok := t.stat(name, true)
	return ok && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// resolve is where name leads, without links; "" if nowhere.
func (t *tree) resolve(name string) string {
	f, err := t.open(name, unix.O_PATH)
	if err != nil {
		return ""
	}
	defer f.Close()
	real, err := os.Readlink(fdPath(int(f.Fd())))
	if err != nil {
		return ""
	}
	inside, ok := strings.CutPrefix(real, t.path+"/")
	if !ok {
		return ""
	}
	return "/" + inside
}

// target is what the link called name holds; "" if it is no link.
func (t *tree) target(name string) string {
	f, err := t.open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(f.Fd()), "", buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// read reads a regular file, at most maxFile bytes of it; "" if that fails.
func (t *tree) read(name string) string { return t.readUpTo(name, maxFile) }

// readUpTo reads a regular file, at most limit bytes of it; "" if that fails. A
// FIFO in its place neither hangs it nor is read.
func (t *tree) readUpTo(name string, limit int64) string {
	f, err := t.open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return "" // a driver that does not answer; half an attribute is none
	}
	return string(data)
}

// names lists a directory in byte order; nil if that fails.
func (t *tree) names(dir string) []string {
	f, err := t.open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, err := f.Readdirnames(maxEntries)
	if err != nil {
		return nil
	}
	slices.Sort(names)
	return names
}

// glob lists what a pattern fits, one level at a time, in byte order. A pattern
// that is malformed fits nothing; path.Match has its syntax.
func (t *tree) glob(pattern string) []string {
	found := []string{"/"}
	for part := range strings.SplitSeq(strings.Trim(pattern, "/"), "/") {
		var next []string
		for _, dir := range found {
			if !strings.ContainsAny(part, `*?[\`) {
				if name := path.Join(dir, part); t.exists(name) {
					next = append(next, name)
				}
				continue
			}
			for _, name := range t.names(dir) {
				if ok, _ := path.Match(part, name); ok {
					next = append(next, path.Join(dir, name))
				}
			}
		}
		if found = next; len(found) > maxEntries {
			found = found[:maxEntries]
		}
	}
	return found
}
