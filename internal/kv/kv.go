// Package kv is a durable map in one file: bbolt, with group commit.
//
// Callers that update at the same time share one commit, and so one fsync;
// a caller that is alone pays for its own and waits for nobody. When Update
// returns nil the change is on disk.
package kv

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// ErrLocked is returned by Open when another process holds the file.
var ErrLocked = errors.New("in use by another process")

// DB is an open file. It is safe for concurrent use.
type DB struct {
	bolt *bolt.DB
	// lead holds one token while a commit is made; queue holds the updates
	// that the next commit will take.
	lead  chan struct{}
	queue chan []*update
}

// update is one caller's function on its way into a commit.
type update struct {
	fn       func(*Tx) error
	err      error
	panicked any
	done     chan struct{}
}

// Options change how a file is opened. The zero value waits for no lock.
type Options struct {
	// Wait is how long to wait for another process to let go of the file.
	Wait time.Duration
}

// Open opens the file, and makes it (0600) where there is none. A file held
// by another process is ErrLocked.
func Open(path string, opts Options) (*DB, error) {
	if opts.Wait <= 0 {
		opts.Wait = time.Millisecond // zero would wait for ever
	}
	b, err := bolt.Open(path, 0o600, &bolt.Options{
		Timeout: opts.Wait,
		// The free list is found again by a scan at the next start, which
		// costs milliseconds; writing it would cost every commit.
		NoFreelistSync: true,
		FreelistType:   bolt.FreelistMapType,
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("open %s: %w", path, ErrLocked)
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db := &DB{bolt: b, lead: make(chan struct{}, 1), queue: make(chan []*update, 1)}
	db.queue <- nil
	return db, nil
}

// Close waits for the updates under way and closes the file.
func (db *DB) Close() error { return db.bolt.Close() }

// Size is the length of the file in bytes.
func (db *DB) Size() (int64, error) {
	fi, err := os.Stat(db.bolt.Path())
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// View runs fn on a snapshot.
func (db *DB) View(fn func(*Tx) error) error {
	return db.bolt.View(func(tx *bolt.Tx) error { return fn(&Tx{tx}) })
}

// Update runs fn and returns once what it wrote is on disk. An error of fn
// undoes all that fn wrote and is returned as it is. Since a commit is shared,
// fn can run more than once: it must do nothing but read and write tx, and set
// what it captures afresh at each run.
func (db *DB) Update(fn func(*Tx) error) error {
	u := &update{fn: fn, done: make(chan struct{})}
	db.queue <- append(<-db.queue, u)
	select {
	case <-u.done:
	case db.lead <- struct{}{}:
		db.leadOne(u)
	}
	if u.panicked != nil {
		panic(u.panicked)
	}
	return u.err
}

// leadOne commits what is queued, unless the last leader took u along. It hands
// the lead on whatever happens: a panic below would else block all for ever.
func (db *DB) leadOne(u *update) {
	defer func() { <-db.lead }()
	select {
	case <-u.done:
	default:
		db.commit()
	}
}

// commit writes all that is queued in one transaction. An update that fails is
// taken out and the others are tried again without it.
func (db *DB) commit() {
	// Callers that are about to join get the chance to; one that is alone
	// loses nothing.
	runtime.Gosched()
	batch := <-db.queue
	db.queue <- nil
	for len(batch) > 0 {
		failed := -1
		err := db.bolt.Update(func(tx *bolt.Tx) error {
			failed = -1
			for i, u := range batch {
				if u.run(&Tx{tx}); u.err != nil {
					failed = i
					return u.err
				}
			}
			return nil
		})
		if failed >= 0 {
			close(batch[failed].done)
			batch = append(batch[:failed:failed], batch[failed+1:]...)
			continue
		}
		for _, u := range batch {
			u.err = err
			close(u.done)
		}
		return
	}
}

// run calls the update's function; a panic is kept for its own caller.
func (u *update) run(tx *Tx) {
	defer func() {
		if p := recover(); p != nil {
			u.panicked, u.err = p, fmt.Errorf("panic: %v", p)
		}
	}()
	u.err = u.fn(tx)
}

// Tx is one transaction. It ends with the function that it was given to.
type Tx struct{ tx *bolt.Tx }

// Bucket returns the named part of the file; writing makes it.
func (tx *Tx) Bucket(name string) Bucket { return Bucket{tx: tx.tx, name: []byte(name)} }

// Bucket is one named part of the file. One that was never written is empty.
type Bucket struct {
	tx   *bolt.Tx
	name []byte
}

// Get returns a copy of the value, or nil where there is none.
func (b Bucket) Get(key string) []byte {
	bb := b.tx.Bucket(b.name)
	if bb == nil {
		return nil
	}
	v := bb.Get([]byte(key))
	if v == nil {
		return nil
	}
	return append(make([]byte, 0, len(v)), v...)
}

// Put writes the value; key must not be empty.
func (b Bucket) Put(key string, value []byte) error {
	bb, err := b.tx.CreateBucketIfNotExists(b.name)
	if err != nil {
		return err
	}
	return bb.Put([]byte(key), value)
}

// Delete removes the key; one that is absent is no error.
func (b Bucket) Delete(key string) error {
	bb := b.tx.Bucket(b.name)
	if bb == nil {
		return nil
	}
	return bb.Delete([]byte(key))
}

// ForEach calls fn for every pair in the order of the keys. The value is valid
// only until fn returns, and fn must not write to this bucket.
func (b Bucket) ForEach(fn func(key string, value []byte) error) error {
	bb := b.tx.Bucket(b.name)
	if bb == nil {
		return nil
	}
	return bb.ForEach(func(k, v []byte) error { return fn(string(k), v) })
}
