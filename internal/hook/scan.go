package hook

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/ldcache"
)

// The limits of a scan. An image that needs more needs no container.
const (
	maxDirs      = 256 // each is held open
	maxLibraries = 200_000
)

// hwcapsDir holds directories with builds for better processors.
const hwcapsDir = "glibc-hwcaps"

// scan finds libraries in directories and makes their links.
type scan struct {
	root        *Root
	dirs        []scanDir
	known       map[fileID]int // directories, by their place in dirs
	libraries   map[fileID]found
	entries     []ldcache.Entry
	little, big int // libraries by byte order
}

// scanDir is a directory of libraries, held open.
type scanDir struct {
	fd     int
	path   string
	hwcaps string // its name if it is in glibc-hwcaps
	folder bool   // asked for: what fails there is an error
}

// found is what a file is: a library, or not.
type found struct {
	lib ldcache.Library
	ok  bool
}

func newScan(r *Root) *scan {
	return &scan{root: r, known: map[fileID]int{}, libraries: map[fileID]found{}}
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
		if err := s.scan(d); err != nil {
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

// candidate is the file that a SONAME will be found by in one directory.
type candidate struct {
	name   string
	soname string
	lib    ldcache.Library
	link   bool
}

// scan finds the newest library of each SONAME in a directory. What cannot be
// read there is no library, as in the dynamic linker's own tool.
func (s *scan) scan(d scanDir) error {
	entries, err := list(d.fd)
	if err != nil {
		return ifFolder(d, err)
	}
	l := listing{scan: s, dir: d, entries: entries}
	best := map[string]int{}
	var all []candidate
	for _, e := range entries {
		c, ok := l.candidate(e)
		if !ok {
			continue
		}
		i, taken := best[c.soname]
		switch {
		case !taken:
			best[c.soname] = len(all)
			all = append(all, c)
		case c.newerThan(all[i]):
			all[i] = c
		}
	}
	return s.keep(d, &l, all)
}

// newerThan says which of two files of one SONAME is the better: a file is
// better than a link, and then the name decides.
func (c candidate) newerThan(other candidate) bool {
	if c.link != other.link {
		return other.link
	}
	return ldcache.CompareNames(other.name, c.name) < 0
}

// keep makes the links of a directory and remembers its libraries.
func (s *scan) keep(d scanDir, l *listing, all []candidate) error {
	if len(s.entries)+len(all) > maxLibraries {
		return fmt.Errorf("there are more than %d libraries", maxLibraries)
	}
	var failed []error
	for _, c := range all {
		file := c.soname
		switch {
		case d.hwcaps != "":
			file = c.name // those directories get no links
		case !c.link:
			if err := l.link(c); err != nil {
				failed = append(failed, fmt.Errorf("link %s to %s: %w", c.soname, c.name, err))
			}
		}
		s.entries = append(s.entries, ldcache.Entry{
			Name: c.soname, Path: d.path + "/" + file, Flags: c.lib.Flags, Hwcaps: d.hwcaps, ISA: c.lib.ISA,
		})
	}
	return ifFolder(d, errors.Join(failed...))
}

func ifFolder(d scanDir, err error) error {
	if d.folder {
		return err
	}
	return nil
}

// count remembers which byte order the libraries have.
func (s *scan) count(lib ldcache.Library) {
	if lib.Order == ldcache.Order(binary.BigEndian) {
		s.big++
	} else {
		s.little++
	}
}

// listing is a directory that is being scanned.
type listing struct {
	scan    *scan
	dir     scanDir
	entries []entry
	links   map[string]string // what links say that have been read
}

// candidate says whether an entry is a library, and by which name it is found.
func (l *listing) candidate(e entry) (candidate, bool) {
	if !l.considered(e) {
		return candidate{}, false
	}
	c := candidate{name: e.name, link: e.kind == unix.DT_LNK}
	var ok bool
	if c.link {
		c.lib, ok = l.follow(e.name)
	} else {
		c.lib, ok = l.read(e.name)
	}
	if !ok {
		return candidate{}, false
	}
	c.soname = c.lib.Soname
	if c.soname == "" {
		c.soname = e.name
	}
	// A SONAME with a slash is looked up by path and never in the cache; a link
	// by that name would lie wherever the library's author wished.
	if strings.ContainsRune(c.soname, '/') || c.soname == "." || c.soname == ".." {
		return candidate{}, false
	}
	// A link is found by its own name, if that is the SONAME or the name that a
	// compiler uses; by any other name it stands for a library of its own.
	if c.link && (e.name == c.soname || strings.HasSuffix(e.name, ".so") && strings.HasPrefix(c.soname, e.name)) {
		c.soname = e.name
	} else {
		c.link = false
	}
	return c, true
}

func (l *listing) considered(e entry) bool {
	if e.kind != unix.DT_REG && e.kind != unix.DT_LNK {
		return false
	}
	if l.dir.hwcaps != "" && e.kind != unix.DT_REG {
		return !ldcache.IsUnfinished(e.name)
	}
	return ldcache.IsLibrary(e.name)
}

// follow reads the library that a link leads to. Most lead to a file beside
// them that is known already.
func (l *listing) follow(name string) (ldcache.Library, bool) {
	target, err := readlink(l.dir.fd, name)
	if err != nil {
		return ldcache.Library{}, false
	}
	if l.links == nil {
		l.links = map[string]string{}
	}
	l.links[name] = target
	if i, ok := l.find(target); ok && l.entries[i].kind == unix.DT_REG {
		return l.read(target)
	}
	fd, err := l.scan.root.open(l.dir.path+"/"+name, unix.O_PATH)
	if err != nil {
		return ldcache.Library{}, false
	}
	defer unix.Close(fd)
	return l.scan.library(fd)
}

func (l *listing) find(name string) (int, bool) {
	return slices.BinarySearchFunc(l.entries, name, func(e entry, name string) int {
		return strings.Compare(e.name, name)
	})
}

// read reads a library that lies in the directory itself.
func (l *listing) read(name string) (ldcache.Library, bool) {
	fd, err := openEntry(l.dir.fd, name, unix.O_PATH)
	if err != nil {
		return ldcache.Library{}, false
	}
	defer unix.Close(fd)
	return l.scan.library(fd)
}

// library reads what an O_PATH descriptor is of, each file once.
func (s *scan) library(fd int) (ldcache.Library, bool) {
	st, err := statOf(fd)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ldcache.Library{}, false
	}
	if f, ok := s.libraries[st.id()]; ok {
		return f.lib, f.ok
	}
	opened, err := s.root.reopen(fd, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return ldcache.Library{}, false
	}
	defer unix.Close(opened)
	lib, err := ldcache.ReadLibrary(descriptor(opened))
	f := found{lib, err == nil}
	if f.ok {
		s.count(lib)
	}
	s.libraries[st.id()] = f
	return f.lib, f.ok
}

// descriptor reads a file at an offset.
type descriptor int

func (d descriptor) ReadAt(b []byte, at int64) (int, error) {
	n, err := unix.Pread(int(d), b, at)
	if err != nil {
		return 0, err
	}
	return n, nil
}

// link makes the link by which a library is found. One that leads to the same
// file by another way is right too; a file in its place is left alone.
func (l *listing) link(c candidate) error {
	if c.name == c.soname {
		return nil
	}
	if l.links[c.soname] == c.name {
		return nil
	}
	i, exists := l.find(c.soname)
	if exists && l.entries[i].kind != unix.DT_LNK {
		return nil
	}
	if exists && l.same(c.soname, c.name) {
		return nil
	}
	return l.scan.root.symlinkAt(l.dir.fd, c.soname, c.name)
}

// same says whether two names in the directory lead to one file.
func (l *listing) same(a, b string) bool {
	x, okX := l.id(a)
	y, okY := l.id(b)
	return okX && okY && x == y
}

func (l *listing) id(name string) (fileID, bool) {
	fd, err := l.scan.root.open(path.Join(l.dir.path, name), unix.O_PATH)
	if err != nil {
		return fileID{}, false
	}
	defer unix.Close(fd)
	st, err := statOf(fd)
	return st.id(), err == nil
}
