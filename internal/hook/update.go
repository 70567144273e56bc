package hook

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/ldcache"
)

// UpdateCache does what the dynamic linker's own tool would do in the container,
// had the folders been written to its configuration (CDI-114 to CDI-121): it
// makes the links by which libraries are found, and a new /etc/ld.so.cache.
//
// A container without that file gets none, and then only the folders are
// looked at. A folder that does not exist is passed over; one in which a link is
// needed that cannot be made is an error, once all else is done. Links that lead
// nowhere are left alone: what they lead to may come with a later hook.
func (r *Root) UpdateCache(folders []string) error {
	cached, err := r.hasCache()
	if err != nil {
		return err
	}
	s := newScan(r)
	defer s.close()
	if !cached {
		if err := s.addAll(folders, true); err != nil {
			return err
		}
		return s.run()
	}
	if err := r.keepFolders(folders); err != nil {
		return err
	}
	if err := s.addConfigured(folders); err != nil {
		return err
	}
	// What could be found is worth having, whatever else failed.
	failed := s.run()
	return errors.Join(r.writeCache(s), failed)
}

// hasCache says whether there is a file to be replaced; whatever it is, it is
// not read.
func (r *Root) hasCache() (bool, error) {
	dir, err := r.dir(cacheDir)
	if missing(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open %s: %w", cacheDir, err)
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	err = unix.Fstatat(dir, cacheName, &st, unix.AT_SYMLINK_NOFOLLOW)
	if missing(err) {
		return false, nil
	}
	return err == nil, err
}

// addConfigured adds what the configuration names, which the folders are part
// of, unless it does not include its own directory: then they come first.
func (s *scan) addConfigured(folders []string) error {
	dirs, err := s.root.confDirs()
	if err != nil {
		return err
	}
	for _, f := range folders {
		if !slices.Contains(dirs, f) {
			if err := s.addAll([]string{f}, true); err != nil {
				return err
			}
		}
	}
	for _, d := range dirs {
		if err := s.addAll([]string{d}, slices.Contains(folders, d)); err != nil {
			return err
		}
	}
	return s.addAll(s.root.systemDirs(), false)
}

// triplets are Debian's names for architectures, in whose directories its C
// library looks first.
var triplets = []string{
	"x86_64-linux-gnu", "aarch64-linux-gnu", "arm-linux-gnueabihf", "arm-linux-gnueabi",
	"i386-linux-gnu", "riscv64-linux-gnu", "powerpc64le-linux-gnu", "s390x-linux-gnu",
	"loongarch64-linux-gnu", "mips64el-linux-gnuabi64",
}

// systemDirs are those that need no configuration: the ones of Debian and its
// kin where there are such, or those of everybody else.
func (r *Root) systemDirs() []string {
	for _, t := range triplets {
		if r.isDir("/lib/"+t) || r.isDir("/usr/lib/"+t) {
			return []string{"/lib/" + t, "/usr/lib/" + t, "/lib", "/usr/lib"}
		}
	}
	return []string{"/lib", "/lib64", "/libx32", "/usr/lib", "/usr/lib64", "/usr/libx32"}
}

// generator is what the cache says of who wrote it.
const generator = "fairlead-hook update-ldcache"

func (r *Root) writeCache(s *scan) error {
	ldcache.Sort(s.entries)
	var order ldcache.Order = binary.LittleEndian
	if s.big > s.little {
		order = binary.BigEndian
	}
	data, err := ldcache.Marshal(s.entries, order, generator)
	if err != nil {
		return err
	}
	if old, _, err := r.readFile(cacheDir+"/"+cacheName, max(2*len(data), 1<<20)); err == nil && bytes.Equal(old, data) {
		return nil
	}
	dir, err := r.dir(cacheDir)
	if err != nil {
		return fmt.Errorf("open %s: %w", cacheDir, err)
	}
	defer unix.Close(dir)
	if err := r.writeAt(dir, cacheName, data); err != nil {
		return fmt.Errorf("write %s/%s: %w", cacheDir, cacheName, err)
	}
	return nil
}
