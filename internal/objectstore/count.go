package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// contents counts what a bucket holds.
type contents struct {
	objects, versions, uploads int
	bytes                      int64
}

func (c contents) total() int { return c.objects + c.versions + c.uploads }

func (c contents) String() string {
	if c.total() >= countLimit {
		return fmt.Sprintf("at least %d objects, versions and unfinished uploads", countLimit)
	}
	var parts []string
	for _, p := range []struct {
		n    int
		noun string
	}{{c.objects, "object"}, {c.versions, "older version"}, {c.uploads, "unfinished upload"}} {
		switch {
		case p.n == 1:
			parts = append(parts, "1 "+p.noun)
		case p.n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", p.n, p.noun))
		}
	}
	return strings.Join(parts, ", ")
}

var errEnough = errors.New("counted enough")

// count walks the bucket until it has seen countLimit things.
func (s *Store) count(ctx context.Context, name string) (contents, error) {
	return s.walk(ctx, name, countLimit)
}

// walk counts the bucket's contents; limit 0 is none.
func (s *Store) walk(ctx context.Context, name string, limit int) (contents, error) {
	var c contents
	visit := func(top string, older bool) error {
		return filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // gone while we looked
			case err != nil:
				return err
			case ctx.Err() != nil:
				return ctx.Err()
			case limit > 0 && c.total() >= limit:
				return errEnough
			}
			rel := strings.TrimPrefix(path, top+"/")
			return c.add(path, rel, d, older)
		})
	}
	for _, err := range []error{
		visit(s.bucketDir(name), false),
		visit(filepath.Join(s.versionsDir(), name), true),
	} {
		if err != nil && !errors.Is(err, errEnough) {
			return c, err
		}
	}
	return c, nil
}

// add counts one directory entry.
func (c *contents) add(path, rel string, d fs.DirEntry, older bool) error {
	inTmp := rel == tmpDir || strings.HasPrefix(rel, tmpDir+"/")
	depth := strings.Count(rel, "/")
	switch {
	case inTmp && older:
		return fs.SkipDir
	case inTmp && d.IsDir():
		if depth == 3 { // .sgwtmp/multipart/KEYHASH/UPLOAD
			c.uploads++
		}
		return nil
	case inTmp && depth < 4:
		return nil // a temporary file
	case d.IsDir():
		if rel != path && hasAttribute(path, "user.etag") { // put as an object, with a slash at its end
			c.objects++
		}
		return nil
	case older:
		c.versions++
	case !inTmp:
		c.objects++
	}
	size, err := weight(path)
	c.bytes += size
	return err
}

// weight is what a file counts for in a quota. A delete marker keeps the bytes
// of the object it marks; they are in an older version too and count there.
func weight(path string) (int64, error) {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if !fi.Mode().IsRegular() || hasAttribute(path, "user.delete-marker") {
		return 0, nil
	}
	return fi.Size(), nil
}

func hasAttribute(path, name string) bool {
	_, err := unix.Lgetxattr(path, name, nil)
	return err == nil
}

// sweepTemporary removes the temporary files that uploads of an earlier process
// left below what is ours. It runs before there can be new ones.
func (s *Store) sweepTemporary() error {
	for name := range s.buckets {
		for _, parent := range []string{s.bucketsDir(), s.versionsDir()} {
			if err := sweep(filepath.Join(parent, name, tmpDir)); err != nil {
				return fmt.Errorf("sweep temporary files of bucket %q: %w", name, err)
			}
		}
	}
	return nil
}

func sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
