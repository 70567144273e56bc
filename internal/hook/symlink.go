package hook

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Link is one symbolic link to make in the container.
type Link struct {
	Target string // what it says; it need not exist
	Path   string // where it is, absolute in the container
}

// ParseLink reads TARGET::PATH (CDI-102).
func ParseLink(s string) (Link, error) {
	parts := strings.Split(s, "::")
	if len(parts) != 2 {
		return Link{}, fmt.Errorf("link %q: want TARGET::PATH", s)
	}
	l := Link{Target: parts[0], Path: parts[1]}
	if l.Target == "" || len(l.Target) >= unix.PathMax {
		return Link{}, fmt.Errorf("link %q: the target must have 1 to %d bytes", s, unix.PathMax-1)
	}
	var err error
	if l.Path, err = ParsePath(l.Path); err != nil {
		return Link{}, fmt.Errorf("link %q: %w", s, err)
	}
	if l.Path == "/" {
		return Link{}, fmt.Errorf("link %q: the root cannot be a link", s)
	}
	return l, nil
}

// ParsePath reads a path of the container: absolute and without "..", because
// what a ".." means depends on the links of the image.
func ParsePath(s string) (string, error) {
	switch {
	case !strings.HasPrefix(s, "/"):
		return "", fmt.Errorf("path %q: it must be absolute", s)
	case len(s) >= unix.PathMax:
		return "", fmt.Errorf("path of %d bytes: it may have %d", len(s), unix.PathMax-1)
	case strings.ContainsRune(s, 0):
		return "", fmt.Errorf("path %q: it holds a zero byte", s)
	}
	for part := range strings.SplitSeq(s, "/") {
		if part == ".." {
			return "", fmt.Errorf("path %q: it holds \"..\"", s)
		}
	}
	return path.Clean(s), nil
}

// ParseFolder reads the path of a directory of libraries. What the dynamic
// linker's configuration, which knows no quoting, cannot hold is refused.
func ParseFolder(s string) (string, error) {
	s, err := ParsePath(s)
	if err != nil {
		return "", err
	}
	if strings.ContainsAny(s, "#=\n") || strings.TrimSpace(s) != s {
		return "", fmt.Errorf("path %q: %s cannot hold it", s, confFile)
	}
	return s, nil
}

// CreateSymlinks does what "mkdir -p" of the parent and "ln -s -f" would do in
// the container (CDI-103, CDI-104): a link or file at the path is replaced in
// one step, what is right already is left alone. A directory is not replaced,
// and nothing is put into it either: that is an error.
func (r *Root) CreateSymlinks(links []Link) error {
	for _, l := range links {
		if err := r.symlink(l); err != nil {
			return fmt.Errorf("create link %s to %s: %w", l.Path, l.Target, err)
		}
	}
	return nil
}

func (r *Root) symlink(l Link) error {
	dir, err := r.makeDirs(path.Dir(l.Path))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return r.symlinkAt(dir, path.Base(l.Path), l.Target)
}

func (r *Root) symlinkAt(dir int, name, target string) error {
	if now, err := readlink(dir, name); err == nil && now == target {
		return nil
	}
	if err := r.writable(dir); err != nil {
		return err
	}
	err := unix.Symlinkat(target, dir, name)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	return replace(dir, name, func(temp string) error { return unix.Symlinkat(target, dir, temp) })
}

// replace makes something under another name and then gives it its own, so that
// there is no moment without it. A repeat after a kill finds that other name
// and removes what it is.
func replace(dir int, name string, create func(temp string) error) error {
	temp := ".fairlead-hook~" + name
	if len(temp) > unix.NAME_MAX {
		temp = temp[:unix.NAME_MAX]
	}
	err := create(temp)
	if errors.Is(err, unix.EEXIST) {
		if err := unix.Unlinkat(dir, temp, 0); err != nil {
			return fmt.Errorf("remove %s: %w", temp, err)
		}
		err = create(temp)
	}
	if err != nil {
		return err
	}
	if err := unix.Renameat(dir, temp, dir, name); err != nil {
		_ = unix.Unlinkat(dir, temp, 0)
		return err
	}
	return nil
}

// readlink is what a link says.
func readlink(dir int, name string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(dir, name, buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
