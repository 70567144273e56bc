package hook

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/ldcache"
)

// The limits of a scan. An image that needs more needs no container.
const (
	maxDirs = 256      // each is held open
	maxRoom = 32 << 20 // bytes of names and paths in the cache
)

// hwcapsDir holds directories with builds for better processors.
const hwcapsDir = "glibc-hwcaps"

// scan finds libraries in directories and makes their links.
type scan struct {
	root        *Root
	dirs        []scanDir
	known       map[fileID]int // directories, by their place in dirs
	entries     []ldcache.Entry
	room        int // bytes that are left for names and paths
	little, big int // libraries by byte order
}

// scanDir is a directory of libraries, held open.
type scanDir struct {
	fd     int
	path   string
	hwcaps string // its name if it is in glibc-hwcaps
	folder bool   // asked for: what fails there is an error
}

func newScan(r *Root) *scan {
	return &scan{root: r, known: map[fileID]int{}, room: maxRoom}
}

// addAll adds directories to those that are scanned, each once, by whatever
// path it is reached first.
func (s *scan) addAll(paths []string, folder bool) error {
	for _, p := range paths {
		if !strings.HasPrefix(p, "/") {
			continue // it would depend on the directory of whoever runs a program
		}
		added, err := s.add(scanDir{path: p, folder: folder})
		if err != nil {
			return err
		}
		if !added {
			continue
		}
		if err := s.addHwcaps(p, folder); err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) add(d scanDir) (added bool, err error) {
	d.fd, err = s.root.open(d.path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		if missing(err) || !d.folder {
			return false, nil
		}
		return false, fmt.Errorf("open folder %s: %w", d.path, err)
	}
	st, err := statOf(d.fd)
	i, known := s.known[st.id()]
	switch {
	case err != nil:
	case known:
		s.dirs[i].folder = s.dirs[i].folder || d.folder
	case len(s.dirs) == maxDirs:
		err = fmt.Errorf("open %s: there are more than %d directories of libraries", d.path, maxDirs)
	default:
		s.known[st.id()] = len(s.dirs)
		s.dirs = append(s.dirs, d)
		return true, nil
	}
	unix.Close(d.fd)
	return false, err
}

func (s *scan) addHwcaps(dir string, folder bool) error {
	dir += "/" + hwcapsDir
	entries, err := s.root.names(dir)
	if err != nil {
		return nil // there is none, most often
	}
	for _, e := range entries {
		// The dynamic linker separates these names by colons.
		if e.name[0] == '.' || e.kind == unix.DT_REG || strings.ContainsRune(e.name, ':') {
			continue
		}
		d := scanDir{path: dir + "/" + e.name, hwcaps: e.name}
		if !s.root.isDir(d.path) {
			continue
		}
		d.folder = folder
		if _, err := s.add(d); err != nil {
			return err
		}
	}
	return nil
}

// run scans the directories.
func (s *scan) run() error {
	var failed []error
	for _, d := range s.dirs {
		// What cannot be read where nobody asked for it is no library, as it is
		// not for the dynamic linker's own tool.
		if err := s.scan(d); err != nil && (d.folder || s.room < 0) {
			failed = append(failed, fmt.Errorf("folder %s: %w", d.path, err))
		}
	}
	return errors.Join(failed...)
}

// close lets go of the directories.
func (s *scan) close() {
	for _, d := range s.dirs {
		unix.Close(d.fd)
	}
}

// scan finds the libraries of a directory, makes their links and remembers them.
func (s *scan) scan(d scanDir) error {
	l, err := newListing(s.root, d)
	if err != nil {
		return err
	}
	var failed []error
	for _, c := range l.candidates() {
		file := c.soname
		switch {
		case d.hwcaps != "":
			file = c.name // those directories get no links
		case !c.link:
			if err := l.link(c); err != nil {
				failed = append(failed, fmt.Errorf("link %s to %s: %w", c.soname, c.name, err))
			}
		}
		if s.room -= len(c.soname) + len(d.path) + len(file); s.room < 0 {
			return errors.New("there are too many libraries for a cache")
		}
		s.entries = append(s.entries, ldcache.Entry{
			Name: c.soname, Path: d.path + "/" + file, Flags: c.lib.Flags, Hwcaps: d.hwcaps, ISA: c.lib.ISA,
		})
		s.count(c.lib)
	}
	return errors.Join(failed...)
}

// count remembers which byte order the libraries have.
func (s *scan) count(lib ldcache.Library) {
	if lib.Order == ldcache.Order(binary.BigEndian) {
		s.big++
	} else {
		s.little++
	}
}
