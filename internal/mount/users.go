// Package mount looks at mounts and makes them.
package mount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

// User is a process in another mount namespace, with what is mounted there.
type User struct {
	PID       int    // the first process of its namespace
	Comm      string // its name, of at most 15 characters that can be printed; not to be trusted
	Namespace string // as in mnt:[4026531841]
	Point     string // where it is mounted, seen from the process
}

// Users returns who has dir, or something below it, mounted in a mount namespace
// other than the caller's: in practice the containers that were given it. There
// is one User for each namespace, by process id. Processes that the caller may
// not look at are passed over, which means all of other people's unless the
// caller is root. An absent dir has no users.
func Users(dir string) ([]User, error) {
	where, err := locate(dir)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find users of %s: %w", dir, err)
	}
	var users []User
	err = elsewhere(func(u User, entries []entry) {
		if i := slices.IndexFunc(entries, where.mountedBy); i >= 0 {
			u.Point = entries[i].point
			users = append(users, u)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("find users of %s: %w", dir, err)
	}
	return users, nil
}

// elsewhere calls fn with one process of every mount namespace but the caller's,
// and with what is mounted there.
func elsewhere(fn func(u User, entries []entry)) error {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return err
	}
	pids, err := processes()
	if err != nil {
		return err
	}
	seen := map[string]bool{own: true}
	for _, pid := range pids {
		proc := "/proc/" + strconv.Itoa(pid)
		namespace, err := os.Readlink(proc + "/ns/mnt")
		if err != nil || seen[namespace] {
			continue // it has ended, or is none of ours to look at
		}
		text, err := os.ReadFile(proc + "/mountinfo")
		if err != nil {
			continue // another process of the namespace may still tell
		}
		seen[namespace] = true
		entries, err := parseMountinfo(string(text))
		if err != nil {
			return fmt.Errorf("process %d: %w", pid, err)
		}
		comm, _ := os.ReadFile(proc + "/comm")
		fn(User{PID: pid, Comm: printable(strings.TrimSuffix(string(comm), "\n")), Namespace: namespace}, entries)
	}
	return nil
}

// printable makes a name that a process gave itself fit for a terminal and a log.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
}

// place is a directory, told apart from all others in every mount namespace.
type place struct {
	device string // its file system
	path   string // its path from the root of that file system
}

// mountedBy reports whether e mounts the place or something below it. What is
// mounted from above it does not count: every namespace has a copy of /run.
func (p place) mountedBy(e entry) bool {
	root := strings.TrimSuffix(e.root, "//deleted")
	return e.device == p.device && (root == p.path || strings.HasPrefix(root, strings.TrimSuffix(p.path, "/")+"/"))
}

// locate finds dir in its own file system, through the mount it is reached by:
// that alone has the file system's number as mountinfo prints it (on btrfs stat
// gives another).
func locate(dir string) (place, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return place{}, err
	}
	defer unix.Close(fd)
	self := "/proc/self/fd/" + strconv.Itoa(fd)
	real, err := os.Readlink(self)
	if err != nil {
		return place{}, err
	}
	id, err := mountID(fd)
	if err != nil {
		return place{}, err
	}
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return place{}, err
	}
	entries, err := parseMountinfo(string(text))
	if err != nil {
		return place{}, err
	}
	for _, e := range entries {
		if e.id == id {
			below, err := filepath.Rel(e.point, real)
			return place{device: e.device, path: filepath.Join(e.root, below)}, err
		}
	}
	return place{}, fmt.Errorf("mount %d is not in mountinfo", id)
}

// mountID is the number in mountinfo of the mount that fd was reached through.
func mountID(fd int) (int, error) {
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(info)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.Atoi(strings.TrimSpace(id))
		}
	}
	return 0, errors.New("the kernel names no mnt_id")
}

// processes are the process ids of this host, in order.
func processes() ([]int, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}
