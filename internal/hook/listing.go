package hook

import (
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/ldcache"
)

// listing is a directory of libraries that is being scanned.
type listing struct {
	root    *Root
	dir     scanDir
	shared  bool // it is not on the mount of the root
	entries []entry
	targets map[string]string          // what its links say; empty where they lead out of it
	files   map[string]ldcache.Library // the libraries that lie in it
}

// candidate is the file that a SONAME will be found by in one directory.
type candidate struct {
	name   string
	soname string
	lib    ldcache.Library
	link   bool
}

// newListing reads a directory and the libraries that lie in it. Most links are
// to those, so that of a link only its text need be read.
func newListing(r *Root, d scanDir) (*listing, error) {
	entries, err := list(d.fd)
	if err != nil {
		return nil, err
	}
	mount, err := mountOf(d.fd)
	if err != nil {
		return nil, err
	}
	l := &listing{root: r, dir: d, shared: mount != r.top, entries: entries, targets: map[string]string{}}
	var files []string
	for _, e := range entries {
		switch {
		case !l.considered(e):
		case e.kind == unix.DT_REG:
			files = append(files, e.name)
		default:
			if target, err := readlink(d.fd, e.name); err == nil {
				if strings.ContainsRune(target, '/') {
					target = ""
				}
				l.targets[e.name] = target
			}
		}
	}
	l.readFiles(files)
	return l, nil
}

// considered says whether an entry may be a library by its name and kind. In
// hwcaps directories the dynamic linker's own tool is content with any link.
func (l *listing) considered(e entry) bool {
	switch {
	case e.kind == unix.DT_LNK && l.dir.hwcaps != "":
		return !ldcache.IsUnfinished(e.name)
	case e.kind == unix.DT_LNK, e.kind == unix.DT_REG:
		return ldcache.IsLibrary(e.name)
	default:
		return false
	}
}

// readFiles reads libraries, several at a time: it is nearly all of the work.
func (l *listing) readFiles(names []string) {
	found := make([]ldcache.Library, len(names))
	workers := min(runtime.GOMAXPROCS(0), 4, len(names)/16+1)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			var r ldcache.Reader
			for i := w; i < len(names); i += workers {
				found[i] = l.read(&r, names[i])
			}
		})
	}
	wg.Wait()
	l.files = make(map[string]ldcache.Library, len(names))
	for i, lib := range found {
		if lib.Flags != 0 {
			l.files[names[i]] = lib
		}
	}
}

// read reads a library that lies in the directory; zero if it is none. The entry
// was a regular file a moment ago. Where others can put something else in its
// place, such as a device, whose mere opening has effects, it is looked at again
// before it is opened: that takes time, of which the container's own directories
// need none.
func (l *listing) read(r *ldcache.Reader, name string) ldcache.Library {
	flags := unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY
	if l.shared {
		flags = unix.O_PATH
	}
	fd, err := openEntry(l.dir.fd, name, flags)
	if err != nil {
		return ldcache.Library{}
	}
	defer unix.Close(fd)
	if l.shared {
		if fd, _, err = l.root.reopenRegular(fd); err != nil {
			return ldcache.Library{}
		}
		defer unix.Close(fd)
	} else if st, err := statOf(fd); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ldcache.Library{}
	}
	lib, err := r.Read(descriptor(fd))
	if err != nil {
		return ldcache.Library{}
	}
	return lib
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

// candidates are the newest libraries of each SONAME.
func (l *listing) candidates() []candidate {
	best := map[string]int{}
	var all []candidate
	for _, e := range l.entries {
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
	return all
}

// newerThan says which of two files of one SONAME is the better: a file is
// better than a link, and then the name decides.
func (c candidate) newerThan(other candidate) bool {
	if c.link != other.link {
		return other.link
	}
	return ldcache.CompareNames(other.name, c.name) < 0
}

// candidate says whether an entry is a library, and by which name it is found.
func (l *listing) candidate(e entry) (candidate, bool) {
	c := candidate{name: e.name}
	var ok bool
	if _, c.link = l.targets[e.name]; c.link {
		c.lib, ok = l.follow(e.name)
	} else {
		c.lib, ok = l.files[e.name]
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

// maxLinks is how many links may lead to each other, as for the kernel.
const maxLinks = 40

// follow is the library that a link leads to.
func (l *listing) follow(name string) (ldcache.Library, bool) {
	last := name
	for range maxLinks {
		target, ok := l.targets[last]
		if !ok {
			break
		}
		last = target
	}
	if lib, ok := l.files[last]; ok {
		return lib, true
	}
	fd, _, err := l.root.regular(l.dir.path + "/" + name)
	if err != nil {
		return ldcache.Library{}, false
	}
	defer unix.Close(fd)
	var r ldcache.Reader
	lib, err := r.Read(descriptor(fd))
	return lib, err == nil
}

// link makes the link by which a library is found. One that leads to the same
// file by another way is right too; a file in its place is left alone.
func (l *listing) link(c candidate) error {
	if c.name == c.soname || l.targets[c.soname] == c.name {
		return nil
	}
	i, exists := l.find(c.soname)
	if exists && (l.entries[i].kind != unix.DT_LNK || l.same(c.soname, c.name)) {
		return nil
	}
	return l.root.symlinkAt(l.dir.fd, c.soname, c.name)
}

func (l *listing) find(name string) (int, bool) {
	return slices.BinarySearchFunc(l.entries, name, func(e entry, name string) int {
		return strings.Compare(e.name, name)
	})
}

// same says whether two names in the directory lead to one file.
func (l *listing) same(a, b string) bool {
	x, okX := l.id(a)
	y, okY := l.id(b)
	return okX && okY && x == y
}

func (l *listing) id(name string) (fileID, bool) {
	fd, err := l.root.open(path.Join(l.dir.path, name), unix.O_PATH)
	if err != nil {
		return fileID{}, false
	}
	defer unix.Close(fd)
	st, err := statOf(fd)
	return st.id(), err == nil
}
