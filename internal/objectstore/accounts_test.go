package objectstore

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestConcurrentGrants: 64 grants on one bucket at a time leave 64 accounts
// that work, also after a restart; a revocation touches only its own.
// Req: COSI-033, COSI-104
func TestConcurrentGrants(t *testing.T) {
	s := openStore(t, storeDir(t))
	create(t, s, "bucket", BucketOptions{})
	creds := make([]Credentials, 64)
	var wg sync.WaitGroup
	for i := range creds {
		wg.Go(func() {
			c, err := s.Grant(t.Context(), GrantOptions{Bucket: "bucket", Name: fmt.Sprintf("ba-%d", i)})
			if err != nil {
				t.Error(err)
			}
			creds[i] = c
		})
		wg.Go(func() { // and the same again, racing
			s.Grant(t.Context(), GrantOptions{Bucket: "bucket", Name: fmt.Sprintf("ba-%d", i)})
		})
	}
	wg.Wait()
	s = reopen(t, s)
	if n := len(s.accounts); n != 64 {
		t.Errorf("%d accounts", n)
	}
	for i := range creds {
		wg.Go(func() {
			if err := put(t.Context(), client(creds[i]), "bucket", fmt.Sprint(i), "x"); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				if err := s.Revoke(t.Context(), "bucket", creds[i].AccountID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i, c := range creds {
		want := ""
		if i%2 == 0 {
			want = "InvalidAccessKeyId"
		}
		wantCode(t, fmt.Sprint("put with ", i), put(t.Context(), client(c), "bucket", "k", "x"), want)
	}
}

// TestNoSecretOnDisk looks for the secret key in every file of the store.
func TestNoSecretOnDisk(t *testing.T) {
	s := openStore(t, storeDir(t))
	create(t, s, "bucket", BucketOptions{})
	c := grant(t, s, GrantOptions{Bucket: "bucket", Name: "a"})
	mustPut(t, client(c), "bucket", "k", "x")
	closeOnce()
	err := filepath.WalkDir(s.root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(c.AccessSecretKey)) {
			t.Errorf("%s holds the secret key", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"host.key", "store.db"} {
		if fi, err := os.Stat(filepath.Join(s.root, name)); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
}

func TestGrantRefuses(t *testing.T) {
	s := openStore(t, storeDir(t))
	create(t, s, "bucket", BucketOptions{})
	create(t, s, "other", BucketOptions{})
	grant(t, s, GrantOptions{Bucket: "bucket", Name: "taken"})
	for name, c := range map[string]struct {
		o    GrantOptions
		kind error
	}{
		"no name":            {GrantOptions{Bucket: "bucket"}, ErrInvalid},
		"no bucket":          {GrantOptions{Name: "a"}, ErrInvalid},
		"absent bucket":      {GrantOptions{Bucket: "absent", Name: "a"}, ErrNotFound},
		"bucket as a path":   {GrantOptions{Bucket: "../buckets", Name: "a"}, ErrNotFound},
		"name elsewhere":     {GrantOptions{Bucket: "other", Name: "taken"}, ErrExists},
		"other prefix":       {GrantOptions{Bucket: "bucket", Name: "taken", Prefix: "p/"}, ErrExists},
		"mode":               {GrantOptions{Bucket: "bucket", Name: "a", Mode: Private}, ErrInvalid},
		"expiry in the past": {GrantOptions{Bucket: "bucket", Name: "a", Expiry: "2001-01-01T00:00:00Z"}, ErrOutOfRange},
		"negative expiry":    {GrantOptions{Bucket: "bucket", Name: "a", Expiry: "-1h"}, ErrOutOfRange},
		"no expiry at all":   {GrantOptions{Bucket: "bucket", Name: "a", Expiry: "tomorrow"}, ErrInvalid},
	} {
		_, err := s.Grant(t.Context(), c.o)
		wantKind(t, name, err, c.kind)
	}
	if len(s.accounts) != 1 {
		t.Errorf("%d accounts", len(s.accounts))
	}
}

// TestBrownfield: a directory that was there before can be granted on by its
// name, is never taken for ours, and is never deleted.
// Req: COSI-003
func TestBrownfield(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, storeDir(t))
	if err := os.Mkdir(s.bucketDir("archive"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.bucketDir("archive"), "old"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "create over it", s.CreateBucket(ctx, "archive", BucketOptions{}), ErrExists)
	c := client(grant(t, s, GrantOptions{Bucket: "archive", Name: "a"}))
	mustGet(t, c, "archive", "old", "old")
	mustPut(t, c, "archive", "new/one", "new")
	wantKind(t, "delete", s.DeleteBucket(ctx, "archive", false), ErrNotOurs)
	wantKind(t, "delete by force", s.DeleteBucket(ctx, "archive", true), ErrNotOurs)
	mustGet(t, c, "archive", "old", "old")
	// A directory that takes the place of ours is not ours either.
	create(t, s, "mine", BucketOptions{})
	if err := s.ready(s.bucket("mine")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.bucketDir("mine")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.bucketDir("mine"), 0o755); err != nil {
		t.Fatal(err)
	}
	wantKind(t, "delete what was replaced", s.DeleteBucket(ctx, "mine", true), ErrNotOurs)
	// Nor is one that comes between creating a bucket and using it.
	create(t, s, "late", BucketOptions{})
	if err := os.Mkdir(s.bucketDir("late"), 0o755); err != nil {
		t.Fatal(err)
	}
	late := client(grant(t, s, GrantOptions{Bucket: "late", Name: "late"}))
	wantCode(t, "put where another directory came first", put(ctx, late, "late", "k", "x"), "NoSuchBucket")
	wantKind(t, "delete it", s.DeleteBucket(ctx, "late", true), ErrNotOurs)
	// What is no directory is no bucket.
	if err := os.Symlink(t.TempDir(), s.bucketDir("link")); err != nil {
		t.Fatal(err)
	}
	_, err := s.Grant(ctx, GrantOptions{Bucket: "link", Name: "l"})
	wantKind(t, "grant on a link", err, ErrNotFound)
}

// TestForceNeverFollowsLinks: what a link in a bucket points to survives.
func TestForceNeverFollowsLinks(t *testing.T) {
	s := openStore(t, storeDir(t))
	create(t, s, "bucket", BucketOptions{})
	if err := s.ready(s.bucket("bucket")); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "precious"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(s.bucketDir("bucket"), "link")); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteBucket(t.Context(), "bucket", true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the trash is empty", func() bool {
		left, err := os.ReadDir(s.trashDir())
		return err == nil && len(left) == 0
	})
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Error(err)
	}
}

func TestBucketNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"abc": true, "a.b-c9": true, strings.Repeat("x", 63): true, "bucket-0b1c": true,
		"": false, "ab": false, strings.Repeat("x", 64): false, "Upper": false, "under_score": false, "-a-": false, "a..b": false,
		"..": false, "../x": false, "a/b": false, "a\x00b": false, "192.168.1.1": false, "xn--abc": false, "abc-s3alias": false,
		"büc": false, ".abc": false, strings.Repeat("y", 10_000): false,
	} {
		if err := CheckBucketName(name); (err == nil) != ok {
			t.Errorf("%.30q: %v", name, err)
		}
	}
}

func FuzzKey(f *testing.F) {
	for _, k := range []string{"a", "a/b/", "../a", "a//b", ".sgwtmp/x", "\xff", "/", "a/./b", strings.Repeat("a/", 600)} {
		f.Add(k)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if reason, _ := keyFault(key); reason != "" {
			return
		}
		top := "/buckets/b"
		path := filepath.Join(top, key)
		if strings.TrimPrefix(path, top+"/") != strings.TrimSuffix(key, "/") {
			t.Errorf("key %q has another spelling: %q", key, path)
		}
		if err := checkPrefix(key); err == nil && strings.ContainsAny(key, "*?$") {
			t.Errorf("prefix %q is a pattern", key)
		}
	})
}

func FuzzExpiry(f *testing.F) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, e := range []string{"", "24h", "-1s", "2027-01-31T00:00:00Z", "9999999h", "0", "\x00"} {
		f.Add(e)
	}
	f.Fuzz(func(t *testing.T, expiry string) {
		at, err := parseExpiry(expiry, now)
		if err == nil && expiry != "" && !at.After(now) {
			t.Errorf("%q is at %v", expiry, at)
		}
	})
}
