package hook

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/ldcache"
)

// Where the dynamic linker of a container keeps its things.
const (
	confFile  = "/etc/ld.so.conf"
	confDir   = "/etc/ld.so.conf.d"
	foldersIn = "00-mounted-libraries.conf" // as the specification names it (CDI-116)
	cacheDir  = "/etc"
	cacheName = "ld.so.cache"
)

// The limits of what is read of the configuration. Its files name each other, and
// an image may make them name very many, and very many directories.
const (
	maxConfFiles = 1000
	maxConfDirs  = 10_000
)

// conf is a walk through configuration files. Each is read once: to read it
// again could not add a directory, and so a file may include itself.
type conf struct {
	root *Root
	seen map[fileID]bool
	dirs []string
	read int
}

// confDirs are the directories that the container's configuration names, in
// their order. A container without configuration has none.
func (r *Root) confDirs() ([]string, error) {
	c := conf{root: r, seen: map[fileID]bool{}}
	if err := c.file(confFile); err != nil && !missing(err) {
		return nil, err
	}
	return c.dirs, nil
}

func (c *conf) file(name string) error {
	if c.read++; c.read > maxConfFiles {
		return fmt.Errorf("read %s: more than %d configuration files include each other", confFile, maxConfFiles)
	}
	data, id, err := c.root.readFile(name, ldcache.MaxConf)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if c.seen[id] {
		return nil
	}
	c.seen[id] = true
	directives, err := ldcache.ParseConf(data)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	for _, d := range directives {
		if d.Dir != "" {
			c.dirs = append(c.dirs, d.Dir)
		}
		if len(c.dirs) > maxConfDirs {
			return fmt.Errorf("read %s: it names more than %d directories", name, maxConfDirs)
		}
		for _, pattern := range d.Include {
			if err := c.include(path.Dir(name), pattern); err != nil {
				return err
			}
		}
	}
	return nil
}

// include reads the files that match a pattern, in order. What cannot be there
// for the dynamic linker's own tool is passed over: a link that leads nowhere, a
// directory.
func (c *conf) include(dir, pattern string) error {
	if !strings.HasPrefix(pattern, "/") {
		pattern = dir + "/" + pattern
	}
	if len(pattern) >= unix.PathMax {
		return nil // no path is that long
	}
	names, err := c.root.glob(pattern)
	if err != nil {
		return fmt.Errorf("include %q: %w", pattern, err)
	}
	for _, name := range names {
		err := c.file(name)
		if err != nil && !missing(err) && !c.root.isDir(name) {
			return err
		}
	}
	return nil
}

func (r *Root) isDir(name string) bool {
	fd, err := r.dir(name)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// glob expands a pattern as glob(3) does in the C locale, without its extras.
func (r *Root) glob(pattern string) ([]string, error) {
	found := []string{""}
	for part := range strings.SplitSeq(path.Clean(pattern), "/") {
		if part == "" {
			continue
		}
		if !strings.ContainsAny(part, `*?[\`) {
			for i := range found {
				found[i] += "/" + part
			}
			continue
		}
		var err error
		if found, err = r.globIn(found, part); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// globIn matches one part of a pattern in directories that need not exist.
func (r *Root) globIn(dirs []string, part string) ([]string, error) {
	part = strings.ReplaceAll(part, "[!", "[^")
	if _, err := path.Match(part, ""); err != nil {
		return nil, nil // matches nothing, as in glob(3)
	}
	var found []string
	for _, dir := range dirs {
		entries, err := r.names(dir + "/")
		if missing(err) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if ok, _ := path.Match(part, e.name); ok && (e.name[0] != '.' || part[0] == '.') {
				found = append(found, dir+"/"+e.name)
			}
			if len(found) > maxConfFiles {
				return nil, fmt.Errorf("it matches more than %d files", maxConfFiles)
			}
		}
	}
	return found, nil
}

// keepFolders writes the folders, in the order given, into the configuration,
// where they come first (CDI-116, CDI-120). Those that are there already, from
// the hook of another device or from the run before this, come after them. A
// container without the directory gets none.
func (r *Root) keepFolders(folders []string) error {
	dir, err := r.dir(confDir)
	if missing(err) || len(folders) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", confDir, err)
	}
	defer unix.Close(dir)
	name := confDir + "/" + foldersIn
	old, _, err := r.readFile(name, ldcache.MaxConf)
	if err != nil && !missing(err) {
		return fmt.Errorf("read %s: %w", name, err)
	}
	text, err := withFolders(old, folders)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if bytes.Equal(old, text) {
		return nil
	}
	if err := r.writeAt(dir, foldersIn, text); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func withFolders(old []byte, folders []string) ([]byte, error) {
	directives, err := ldcache.ParseConf(old)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(folders)
	for _, d := range directives {
		if d.Dir != "" {
			all = append(all, d.Dir)
		}
	}
	var text []byte
	done := map[string]bool{}
	for _, dir := range all {
		if !done[dir] {
			done[dir] = true
			text = append(append(text, dir...), '\n')
		}
	}
	return text, nil
}

// writeAt writes a file in one step: nobody sees half of it. It is not flushed
// to the disk: it is made again at every start of a container, and before the
// container runs.
func (r *Root) writeAt(dir int, name string, data []byte) error {
	if err := r.writable(dir); err != nil {
		return err
	}
	return replace(dir, name, func(temp string) error {
		fd, err := openCreate(dir, temp)
		if err != nil {
			return err
		}
		err = writeAll(fd, data)
		if err == nil {
			err = unix.Fchmod(fd, 0o644)
		}
		if closed := unix.Close(fd); err == nil {
			err = closed
		}
		if err != nil {
			_ = unix.Unlinkat(dir, temp, 0)
		}
		return err
	})
}

func openCreate(dir int, name string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Mode:    0o600,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	return unix.Openat2(dir, name, &how)
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil && err != unix.EINTR {
			return err
		}
		data = data[max(n, 0):]
	}
	return nil
}
