package objectstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/kv"
	"github.com/fairlead/fairlead/internal/seal"
)

// DefaultListen and DefaultRegion are what a Config means that leaves them out.
const (
	DefaultListen = "127.0.0.1:9820"
	DefaultRegion = "us-east-1"
)

// patience is how long Open waits for the database and the port to be let go
// of: the process before this one may have been killed a moment ago.
const patience = 5 * time.Second

// Config is what a Store needs to know.
type Config struct {
	// Root is the store's directory; it is made (0700) where it is missing.
	Root string
	// Listen is HOST:PORT of the S3 endpoint; empty means DefaultListen.
	// Port 0 takes a free port at the first start and keeps it from then on.
	Listen string
	// CertFile and KeyFile, in PEM, turn TLS on; both or neither.
	CertFile, KeyFile string
	// Region is the only region served; empty means DefaultRegion.
	Region string
	// PublicEndpoint is the URL given to applications. Empty means the
	// listening address, or the host's first own address where Listen names
	// none.
	PublicEndpoint string
	// Log is nil for no log.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	if c.Region == "" {
		c.Region = DefaultRegion
	}
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return c
}

// Store is an open store with its S3 endpoint listening. It is safe for
// concurrent use. A process has one at a time, because the gateway changes the
// process's working directory.
type Store struct {
	cfg  Config
	root string
	log  *slog.Logger
	db   *kv.DB
	key  *seal.Key

	names keyedLocks // one change at a time per bucket and per account name
	keys  keyedLocks // see usage
	ids   ids
	dirs  dirSyncer

	mu       sync.RWMutex
	buckets  map[string]*bucket
	accounts map[string]*accountRecord // by ID
	byName   map[string]*accountRecord

	server     *server
	purge      chan struct{} // something is in the trash
	background sync.WaitGroup
	stop       context.CancelFunc
}

// step is called at the points between which a crash must do no harm. Tests
// replace it to cut the process there.
var step = func(string) {}

// Open opens the store in cfg.Root, mends what a crash left half done and
// listens. The errors are ErrLocked, ErrUnsupported, ErrInvalid for a
// configuration that cannot be, or whatever the system said.
func Open(ctx context.Context, cfg Config) (_ *Store, err error) {
	s, err := load(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.closeFiles()
		}
	}()
	if err := s.converge(); err != nil {
		return nil, err
	}
	if err := s.sweepTemporary(); err != nil {
		return nil, err
	}
	if s.server, err = s.listen(ctx); err != nil {
		return nil, err
	}
	background, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.background.Go(func() { s.emptyTrash(background) })
	s.background.Go(func() { s.countUsage(background) })
	return s, nil
}

// load opens the files and reads the records.
func load(ctx context.Context, cfg Config) (_ *Store, err error) {
	cfg = cfg.withDefaults()
	root, err := filepath.Abs(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}
	s := &Store{
		cfg: cfg, root: root, log: cfg.Log,
		buckets:  map[string]*bucket{},
		accounts: map[string]*accountRecord{},
		byName:   map[string]*accountRecord{},
		purge:    make(chan struct{}, 1),
	}
	for _, d := range []string{s.bucketsDir(), s.versionsDir(), s.stagingDir(), s.trashDir()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("open object store: %w", err)
		}
	}
	if err := s.dirs.sync(root); err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}
	s.db, err = kv.Open(filepath.Join(root, "store.db"), kv.Options{Wait: patience})
	if errors.Is(err, kv.ErrLocked) {
		return nil, fail(ErrLocked, "object store %s is in use by another process", root)
	}
	if err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}
	defer func() {
		if err != nil {
			s.closeFiles()
		}
	}()
	if err := CheckFileSystem(root); err != nil {
		return nil, err
	}
	if s.key, err = seal.Open(filepath.Join(root, "host.key")); err != nil {
		return nil, fmt.Errorf("open object store: %w", err)
	}
	if err := s.db.View(s.readRecords); err != nil {
		return nil, fmt.Errorf("read records of object store %s: %w", root, err)
	}
	return s, ctx.Err()
}

