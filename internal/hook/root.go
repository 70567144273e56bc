// Package hook does what the hooks of a container device do inside a container's
// root file system: make links, write the cache of the dynamic linker, change
// modes.
//
// The root file system may come from an image that means harm, and a process
// that shares one of its volumes may change it at any moment. So every path in
// it is resolved by the kernel (openat2) with the root as its top, from a
// descriptor of the root that is held from start to end; what was resolved is
// then used through its own descriptor and never again by its path. Nothing is
// opened for reading before it is known to be a regular file. Nothing is written
// where a bind mount shows a directory of the host: an image can lead any of its
// paths there by a link, and the container could otherwise change, through the
// hook, what it may not change itself.
//
// The package executes no program, of the container or of the host.
package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotRegular says that what should be read is no regular file.
	ErrNotRegular = errors.New("not a regular file")
	// ErrForeign says that a path leads to a file system that is not the
	// container's own, such as a directory of the host that is bind mounted.
	ErrForeign = errors.New("it lies on a mount of the host, which a hook does not write to")
)

// Root is the root directory of one container, held open.
type Root struct {
	fd     int
	proc   int    // /proc/self/fd
	top    uint64 // id of the mount that it is on
	mounts []Mount
	own    map[uint64]bool // ids of the mounts that are the container's alone; nil until somebody asks
}

// OpenRoot holds the directory at path, an absolute path of the host. Mounts
// are those of the container's configuration: with the mount of the root itself,
// the file systems that were made for the container (tmpfs and the like) are
// where changes are allowed.
func OpenRoot(path string, mounts []Mount) (*Root, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open container root %s: %w", path, err)
	}
	r := &Root{fd: fd, proc: -1, mounts: mounts}
	if err := r.prepare(); err != nil {
		r.Close()
		return nil, fmt.Errorf("open container root %s: %w", path, err)
	}
	return r, nil
}

func (r *Root) prepare() error {
	same, err := r.isHostRoot()
	if err != nil {
		return err
	}
	if same {
		return errors.New("it is the root of the host")
	}
	if r.proc, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open /proc/self/fd: %w", err)
	}
	var s unix.Statfs_t
	if err := unix.Fstatfs(r.proc, &s); err != nil {
		return fmt.Errorf("examine /proc: %w", err)
	}
	if s.Type != unix.PROC_SUPER_MAGIC {
		return errors.New("/proc is no proc file system")
	}
	r.top, err = mountOf(r.fd)
	return err
}

// isHostRoot says whether the container's root is the caller's own: a hook that
// is given the wrong directory must not change the host.
func (r *Root) isHostRoot() (bool, error) {
	ours, err := statOf(r.fd)
	if err != nil {
		return false, err
	}
	var top unix.Stat_t
	if err := unix.Stat("/", &top); err != nil {
		return false, err
	}
	return ours.id() == fileID{top.Dev, top.Ino}, nil
}

// findOwn finds the mounts that are the container's own. One that is reached by
// the destination of any other is not, whatever else leads there. Nor is one that
// lies on a mount that is not the container's own: a bind mount can show what
// else is mounted on the host, and who shares it can make it look like ours.
func (r *Root) findOwn() error {
	foreign := map[uint64]bool{}
	for _, m := range r.mounts {
		if m.private() {
			continue
		}
		id, _, err := r.mountAt(m.Destination)
		if err != nil {
			return err
		}
		foreign[id] = true
	}
	r.own = map[uint64]bool{r.top: true}
	for _, m := range r.mounts {
		if !m.private() {
			continue
		}
		id, below, err := r.mountAt(m.Destination)
		if err != nil {
			return err
		}
		if id != 0 && r.own[below] && !foreign[id] {
			r.own[id] = true
		}
	}
	return nil
}

// mountAt finds the mount whose root is at a path, and the mount that it lies
// on. Both are 0 if nothing is mounted there, or nothing is there.
func (r *Root) mountAt(name string) (id, below uint64, err error) {
	fd, err := r.open(name, unix.O_PATH)
	if err != nil {
		return 0, 0, nil
	}
	defer unix.Close(fd)
	st, err := statx(fd)
	if err != nil || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return 0, 0, err
	}
	up, err := openat2(fd, "..", unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return st.Mnt_id, 0, nil // a file
	}
	defer unix.Close(up)
	below, err = mountOf(up)
	return st.Mnt_id, below, err
}

