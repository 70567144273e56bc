package objectstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/internal/kv"
)

// Grant makes an account with a key of its own on a bucket, or returns the one
// that an equal earlier grant made: same id, same key, same expiry. The account
// works when Grant returns. The errors are ErrInvalid, ErrOutOfRange for an
// expiry in the past, ErrNotFound for the bucket, ErrExists for a name that was
// granted with other arguments (on another bucket too: a name is one account),
// ErrExpired for an account whose time is over, and ErrNoSpace.
func (s *Store) Grant(ctx context.Context, o GrantOptions) (Credentials, error) {
	o = o.normal()
	if a := s.account(o.Name); a != nil {
		return s.sameAccount(a, o)
	}
	now := time.Now()
	expires, err := checkGrant(o, now)
	if err != nil {
		return Credentials{}, err
	}
	// The bucket's name first, as everywhere: it must not be deleted meanwhile.
	defer s.names.rlock("bucket/" + o.Bucket)()
	defer s.names.lock("account/" + o.Name)()
	if a := s.account(o.Name); a != nil {
		return s.sameAccount(a, o)
	}
	if s.serving(o.Bucket) == nil {
		return Credentials{}, fail(ErrNotFound, "bucket %q not found", clip(o.Bucket))
	}
	if err := ctx.Err(); err != nil {
		return Credentials{}, err
	}
	a := s.newAccount(o, now, expires)
	v, err := json.Marshal(a)
	if err != nil {
		return Credentials{}, fmt.Errorf("grant access to bucket %q: %w", o.Bucket, err)
	}
	err = s.db.Update(func(tx *kv.Tx) error { return tx.Bucket(accountTable).Put(a.ID, v) })
	if err != nil {
		return Credentials{}, fmt.Errorf("grant access to bucket %q: %w", o.Bucket, spaceOr(err))
	}
	step("account recorded")
	s.mu.Lock()
	s.accounts[a.ID], s.byName[o.Name] = a, a
	s.mu.Unlock()
	return s.credentials(a)
}

// Revoke ends an account: its key fails from the next request on. One that is
// absent is nil. An account of another bucket is ErrInvalid and stays as it is,
// because revoking "nothing" would leave a live key behind that its owner
// believes dead.
func (s *Store) Revoke(ctx context.Context, bucket, id string) error {
	s.mu.RLock()
	a := s.accounts[id]
	s.mu.RUnlock()
	if a == nil {
		return nil
	}
	if a.Grant.Bucket != bucket {
		return fail(ErrInvalid, "account %q has access to another bucket than %q", id, clip(bucket))
	}
	defer s.names.lock("account/" + a.Grant.Name)()
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.db.Update(func(tx *kv.Tx) error { return tx.Bucket(accountTable).Delete(id) })
	if err != nil {
		return fmt.Errorf("revoke account %q: %w", id, spaceOr(err))
	}
	step("account revoked")
	s.mu.Lock()
	s.forget(a)
	s.mu.Unlock()
	return nil
}

// forget takes an account out of the maps; the caller holds s.mu.
func (s *Store) forget(a *accountRecord) {
	delete(s.accounts, a.ID)
	if s.byName[a.Grant.Name] == a {
		delete(s.byName, a.Grant.Name)
	}
}

func (s *Store) account(name string) *accountRecord {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byName[name]
}

func (s *Store) accountsOn(bucket string) []*accountRecord {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var on []*accountRecord
	for _, a := range s.accounts {
		if a.Grant.Bucket == bucket {
			on = append(on, a)
		}
	}
	return on
}

func (s *Store) sameAccount(a *accountRecord, o GrantOptions) (Credentials, error) {
	if a.Grant != o {
		return Credentials{}, fail(ErrExists, "account %q exists already with other arguments", clip(o.Name))
	}
	if a.expired(time.Now()) {
		return Credentials{}, fail(ErrExpired, "account %q expired at %s: revoke it and grant again under a new name",
			clip(o.Name), a.ExpiresAt.Format(time.RFC3339))
	}
	return s.credentials(a)
}

func (s *Store) credentials(a *accountRecord) (Credentials, error) {
	secret, err := s.secret(a)
	if err != nil {
		return Credentials{}, err
	}
	return Credentials{
		AccountID:       a.ID,
		Endpoint:        s.Endpoint(),
		Region:          s.Region(),
		AccessKeyID:     a.ID,
		AccessSecretKey: secret,
	}, nil
}

func (s *Store) secret(a *accountRecord) (string, error) {
	plain, err := s.key.Open(a.Secret, []byte("account/"+a.ID))
	if err != nil {
		return "", fmt.Errorf("open the secret of account %q: %w", a.ID, err)
	}
	return string(plain), nil
}

func (s *Store) newAccount(o GrantOptions, now, expires time.Time) *accountRecord {
	id := s.ids.next(now)
	// Letters and digits only, 200 bits: a key that begins with a dash, or holds
	// a slash, breaks command lines and URLs that forget to quote it.
	secret := (rand.Text() + rand.Text())[:40]
	return &accountRecord{
		ID:        id,
		Created:   now.UTC(),
		Grant:     o,
		ExpiresAt: expires,
		Secret:    s.key.Seal([]byte(secret), []byte("account/"+id)),
	}
}

// checkGrant checks what can be checked without the store, and makes the
// expiry absolute.
func checkGrant(o GrantOptions, now time.Time) (expires time.Time, err error) {
	if o.Name == "" {
		return time.Time{}, fail(ErrInvalid, "account name is empty")
	}
	if o.Bucket == "" {
		return time.Time{}, fail(ErrInvalid, "bucket name is empty")
	}
	if !o.Mode.reads() && !o.Mode.writes() {
		return time.Time{}, fail(ErrInvalid, "mode %q: must be ReadWrite, ReadOnly or WriteOnly", clip(string(o.Mode)))
	}
	if err := checkPrefix(o.Prefix); err != nil {
		return time.Time{}, err
	}
	return parseExpiry(o.Expiry, now)
}

// checkPrefix refuses what no key can begin with, and what a policy would read
// as a pattern.
func checkPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if strings.ContainsAny(prefix, "*?$") || !utf8.ValidString(prefix) {
		return fail(ErrInvalid, "prefix %q: must be UTF-8 without any of * ? $", clip(prefix))
	}
	if reason, _ := keyFault(prefix); reason != "" {
		return fail(ErrInvalid, "prefix %q: %s", clip(prefix), reason)
	}
	return nil
}

// parseExpiry reads an RFC 3339 time or a duration from now; the zero time is
// never.
func parseExpiry(expiry string, now time.Time) (time.Time, error) {
	if expiry == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, expiry)
	if err != nil {
		d, derr := time.ParseDuration(expiry)
		if derr != nil {
			return time.Time{}, fail(ErrInvalid, "expiry %q: must be a time such as 2027-01-31T00:00:00Z or a duration such as 24h", clip(expiry))
		}
		at = now.Add(d)
	}
	if !at.After(now) {
		return time.Time{}, fail(ErrOutOfRange, "expiry %q is not in the future", clip(expiry))
	}
	return at.UTC(), nil
}
