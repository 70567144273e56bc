package creds

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A published directory, which containers see as one bind mount:
//
//	..data -> ..v-DIGEST            swapped by rename: all files change at once
//	..v-DIGEST/AWS_ACCESS_KEY_ID    the files themselves
//	AWS_ACCESS_KEY_ID -> ..data/AWS_ACCESS_KEY_ID
//
// The idea is kubelet's AtomicWriter. The digest says what is published, so that
// one readlink tells whether anything is to be done. As long as something of an
// older version may be left, the link reads ./..v-DIGEST instead.
const (
	dataLink      = "..data"
	newLink       = "..new"
	versionPrefix = "..v-"
	untidy        = "./"
)

// Options say who can read the files and how a version is named.
type Options struct {
	// GID is the group that may read; nil keeps the files to their owner.
	GID *int
	// Key makes the names of versions: without it nobody can tell from a name
	// what was published, or that two claims hold the same. It must be the same
	// from one start to the next and is never written.
	Key []byte
}

func (o Options) fileMode() uint32 {
	if o.GID != nil {
		return 0o440
	}
	return 0o400
}

// versionMode is the mode of a finished version; nothing is ever added to one. A
// user other than root keeps the right to write, for rm would fail without.
func (o Options) versionMode() uint32 {
	mode := uint32(0o500)
	if o.GID != nil {
		mode = 0o550
	}
	if os.Geteuid() != 0 {
		mode |= 0o200
	}
	return mode
}

// dirMode is the mode of the directory itself, in which links are swapped.
func (o Options) dirMode() uint32 {
	if o.GID != nil {
		return 0o750
	}
	return 0o700
}

// Write publishes exactly these files in dir, which it makes if only its last
// element is missing, and says whether a reader can see a difference. A reader
// sees all of the old files or all of the new ones; what an interrupted Write
// left is removed. dir must belong to the caller and be no symbolic link. Calls
// for one directory must not overlap.
func Write(dir string, files map[string][]byte, o Options) (changed bool, err error) {
	for name := range files {
		if err := checkName(name); err != nil {
			return false, fmt.Errorf("publish credentials in %s: %w", dir, err)
		}
	}
	d, err := openDir(dir, true)
	if err != nil {
		return false, fmt.Errorf("publish credentials in %s: %w", dir, err)
	}
	defer d.close()
	changed, err = d.publish(files, o)
	if err != nil {
		return changed, fmt.Errorf("publish credentials in %s: %w", dir, err)
	}
	return changed, nil
}

// Current reports whether Write would find nothing to do: dir holds exactly
// these files, with these options, and no leftovers. It costs one readlink.
func Current(dir string, files map[string][]byte, o Options) bool {
	target, err := os.Readlink(filepath.Join(dir, dataLink))
	return err == nil && target == version(files, o)
}

// Remove removes what Write made, and dir; that dir is absent is no error. What
// Write did not make stays, and is an error that names it. A mount point is
// refused. Readers lose all files at once.
func Remove(dir string) error {
	d, err := openDir(dir, false)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove credentials in %s: %w", dir, err)
	}
	defer d.close()
	if err := d.remove(); err != nil {
		return fmt.Errorf("remove credentials in %s: %w", dir, err)
	}
	return nil
}

// version is the name of the directory that holds these files under these
// options. Lengths come before what they measure: no two inputs read the same.
func version(files map[string][]byte, o Options) string {
	h := hmac.New(sha256.New, o.Key)
	var n [8]byte
	put := func(v int) {
		binary.BigEndian.PutUint64(n[:], uint64(v))
		h.Write(n[:])
	}
	gid := -1
	if o.GID != nil {
		gid = *o.GID
	}
	put(gid)
	put(int(o.fileMode()))
	put(len(files))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		put(len(name))
		h.Write([]byte(name))
		put(len(files[name]))
		h.Write(files[name])
	}
	return versionPrefix + hex.EncodeToString(h.Sum(nil)[:16])
}

// publish does the work of Write below the held directory. Each step leaves what
// a later Write can go on from; Current is true only after the last.
func (d *directory) publish(files map[string][]byte, o Options) (changed bool, err error) {
	if err := d.own(o); err != nil {
		return false, err
	}
	want := version(files, o)
	have, err := d.readlink(dataLink)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return false, err
	}
	entries, err := d.entries()
	if err != nil {
		return false, err
	}
	if err := d.clearWay(entries, files); err != nil {
		return false, err
	}
	stale := d.stale(entries, files, want)
	if strings.TrimPrefix(have, untidy) != want {
		changed = true
		if err := d.writeVersion(want, files, o); err != nil {
			return false, err
		}
	}
	if err := d.link(entries, files); err != nil {
		return false, err
	}
	first := want
	if len(stale) > 0 {
		first = untidy + want
	}
	if have != first {
		if err := d.swap(first); err != nil {
			return false, err
		}
	}
	if len(stale) == 0 {
		return changed, nil
	}
	if err := d.clear(stale); err != nil {
		return changed, err
	}
	return changed, d.swap(want)
}

