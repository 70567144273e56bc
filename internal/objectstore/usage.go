package objectstore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/versity/versitygw/s3err"
)

// usage keeps a bucket within its quota: objects, older versions and the parts
// of unfinished uploads together.
//
// Used is what lies on the disk; reserved is what requests in flight may still
// add. A request reserves before it writes, under a lock on its key, and when
// it is done the key is weighed again; so the sum is exact however requests
// interleave. A nil usage has no limit and weighs nothing.
type usage struct {
	limit int64

	counted sync.Once
	mu      sync.Mutex
	used    int64
	reserve int64
	err     error // why it could not be counted
}

// ready counts the bucket once, before its first write.
func (u *usage) ready(s *Store, bucket string) error {
	u.counted.Do(func() {
		c, err := s.walk(context.Background(), bucket, 0)
		u.mu.Lock()
		defer u.mu.Unlock()
		u.used, u.err = c.bytes, err
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

// take reserves bytes, or returns S3's QuotaExceeded.
func (u *usage) take(bytes int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if bytes > 0 && u.used+u.reserve+bytes > u.limit {
		return s3err.GetAPIError(s3err.ErrQuotaExceeded)
	}
	u.reserve += bytes
	return nil
}

// settle replaces a reservation by what has really changed.
func (u *usage) settle(reserved, change int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reserve -= reserved
	u.used += change
}

// charge is what a request may add to its bucket.
type charge struct {
	key string
	// bytes is an upper bound of what will be added.
	bytes int64
	// replaces says that the bytes of the object, or of the part, go when it
	// succeeds; with versions an object's stay.
	replaces bool
	// part is the path of the one part that is written, below the bucket's
	// directory; parts of one upload are written side by side.
	part string
}

// charge reserves c before a write. The caller calls done after it.
func (s *Store) charge(b *bucket, c charge) (done func(), err error) {
	u := b.usage
	if u == nil {
		return func() {}, nil
	}
	if err := u.ready(s, b.Name); err != nil {
		return nil, err
	}
	unlock := s.lockKey(b, c)
	before, err := s.weigh(b, c)
	if err != nil {
		unlock()
		return nil, err
	}
	need := c.bytes
	if c.replaces {
		target := c.key
		if c.part != "" {
			target = c.part
		}
		if old, err := weight(filepath.Join(s.bucketDir(b.Name), target)); err == nil {
			need = max(0, need-old)
		}
	}
	if err := u.take(need); err != nil {
		unlock()
		return nil, err
	}
	return func() {
		defer unlock()
		after, err := s.weigh(b, c)
		if err != nil {
			s.log.Error("weigh an object for its bucket's quota", "bucket", b.Name, "error", err)
			after = before + need
		}
		u.settle(need, after-before)
	}, nil
}

// lockKey keeps other requests off the key, or off the part.
func (s *Store) lockKey(b *bucket, c charge) (unlock func()) {
	name := b.UID + "/" + c.key
	if c.part == "" {
		return s.keys.lock(name)
	}
	unlockKey := s.keys.rlock(name)
	unlockPart := s.keys.lock(name + "\x00" + c.part)
	return func() { unlockPart(); unlockKey() }
}

// weigh adds up all that belongs to the charge's key, or only its part.
func (s *Store) weigh(b *bucket, c charge) (int64, error) {
	dir := s.bucketDir(b.Name)
	if c.part != "" {
		return weight(filepath.Join(dir, c.part))
	}
	sum, err := weight(filepath.Join(dir, c.key))
	if err != nil {
		return 0, err
	}
	files, err := listFiles(filepath.Join(s.versionsDir(), b.Name, versionsPath(c.key)))
	if err != nil {
		return 0, err
	}
	uploads, err := listFiles(filepath.Join(dir, uploadsPath(c.key)))
	if err != nil {
		return 0, err
	}
	for _, u := range uploads {
		parts, err := listFiles(u)
		if err != nil {
			return 0, err
		}
		files = append(files, parts...)
	}
	for _, f := range files {
		n, err := weight(f)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// listFiles is the paths of what dir holds; a dir that is missing holds nothing.
func listFiles(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	for i, n := range names {
		names[i] = filepath.Join(dir, n)
	}
	if errors.Is(err, unix.ENOTDIR) { // a file, not a directory
		return nil, nil
	}
	return names, err
}

// countUsage counts the buckets that have a quota before anybody asks.
func (s *Store) countUsage(ctx context.Context) {
	s.mu.RLock()
	var limited []*bucket
	for _, b := range s.buckets {
		if b.usage != nil && !b.Deleting {
			limited = append(limited, b)
		}
	}
	s.mu.RUnlock()
	for _, b := range limited {
		if ctx.Err() != nil {
			return
		}
		if err := b.usage.ready(s, b.Name); err != nil {
			s.log.Error("count a bucket for its quota", "bucket", b.Name, "error", err)
		}
	}
}
