package creds

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrOnDisk says that a directory for secrets is on a file system that keeps its
// content, so that secrets would outlive a power cut and reach backups.
var ErrOnDisk = errors.New("directory is not in memory")

// EnsureTmpfs checks that dir is on tmpfs or ramfs. The error wraps ErrOnDisk
// where it is not; the caller warns, or mounts one.
func EnsureTmpfs(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	if !inMemory(&fs) {
		return fmt.Errorf("%w: %s is on file system type %#x, not on tmpfs: secrets in it would be written to disk", ErrOnDisk, dir, uint64(fs.Type))
	}
	return nil
}

func inMemory(fs *unix.Statfs_t) bool {
	return fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC
}

// MountTmpfs mounts a tmpfs of at most size bytes on dir, which must be an empty
// directory: private to its owner, without devices and programs, never written to
// swap where the kernel knows that (6.4). If dir is in memory already nothing is
// done. It needs CAP_SYS_ADMIN.
func MountTmpfs(dir string, size int64) error {
	if err := EnsureTmpfs(dir); !errors.Is(err, ErrOnDisk) {
		return err
	}
	d, err := openDir(dir, false)
	if err != nil {
		return fmt.Errorf("mount tmpfs on %s: %w", dir, err)
	}
	defer d.close()
	entries, err := d.entries()
	if err != nil {
		return fmt.Errorf("mount tmpfs on %s: %w", dir, err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("mount tmpfs on %s: it is not empty (%q would be hidden): move its content elsewhere", dir, entries[0])
	}
	// The descriptor's name: what was looked at is what is mounted on.
	target := fmt.Sprintf("/proc/self/fd/%d", d.fd)
	data := fmt.Sprintf("mode=0700,size=%d", size)
	const flags = unix.MS_NODEV | unix.MS_NOSUID | unix.MS_NOEXEC
	err = unix.Mount("fairlead", target, "tmpfs", flags, data+",noswap")
	if errors.Is(err, unix.EINVAL) {
		err = unix.Mount("fairlead", target, "tmpfs", flags, data)
	}
	if err != nil {
		return fmt.Errorf("mount tmpfs on %s: %w", dir, err)
	}
	return nil
}