// stale are the entries that Write made and that do not belong to this version.
func (d *directory) stale(entries []string, files map[string][]byte, want string) []string {
	var stale []string
	for _, name := range entries {
		switch {
		case name == newLink, strings.HasPrefix(name, versionPrefix) && name != want:
			stale = append(stale, name)
		case strings.HasPrefix(name, ".."):
		default:
			if _, ok := files[name]; !ok && d.isOurLink(name) {
				stale = append(stale, name)
			}
		}
	}
	return stale
}

// writeVersion makes the directory of one version. One that is there already was
// left by a crash and may be short of files: it starts afresh.
func (d *directory) writeVersion(name string, files map[string][]byte, o Options) error {
	if err := d.clear([]string{name}); err != nil {
		return err
	}
	if err := unix.Mkdirat(d.fd, name, 0o700); err != nil {
		return fmt.Errorf("make version: %w", err)
	}
	v, err := d.open(name)
	if err != nil {
		return err
	}
	defer v.close()
	for file, content := range files {
		if err := v.writeFile(file, content, o); err != nil {
			return err
		}
	}
	if err := v.setMode(o.versionMode(), o); err != nil {
		return err
	}
	return v.sync()
}

// clearWay refuses to go on where something that is not ours has the name of a
// file.
func (d *directory) clearWay(entries []string, files map[string][]byte) error {
	for _, name := range entries {
		if _, wanted := files[name]; wanted && !d.isOurLink(name) {
			return fmt.Errorf("%q is in the way: it was not written by fairlead; move it elsewhere", name)
		}
	}
	return nil
}

// link makes the names that a reader uses. Those of new files lead nowhere until
// the swap, which is the same to a reader as that they are not there.
func (d *directory) link(entries []string, files map[string][]byte) error {
	for name := range files {
		if slices.Contains(entries, name) {
			continue
		}
		if err := unix.Symlinkat(dataLink+"/"+name, d.fd, name); err != nil {
			return fmt.Errorf("link %q: %w", name, err)
		}
	}
	return nil
}

// swap points ..data at another version in one step.
func (d *directory) swap(target string) error {
	if err := d.unlink(newLink); err != nil {
		return err
	}
	if err := unix.Symlinkat(target, d.fd, newLink); err != nil {
		return fmt.Errorf("link %q: %w", newLink, err)
	}
	if err := unix.Renameat(d.fd, newLink, d.fd, dataLink); err != nil {
		return fmt.Errorf("swap %q: %w", dataLink, err)
	}
	return d.sync()
}

// remove does the work of Remove below the held directory.
func (d *directory) remove() error {
	mounted, err := d.mountPoint()
	if err != nil {
		return err
	}
	if mounted {
		return errors.New("it is a mount point: unmount it first")
	}
	if err := d.unlink(dataLink); err != nil {
		return err
	}
	entries, err := d.entries()
	if err != nil {
		return err
	}
	if err := d.clear(d.stale(entries, nil, "")); err != nil {
		return err
	}
	if err := unix.Unlinkat(d.parent, d.name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		if rest, _ := d.entries(); len(rest) > 0 {
			return fmt.Errorf("%q was not written by fairlead; move it elsewhere", rest[0])
		}
		return fmt.Errorf("remove the directory: %w", err)
	}
	return nil
}

// clear removes links and versions of ours by name.
func (d *directory) clear(names []string) error {
	for _, name := range names {
		err := d.unlink(name)
		if errors.Is(err, unix.EISDIR) {
			err = d.removeVersion(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeVersion removes a version's files and then the version. A directory in
// one is none of ours, and is an error.
func (d *directory) removeVersion(name string) error {
	v, err := d.open(name)
	if err != nil {
		return err
	}
	defer v.close()
	if err := unix.Fchmod(v.fd, 0o700); err != nil {
		return fmt.Errorf("open version for removal: %w", err)
	}
	entries, err := v.entries()
	if err != nil {
		return err
	}
	for _, file := range entries {
		if err := v.unlink(file); err != nil {
			return err
		}
	}
	if err := unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove version: %w", err)
	}
	return nil
}
