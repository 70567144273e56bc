package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fairlead/fairlead/internal/kv"
)

// drainTime is how long deleting a bucket waits for requests that write to it.
const drainTime = 5 * time.Second

// countLimit is where counting the contents of a bucket stops.
const countLimit = 100_000

// DeleteBucket deletes a bucket and the accounts on it. One that is absent is
// nil. Contents stop it with ErrNotEmpty unless force is true. A bucket that
// this store did not make is ErrNotOurs, forced or not.
//
// Requests that write are drained first and new ones turned away, so that what
// is counted is what is deleted. The contents leave by two renames and are
// removed afterwards, beneath the trash and never through a link.
func (s *Store) DeleteBucket(ctx context.Context, name string, force bool) error {
	defer s.names.lock("bucket/" + name)()
	b := s.bucket(name)
	if b == nil {
		if s.serving(name) != nil {
			return fail(ErrNotOurs, "bucket %q was there before this store and is never deleted by it", name)
		}
		return nil
	}
	if b.Deleting {
		return wrapDelete(name, s.finishDelete(b))
	}
	if ours, err := s.owned(b); err != nil {
		return wrapDelete(name, err)
	} else if !ours {
		return fail(ErrNotOurs, "the directory of bucket %q was replaced by one that this store did not make", name)
	}
	if err := s.drain(ctx, b); err != nil {
		return err
	}
	if !force {
		if err := s.refuseContents(ctx, b); err != nil {
			b.gate.open()
			return err
		}
	}
	r := b.bucketRecord
	r.Deleting = true
	if err := s.putBucket(r); err != nil {
		b.gate.open()
		return wrapDelete(name, err)
	}
	step("bucket deleting")
	doomed := newBucket(r)
	s.mu.Lock()
	s.buckets[name] = doomed
	s.mu.Unlock()
	return wrapDelete(name, s.finishDelete(doomed))
}

func wrapDelete(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("delete bucket %q: %w", name, spaceOr(err))
}

// drain closes the bucket to requests that write and waits for those inside.
func (s *Store) drain(ctx context.Context, b *bucket) error {
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	drained := b.gate.close()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		b.gate.open()
		return ctx.Err()
	case <-timer.C:
		b.gate.open()
		return fail(ErrBusy, "bucket %q is being written to", b.Name)
	}
}

func (s *Store) refuseContents(ctx context.Context, b *bucket) error {
	c, err := s.count(ctx, b.Name)
	if err != nil {
		return fmt.Errorf("count the contents of bucket %q: %w", b.Name, err)
	}
	if c.total() == 0 {
		return nil
	}
	return fail(ErrNotEmpty, "bucket %q is not empty: it holds %s", b.Name, c)
}

// finishDelete takes a bucket whose record says Deleting off the disk. It can
// be repeated from any point. The caller holds the bucket's name, or is Open.
func (s *Store) finishDelete(b *bucket) error {
	ours, err := s.owned(b)
	if err != nil {
		return err
	}
	if ours {
		if err := discard(s.bucketDir(b.Name), filepath.Join(s.trashDir(), b.UID+".objects")); err != nil {
			return err
		}
	}
	if err := discard(filepath.Join(s.versionsDir(), b.Name), filepath.Join(s.trashDir(), b.UID+".versions")); err != nil {
		return err
	}
	step("bucket discarded")
	// The record must not be gone from the disk before the name is.
	for _, d := range []string{s.bucketsDir(), s.versionsDir(), s.trashDir()} {
		if err := s.dirs.sync(d); err != nil {
			return err
		}
	}
	orphans := s.accountsOn(b.Name)
	err = s.db.Update(func(tx *kv.Tx) error {
		for _, a := range orphans {
			if err := tx.Bucket(accountTable).Delete(a.ID); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketTable).Delete(b.Name)
	})
	if err != nil {
		return err
	}
	step("bucket deleted")
	s.mu.Lock()
	delete(s.buckets, b.Name)
	for _, a := range orphans {
		s.forget(a)
	}
	s.mu.Unlock()
	select {
	case s.purge <- struct{}{}:
	default: // the purger has been told already
	}
	return nil
}

// discard moves a directory into the trash; one that is gone is moved already.
func discard(dir, trash string) error {
	err := renameNew(dir, trash)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// emptyTrash removes what deleted buckets left, until ctx ends; the next start
// goes on where it stopped.
func (s *Store) emptyTrash(ctx context.Context) {
	for {
		entries, err := os.ReadDir(s.trashDir())
		for _, e := range entries {
			err = errors.Join(err, removeTree(ctx, s.trashDir(), e.Name()))
		}
		if err != nil && ctx.Err() == nil {
			s.log.Error("remove deleted buckets", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.purge:
		}
	}
}

// removeTree removes dir/name and all beneath it. It never follows a link, and
// stops between two entries when ctx ends.
func removeTree(ctx context.Context, dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return removeIn(ctx, root, name)
}

func removeIn(ctx context.Context, root *os.Root, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fi, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.IsDir() {
		sub, err := root.OpenRoot(name)
		if err != nil {
			return err
		}
		err = removeEntries(ctx, sub)
		sub.Close()
		if err != nil {
			return err
		}
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func removeEntries(ctx context.Context, root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := removeIn(ctx, root, n); err != nil {
			return err
		}
	}
	return nil
}
