package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// saveFile gives a file this content in one step: a reader finds the old or the
// new. Mode and owner stay, and a link stays a link. A file that was not there
// can be read by all, whatever the umask.
func saveFile(name string, text []byte) error {
	if err := replaceFile(name, text); err != nil {
		return fmt.Errorf("write %s: %w", name, errnoOf(err))
	}
	return nil
}

func replaceFile(name string, text []byte) (err error) {
	path, err := filepath.EvalSymlinks(name)
	var like os.FileInfo
	switch {
	case err == nil:
		like, err = os.Stat(path)
	case errors.Is(err, fs.ErrNotExist):
		path, err = name, nil
	}
	if err != nil {
		return err
	}
	if like != nil && !like.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if err := errors.Join(fillLike(f, like, text), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDirectory(dir)
}

// lockFile makes others wait that change a file of the same directory with this
// program: of two that read it, change it and write it, the second sees what the
// first has done. It is the directory that is locked, for the file is replaced.
func lockFile(name string) (unlock func(), err error) {
	path, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, errnoOf(err))
	}
	return lockDirectory(filepath.Dir(path))
}

func lockDirectory(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX); {
		case err == nil:
			return func() { _ = f.Close() }, nil // which unlocks it
		case !errors.Is(err, unix.EINTR):
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
	}
}

// fillLike writes a file that has the owner and mode of another, if there is
// one. The owner comes first: a change of it takes away the bits for
// set-user-id.
func fillLike(f *os.File, like os.FileInfo, text []byte) error {
	mode := os.FileMode(0o644)
	if like != nil {
		mode = like.Mode()
		if st, ok := like.Sys().(*syscall.Stat_t); ok {
			if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
				return err
			}
		}
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return err
	}
	return f.Sync()
}

func syncDirectory(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
