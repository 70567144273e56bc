package creds

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// directory is a held descriptor. All that is done in it is done by names of one
// element, and no name is followed if it is a link: whatever a racing process
// puts there, nothing outside of the directory is touched.
type directory struct {
	fd int
	// parent and name lead to a directory that openDir opened; parent is -1 for
	// one opened below another.
	parent int
	name   string
	// durable says that the content outlives a power cut and has to be synced.
	durable bool
}

const openFlags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openDir holds dir. Links are followed on the way to it (/var/run is one) but
// not in its last element. With create, that element is made if missing.
func openDir(dir string, create bool) (*directory, error) {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) == "/" {
		return nil, fmt.Errorf("%q is not an absolute path below /", dir)
	}
	up, name := filepath.Split(filepath.Clean(dir))
	parent, err := unix.Open(up, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", up, err)
	}
	d := &directory{fd: -1, parent: parent, name: name}
	if create {
		if err := unix.Mkdirat(parent, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			d.close()
			return nil, fmt.Errorf("make the directory: %w", err)
		}
	}
	if d.fd, err = unix.Openat(parent, name, unix.O_RDONLY|openFlags, 0); err != nil {
		d.close()
		if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
			return nil, fmt.Errorf("it is no directory but a link or a file: %w", err)
		}
		return nil, fmt.Errorf("open the directory: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(d.fd, &fs); err != nil {
		d.close()
		return nil, fmt.Errorf("look at the file system: %w", err)
	}
	d.durable = !inMemory(&fs)
	return d, nil
}

// open holds a directory below d.
func (d *directory) open(name string) (*directory, error) {
	fd, err := unix.Openat(d.fd, name, unix.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", name, err)
	}
	return &directory{fd: fd, parent: -1, name: name, durable: d.durable}, nil
}

func (d *directory) close() {
	if d.fd >= 0 {
		_ = unix.Close(d.fd)
	}
	if d.parent >= 0 {
		_ = unix.Close(d.parent)
	}
}

// own refuses a directory of somebody else, who could change what is written
// there, and gives our own the mode that the options ask for.
func (d *directory) own(o Options) error {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd, &st); err != nil {
		return fmt.Errorf("look at the directory: %w", err)
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, not to user %d who writes: %w", st.Uid, os.Geteuid(), unix.EPERM)
	}
	if st.Mode&0o7777 == o.dirMode() && (o.GID == nil || int(st.Gid) == *o.GID) {
		return nil
	}
	return d.setMode(o.dirMode(), o)
}

// setMode gives the group first: a mode for the group is never in force for the
// wrong one.
func (d *directory) setMode(mode uint32, o Options) error {
	return setMode(d.fd, mode, o)
}

func setMode(fd int, mode uint32, o Options) error {
	if o.GID != nil {
		if err := unix.Fchown(fd, -1, *o.GID); err != nil {
			return fmt.Errorf("give group %d: %w", *o.GID, err)
		}
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return fmt.Errorf("set mode %#o: %w", mode, err)
	}
	return nil
}

// writeFile makes one file that is not there yet.
func (d *directory) writeFile(name string, content []byte, o Options) error {
	fd, err := unix.Openat(d.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o400)
	if err != nil {
		return fmt.Errorf("make %q: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		return fmt.Errorf("write credentials: %w", err)
	}
	if err := setMode(fd, o.fileMode(), o); err != nil {
		return fmt.Errorf("file %q: %w", name, err)
	}
	if d.durable {
		if err := f.Sync(); err != nil {
			return fmt.Errorf("write credentials: %w", err)
		}
	}
	return nil
}

func (d *directory) sync() error {
	if !d.durable {
		return nil
	}
	if err := unix.Fsync(d.fd); err != nil {
		return fmt.Errorf("sync the directory: %w", err)
	}
	return nil
}

// entries are the names in the directory, in no order. They are read through a
// descriptor of their own, which begins at the first.
func (d *directory) entries() ([]string, error) {
	fd, err := unix.Openat(d.fd, ".", unix.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, fmt.Errorf("list the directory: %w", err)
	}
	f := os.NewFile(uintptr(fd), d.name)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list the directory: %w", err)
	}
	return names, nil
}

// isOurLink tells a name that Write made: a link to the file of that name.
func (d *directory) isOurLink(name string) bool {
	target, err := d.readlink(name)
	return err == nil && target == dataLink+"/"+name
}

func (d *directory) readlink(name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(d.fd, name, buf)
	if err != nil {
		return "", fmt.Errorf("read link %q: %w", name, err)
	}
	return string(buf[:n]), nil
}

// unlink removes a name that is no directory; that it is absent is no error.
func (d *directory) unlink(name string) error {
	if err := unix.Unlinkat(d.fd, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %q: %w", name, err)
	}
	return nil
}

// mountPoint reports whether something is mounted on the directory: then its
// descriptor and its parent's belong to different mounts. Device numbers would
// not tell a bind mount.
func (d *directory) mountPoint() (bool, error) {
	own, err := mountID(d.fd)
	if err != nil {
		return false, err
	}
	up, err := mountID(d.parent)
	return own != up, err
}

func mountID(fd int) (string, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return "", fmt.Errorf("find the mount: %w", err)
	}
	for line := range strings.Lines(string(info)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", errors.New("find the mount: the kernel names no mnt_id")
}