func (s *Store) readRecords(tx *kv.Tx) error {
	err := tx.Bucket(bucketTable).ForEach(func(name string, v []byte) error {
		var r bucketRecord
		if err := json.Unmarshal(v, &r); err != nil {
			return fmt.Errorf("bucket %q: %w", name, err)
		}
		s.buckets[name] = newBucket(r)
		return nil
	})
	if err != nil {
		return err
	}
	return tx.Bucket(accountTable).ForEach(func(id string, v []byte) error {
		a := new(accountRecord)
		if err := json.Unmarshal(v, a); err != nil {
			return fmt.Errorf("account %q: %w", id, err)
		}
		s.accounts[id], s.byName[a.Grant.Name] = a, a
		return nil
	})
}

// The parts of the database.
const (
	bucketTable  = "buckets"
	accountTable = "accounts"
	serverTable  = "server"
)

// Close stops listening, waits for the requests under way for up to ten
// seconds, and closes the files.
func (s *Store) Close() error {
	err := s.server.close()
	s.stop()
	s.background.Wait()
	return errors.Join(err, s.closeFiles())
}

func (s *Store) closeFiles() error {
	if s.db == nil {
		return nil
	}
	return s.db.Close()
}

// Failed gives an error if the S3 endpoint stops serving by itself.
func (s *Store) Failed() <-chan error { return s.server.failed }

// Endpoint is the URL of the S3 endpoint as applications reach it.
func (s *Store) Endpoint() string { return s.server.endpoint }

// Region is the one region that is served.
func (s *Store) Region() string { return s.cfg.Region }

func (s *Store) bucketsDir() string  { return filepath.Join(s.root, "buckets") }
func (s *Store) versionsDir() string { return filepath.Join(s.root, "versions") }
func (s *Store) stagingDir() string  { return filepath.Join(s.root, "staging") }
func (s *Store) trashDir() string    { return filepath.Join(s.root, "trash") }

func (s *Store) bucketDir(name string) string { return filepath.Join(s.bucketsDir(), name) }

// CheckFileSystem returns ErrUnsupported, with what is missing and what to do,
// if the file system of dir cannot hold a store: it needs user extended
// attributes and renames that never replace.
func CheckFileSystem(dir string) error {
	probe, err := os.MkdirTemp(dir, ".probe-*")
	if err != nil {
		return fmt.Errorf("check file system of %s: %w", dir, err)
	}
	moved := probe + ".moved"
	defer os.Remove(moved)
	defer os.Remove(probe)
	if err := setMark(probe, "probe"); errors.Is(err, unix.ENOTSUP) {
		return fail(ErrUnsupported, "the file system of %s has no user extended attributes: "+
			"use a directory on ext4, xfs or btrfs", dir)
	} else if err != nil {
		return fmt.Errorf("check file system of %s: %w", dir, err)
	}
	if err := renameNew(probe, moved); errors.Is(err, unix.EINVAL) {
		return fail(ErrUnsupported, "the file system of %s cannot rename without replacing: "+
			"use a directory on ext4, xfs or btrfs", dir)
	} else if err != nil {
		return fmt.Errorf("check file system of %s: %w", dir, err)
	}
	return nil
}

// renameNew renames, and fails with ErrExist where the new name is taken.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// markName is the extended attribute that makes a bucket's directory ours: the
// uid of its record.
const markName = "user.fairlead.uid"

func setMark(path, uid string) error {
	if err := unix.Lsetxattr(path, markName, []byte(uid), 0); err != nil {
		return &os.PathError{Op: "mark", Path: path, Err: err}
	}
	return nil
}

// mark reads the uid off a directory; it is empty on one that is not ours.
func mark(path string) (string, error) {
	buf := make([]byte, 128)
	n, err := unix.Lgetxattr(path, markName, buf)
	switch {
	case errors.Is(err, unix.ENODATA):
		return "", nil
	case err != nil:
		return "", &os.PathError{Op: "read mark", Path: path, Err: err}
	}
	return string(buf[:n]), nil
}
