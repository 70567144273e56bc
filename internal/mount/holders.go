package mount

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Holder is a process in another mount namespace that finds a device node at a
// path.
type Holder struct {
	PID          int    // the first process of its namespace
	Comm         string // its name, as in User
	Path         string // the node, as the process sees it
	Type         string // "b" or "c"
	Major, Minor uint32
}

// resolveCached has openat2(2) fail where it would have to ask a file system
// (Linux 5.12; an older kernel refuses it, and then no holder is found).
const resolveCached = 0x20

// Holders returns who finds a device node at one of the absolute paths in a mount
// namespace other than the caller's: in practice the containers that were given
// it. There is one Holder for each namespace and path, by process id. Processes
// that the caller may not look at are passed over, as in Users.
//
// What a container has mounted cannot hold the caller up: only nodes are looked at
// that lie on a tmpfs, as a container's /dev does, or that are mounted one by one
// from the host's, and only what the kernel has in memory. The host's own /dev is
// passed over: a service with a mount namespace of its own sees what the host sees.
func Holders(paths []string) ([]Holder, error) {
	var holders []Holder
	err := elsewhere(func(u User, entries []entry) {
		for _, path := range paths {
			if !ofContainer(entries, path) {
				continue
			}
			if h, ok := nodeOf(u.PID, path); ok {
				h.PID, h.Comm, h.Path = u.PID, u.Comm, path
				holders = append(holders, h)
			}
		}
	})
	return holders, err
}

// ofContainer reports whether what is at path is a container's own node: on a file
// system without a disk, a network or a process behind it, and not in the host's
// /dev.
func ofContainer(entries []entry, path string) bool {
	on := entry{}
	for _, e := range entries { // the last of those that are over path is on top
		if e.point == path || strings.HasPrefix(path, strings.TrimSuffix(e.point, "/")+"/") {
			on = e
		}
	}
	return on.fsType == "tmpfs" || on.fsType == "ramfs" || on.fsType == "devtmpfs" && on.point == path
}

// nodeOf looks at a path of a process's: without following a link, and without
// asking any file system for what the kernel does not have in its cache.
func nodeOf(pid int, path string) (Holder, bool) {
	root, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Holder{}, false
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS | resolveCached,
	})
	if err != nil {
		return Holder{}, false
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st) != nil {
		return Holder{}, false
	}
	types := map[uint16]string{unix.S_IFCHR: "c", unix.S_IFBLK: "b"}
	t := types[st.Mode&unix.S_IFMT]
	return Holder{Type: t, Major: st.Rdev_major, Minor: st.Rdev_minor}, t != ""
}
