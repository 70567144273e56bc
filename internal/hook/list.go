package hook

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxNames is how many entries a directory of libraries or of configuration
// may have.
const maxNames = 100_000

// entry is one name in a directory. Kind is its type, such as unix.DT_REG.
type entry struct {
	name string
	kind byte
}

// list reads the names in a directory that is open for reading, sorted. The
// standard library would look up by path what a file system does not tell.
func list(dir int) ([]entry, error) {
	var entries []entry
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(dir, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, err
		case n == 0:
			slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
			return entries, addKinds(dir, entries)
		}
		entries = appendEntries(entries, buf[:n])
		if len(entries) > maxNames {
			return nil, fmt.Errorf("it has more than %d entries", maxNames)
		}
	}
}

// appendEntries reads records of struct linux_dirent64: inode, offset, length,
// type, name.
func appendEntries(entries []entry, b []byte) []entry {
	for len(b) >= 19 {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size < 19 || size > len(b) {
			break
		}
		name := b[19:size]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		if s := string(name); s != "." && s != ".." {
			entries = append(entries, entry{s, b[18]})
		}
		b = b[size:]
	}
	return entries
}

// addKinds asks for the types that the file system did not tell by itself.
func addKinds(dir int, entries []entry) error {
	for i, e := range entries {
		if e.kind != unix.DT_UNKNOWN {
			continue
		}
		var st unix.Stat_t
		err := unix.Fstatat(dir, e.name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && !missing(err) {
			return err
		}
		entries[i].kind = byte(st.Mode >> 12 & 15)
	}
	return nil
}

// names lists the directory at a path of the container.
func (r *Root) names(dir string) ([]entry, error) {
	fd, err := r.open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return list(fd)
}