// Close lets go of the root.
func (r *Root) Close() {
	for _, fd := range []int{r.fd, r.proc} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// open resolves a path in the container. With O_PATH, which every call but for
// directories to be listed has, what is there is not touched.
func (r *Root) open(name string, flags int) (int, error) {
	return openat2(r.fd, name, flags, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
}

// openEntry opens the entry of that name in a directory; not what it links to.
func openEntry(dir int, name string, flags int) (int, error) {
	return openat2(dir, name, flags|unix.O_NOFOLLOW,
		unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
}

// busy is how often a lookup is tried that the kernel could not make safely
// because something was renamed meanwhile.
const busy = 128

func openat2(dir int, name string, flags int, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dir, name, &how)
		switch {
		case err == nil:
			return fd, nil
		case err == unix.EINTR:
		case err == unix.EAGAIN && try < busy:
		case err == unix.ENOSYS:
			return -1, errors.New("this kernel has no openat2 (Linux 5.6), without which nothing is safe")
		default:
			return -1, err
		}
	}
}

// dir opens a directory to work in.
func (r *Root) dir(name string) (int, error) {
	return r.open(name, unix.O_PATH|unix.O_DIRECTORY)
}

// regular opens a regular file for reading. Opening a device can have effects
// and opening a FIFO can block, so it is looked at first and then opened by the
// descriptor that was looked at.
func (r *Root) regular(name string) (int, stat, error) {
	fd, err := r.open(name, unix.O_PATH)
	if err != nil {
		return -1, stat{}, err
	}
	defer unix.Close(fd)
	return r.reopenRegular(fd)
}

// reopenRegular opens for reading what an O_PATH descriptor is of.
func (r *Root) reopenRegular(fd int) (int, stat, error) {
	st, err := statOf(fd)
	if err != nil {
		return -1, stat{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, stat{}, ErrNotRegular
	}
	opened, err := r.reopen(fd, unix.O_RDONLY|unix.O_NONBLOCK)
	return opened, st, err
}

func (r *Root) reopen(fd, flags int) (int, error) {
	return unix.Openat(r.proc, strconv.Itoa(fd), flags|unix.O_CLOEXEC, 0)
}

// readFile reads a regular file of at most limit bytes.
func (r *Root) readFile(name string, limit int) ([]byte, fileID, error) {
	fd, st, err := r.regular(name)
	if err != nil {
		return nil, fileID{}, err
	}
	defer unix.Close(fd)
	if st.Size > int64(limit) {
		return nil, fileID{}, fmt.Errorf("it has %d bytes, more than %d", st.Size, limit)
	}
	data, err := readAll(fd, limit)
	return data, st.id(), err
}

// readAll reads to the end, but no more than limit bytes: the file may grow.
func readAll(fd, limit int) ([]byte, error) {
	data := make([]byte, 0, 4096)
	for {
		if len(data) > limit {
			return nil, fmt.Errorf("it has more than %d bytes", limit)
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := unix.Read(fd, data[len(data):cap(data)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case n == 0:
			return data, nil
		default:
			data = data[:len(data)+n]
		}
	}
}

// writable says whether the directory or file is on a mount of the container's
// own.
func (r *Root) writable(fd int) error {
	id, err := mountOf(fd)
	if err != nil || id == r.top {
		return err
	}
	if r.own == nil {
		if err := r.findOwn(); err != nil {
			return err
		}
	}
	if !r.own[id] {
		return ErrForeign
	}
	return nil
}

// mountOf is the id of the mount that a descriptor was opened on. The kernel
// gives no id twice while one of its mounts is in use.
func mountOf(fd int) (uint64, error) {
	st, err := statx(fd)
	return st.Mnt_id, err
}

func statx(fd int) (unix.Statx_t, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
		return st, fmt.Errorf("find mount: %w", err)
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return st, errors.New("find mount: this kernel does not tell (Linux 5.8 does)")
	}
	return st, nil
}

// stat is what a descriptor is of.
type stat struct{ unix.Stat_t }

// fileID tells files apart while they exist.
type fileID struct{ device, inode uint64 }

func statOf(fd int) (stat, error) {
	var st stat
	if err := unix.Fstat(fd, &st.Stat_t); err != nil {
		return stat{}, fmt.Errorf("examine: %w", err)
	}
	return st, nil
}

func (s stat) id() fileID { return fileID{s.Dev, s.Ino} }

// makeDirs opens a directory, and makes it and its parents where they lack.
func (r *Root) makeDirs(name string) (int, error) {
	fd, err := r.dir(name)
	if !missing(err) {
		return fd, err
	}
	parent, err := r.makeDirs(path.Dir(name))
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	if err := r.writable(parent); err != nil {
		return -1, err
	}
	// Who made it meanwhile has saved us the work. Where a link is that leads
	// nowhere, opening it fails again.
	if err := unix.Mkdirat(parent, path.Base(name), 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	return r.dir(name)
}

// missing says whether a path leads nowhere.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
