// Package ledger remembers: claims with their accesses and leases, classes,
// drivers and events, on disk. What a call here returns without an error is
// durable. It decides nothing and knows nothing of the world outside.
package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/kv"
)

// ErrLocked is returned by Open when another daemon holds the ledger.
var ErrLocked = kv.ErrLocked

// format is the version of what is written; a ledger of a later one is refused.
const format = "1"

// The parts of the file.
const (
	metaPart          = "meta"
	claimsPart        = "claims"
	eventsPart        = "events"
	driversPart       = "drivers"
	bucketClassesPart = "bucketclasses"
	accessClassesPart = "accessclasses"
)

// mostEvents is how many events are kept of a claim.
const mostEvents = 32

// Record is a claim and what only the daemon may know of it.
type Record struct {
	Claim claim.Claim `json:"claim"`
	// Asked is the request that made the claim (claim.Request.Bucket).
	Asked json.RawMessage `json:"asked,omitempty"`
	// Sealed are the credentials of each account, by account name, encrypted
	// under the host key. They never leave the daemon.
	Sealed map[string][]byte `json:"sealed,omitempty"`
	// Published is, by access name, the digest of what was last written for
	// applications to read.
	Published map[string]string `json:"published,omitempty"`
}

// Ledger is an open ledger, safe for concurrent use.
type Ledger struct{ db *kv.DB }

// Open opens the ledger in a directory and makes it where there is none.
// A ledger that another daemon holds is waited for up to wait, since one that
// was just killed may need a moment to be gone; then it is ErrLocked.
func Open(dir string, wait time.Duration) (*Ledger, error) {
	db, err := kv.Open(filepath.Join(dir, "ledger.db"), kv.Options{Wait: wait})
	if err != nil {
		return nil, err
	}
	l := &Ledger{db}
	if err := l.checkFormat(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return l, nil
}

func (l *Ledger) checkFormat() error {
	var have string
	err := l.db.View(func(tx *kv.Tx) error { have = string(tx.Bucket(metaPart).Get("format")); return nil })
	switch {
	case err != nil:
		return err
	case have == format:
		return nil
	case have != "":
		return fmt.Errorf("the ledger has format %s; this program knows format %s: use a newer one", have, format)
	}
	return l.db.Update(func(tx *kv.Tx) error { return tx.Bucket(metaPart).Put("format", []byte(format)) })
}

// Close closes the ledger.
func (l *Ledger) Close() error { return l.db.Close() }

// PutClaim writes a claim's record and adds events to its history, together.
func (l *Ledger) PutClaim(rec *Record, events ...claim.Event) error {
	name := rec.Claim.Name
	value, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode claim %q: %w", name, err)
	}
	err = l.db.Update(func(tx *kv.Tx) error {
		if err := tx.Bucket(claimsPart).Put(name, value); err != nil {
			return err
		}
		return addEvents(tx, name, events)
	})
	if err != nil {
		return fmt.Errorf("write claim %q to the ledger: %w", name, err)
	}
	return nil
}

// AddEvents adds to the history of a claim.
func (l *Ledger) AddEvents(name string, events ...claim.Event) error {
	return l.db.Update(func(tx *kv.Tx) error { return addEvents(tx, name, events) })
}

// addEvents appends, folds repeats into one and forgets the oldest.
func addEvents(tx *kv.Tx, name string, events []claim.Event) error {
	if len(events) == 0 {
		return nil
	}
	var all []claim.Event
	if v := tx.Bucket(eventsPart).Get(name); v != nil {
		if err := json.Unmarshal(v, &all); err != nil {
			return fmt.Errorf("decode events of claim %q: %w", name, err)
		}
	}
	for _, e := range events {
		if n := len(all); n > 0 && all[n-1].Reason == e.Reason && all[n-1].Message == e.Message {
			all[n-1].Count = max(all[n-1].Count, 1) + 1
			all[n-1].Time = e.Time
			continue
		}
		all = append(all, e)
	}
	value, err := json.Marshal(all[max(0, len(all)-mostEvents):])
	if err != nil {
		return err
	}
	return tx.Bucket(eventsPart).Put(name, value)
}

// DeleteClaim forgets a claim and its history.
func (l *Ledger) DeleteClaim(name string) error {
	return l.db.Update(func(tx *kv.Tx) error {
		return errors.Join(tx.Bucket(claimsPart).Delete(name), tx.Bucket(eventsPart).Delete(name))
	})
}

// Claims returns all claims in the order of their names.
func (l *Ledger) Claims() ([]*Record, error) { return all[*Record](l.db, claimsPart) }

// Events returns what is remembered of a claim, oldest first.
func (l *Ledger) Events(name string) (events []claim.Event, err error) {
	err = l.db.View(func(tx *kv.Tx) error {
		if v := tx.Bucket(eventsPart).Get(name); v != nil {
			return json.Unmarshal(v, &events)
		}
		return nil
	})
	return events, err
}

// PutDriver writes what is configured of a driver.
func (l *Ledger) PutDriver(d claim.Driver) error {
	return put(l.db, driversPart, d.Name, claim.Driver{Name: d.Name, Endpoint: d.Endpoint, Exec: d.Exec, BuiltIn: d.BuiltIn, Identity: d.Identity})
}

// DeleteDriver forgets a driver.
func (l *Ledger) DeleteDriver(name string) error { return remove(l.db, driversPart, name) }

// Drivers returns all drivers in the order of their names.
func (l *Ledger) Drivers() ([]claim.Driver, error) { return all[claim.Driver](l.db, driversPart) }

// PutBucketClass writes a bucket class.
func (l *Ledger) PutBucketClass(c claim.BucketClass) error {
	return put(l.db, bucketClassesPart, c.Name, c)
}

// DeleteBucketClass forgets a bucket class.
func (l *Ledger) DeleteBucketClass(name string) error { return remove(l.db, bucketClassesPart, name) }

// BucketClasses returns all bucket classes in the order of their names.
func (l *Ledger) BucketClasses() ([]claim.BucketClass, error) {
	return all[claim.BucketClass](l.db, bucketClassesPart)
}

// PutAccessClass writes a bucket access class.
func (l *Ledger) PutAccessClass(c claim.AccessClass) error {
	return put(l.db, accessClassesPart, c.Name, c)
}

// DeleteAccessClass forgets a bucket access class.
func (l *Ledger) DeleteAccessClass(name string) error { return remove(l.db, accessClassesPart, name) }

// AccessClasses returns all bucket access classes in the order of their names.
func (l *Ledger) AccessClasses() ([]claim.AccessClass, error) {
	return all[claim.AccessClass](l.db, accessClassesPart)
}

func put(db *kv.DB, part, key string, v any) error {
	value, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s/%s: %w", part, key, err)
	}
	if err := db.Update(func(tx *kv.Tx) error { return tx.Bucket(part).Put(key, value) }); err != nil {
		return fmt.Errorf("write %s/%s to the ledger: %w", part, key, err)
	}
	return nil
}

func remove(db *kv.DB, part, key string) error {
	return db.Update(func(tx *kv.Tx) error { return tx.Bucket(part).Delete(key) })
}

func all[T any](db *kv.DB, part string) ([]T, error) {
	list := []T{}
	err := db.View(func(tx *kv.Tx) error {
		return tx.Bucket(part).ForEach(func(key string, value []byte) error {
			var v T
			if err := json.Unmarshal(value, &v); err != nil {
				return fmt.Errorf("decode %s/%s of the ledger: %w", part, key, err)
			}
			list = append(list, v)
			return nil
		})
	})
	return list, err
}
