package objectstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/kv"
)

// bucket is a bucket of ours in memory. The record is never changed, only
// replaced together with the bucket.
type bucket struct {
	bucketRecord
	gate  gate
	usage *usage      // nil without a quota
	inDir atomic.Bool // the directory's own entry is known to be on disk

	making sync.Mutex
	made   atomic.Bool // the directory is there, and is ours
}

func newBucket(r bucketRecord) *bucket {
	b := &bucket{bucketRecord: r}
	if r.Options.Quota > 0 {
		b.usage = &usage{limit: r.Options.Quota}
	}
	return b
}

// CreateBucket makes a bucket, or returns nil if it has been made before with
// the same options. The errors are ErrInvalid, ErrExists and ErrNoSpace.
//
// The record is the bucket: once it is committed the bucket exists. The
// directory is made when the first request needs it (see ready).
func (s *Store) CreateBucket(ctx context.Context, name string, o BucketOptions) error {
	o = o.normal()
	if b := s.bucket(name); b != nil && !b.Deleting {
		return sameBucket(b, o)
	}
	if err := CheckBucketName(name); err != nil {
		return err
	}
	defer s.names.lock("bucket/" + name)()
	if b := s.bucket(name); b != nil {
		if !b.Deleting {
			return sameBucket(b, o)
		}
		if err := s.finishDelete(b); err != nil {
			return fmt.Errorf("create bucket %q: finish deleting the one before: %w", name, spaceOr(err))
		}
	}
	if err := s.refuseForeign(name); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b := newBucket(bucketRecord{Name: name, UID: rand.Text(), Created: time.Now().UTC(), Options: o})
	if err := s.putBucket(b.bucketRecord); err != nil {
		return fmt.Errorf("create bucket %q: %w", name, spaceOr(err))
	}
	step("bucket recorded")
	s.mu.Lock()
	s.buckets[name] = b
	s.mu.Unlock()
	return nil
}

func sameBucket(b *bucket, o BucketOptions) error {
	if b.Options != o {
		return fail(ErrExists, "bucket %q exists already with other parameters", b.Name)
	}
	return nil
}

// refuseForeign returns ErrExists where a directory of that name is there
// already: no record knows it, so it is somebody else's.
func (s *Store) refuseForeign(name string) error {
	_, err := os.Lstat(s.bucketDir(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("create bucket %q: %w", name, err)
	}
	return fail(ErrExists, "bucket %q exists already and was not made by this store", name)
}

// ready makes the bucket's directory before its first use in this process, and
// checks that it is ours. A directory that somebody else put there after the
// bucket was created stays theirs; requests are then told that there is no such
// bucket, and the log says why.
func (s *Store) ready(b *bucket) error {
	if b.UID == "" || b.made.Load() {
		return nil // somebody else's is as it is
	}
	b.making.Lock()
	defer b.making.Unlock()
	if b.made.Load() {
		return nil
	}
	uid, err := mark(s.bucketDir(b.Name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := s.makeDirectory(b); err != nil {
			return err
		}
		step("bucket made")
	case err != nil:
		return err
	case uid != b.UID:
		s.log.Error("serve a bucket", "bucket", b.Name, "error", "its directory was replaced by one that this store did not make")
		return noSuchBucket(b.Name)
	}
	b.made.Store(true)
	return nil
}

// readyToRead is ready for a request that has not passed the bucket's gate. One
// that comes late must not make the directory of a bucket that was deleted
// meanwhile: it would be nobody's, and its name taken.
func (s *Store) readyToRead(b *bucket) error {
	if b.UID == "" || b.made.Load() {
		return nil
	}
	if !b.gate.enter() {
		return noSuchBucket(b.Name)
	}
	defer b.gate.leave()
	return s.ready(b)
}

// makeDirectory puts the bucket's directory in place, marked from the start:
// it is made aside and renamed without replacing, so that a directory which
// somebody else puts there meanwhile stays theirs.
func (s *Store) makeDirectory(b *bucket) error {
	staged := filepath.Join(s.stagingDir(), b.UID)
	if err := os.Mkdir(staged, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := setMark(staged, b.UID); err != nil {
		return errors.Join(err, os.Remove(staged))
	}
	step("bucket staged")
	err := renameNew(staged, s.bucketDir(b.Name))
	if errors.Is(err, fs.ErrExist) {
		s.log.Error("make a bucket's directory", "bucket", b.Name, "error", err)
		err = noSuchBucket(b.Name)
	}
	if err != nil {
		os.Remove(staged) // or at the next start
		return err
	}
	return nil
}

// putBucket writes the record to the disk.
func (s *Store) putBucket(r bucketRecord) error {
	v, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return s.db.Update(func(tx *kv.Tx) error { return tx.Bucket(bucketTable).Put(r.Name, v) })
}

// bucket is the bucket of ours by that name, or nil.
func (s *Store) bucket(name string) *bucket {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.buckets[name]
}

// serving is the bucket as requests see it: ours, or somebody else's directory
// (which has neither a gate that closes nor a quota). It is nil where there is
// none.
func (s *Store) serving(name string) *bucket {
	if b := s.bucket(name); b != nil {
		if b.Deleting {
			return nil
		}
		return b
	}
	if bucketNameFault(name) != "" {
		return nil
	}
	if fi, err := os.Lstat(s.bucketDir(name)); err != nil || !fi.IsDir() {
		return nil
	}
	return newBucket(bucketRecord{Name: name, Options: BucketOptions{}.normal()})
}

// owned reports whether the directory in place is the one that was made for
// this record. A missing directory is: there is nothing of anybody's.
func (s *Store) owned(b *bucket) (bool, error) {
	uid, err := mark(s.bucketDir(b.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return uid == b.UID, err
}

// converge ends what a crash cut short: deletions go on, and what was staged
// goes, to be made again.
func (s *Store) converge() error {
	staged, err := os.ReadDir(s.stagingDir())
	if err != nil {
		return fmt.Errorf("open object store: %w", err)
	}
	for _, e := range staged {
		if err := os.Remove(filepath.Join(s.stagingDir(), e.Name())); err != nil {
			return fmt.Errorf("open object store: %w", err)
		}
	}
	for name, b := range s.buckets {
		if b.Deleting {
			if err := s.finishDelete(b); err != nil {
				return fmt.Errorf("finish deleting bucket %q: %w", name, err)
			}
		}
	}
	return nil
}

// spaceOr turns the system's ways of saying that the disk is full into
// ErrNoSpace.
func spaceOr(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fail(ErrNoSpace, "no space left on the store's disk")
	}
	return err
}
