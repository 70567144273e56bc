package objectstore

import (
	"os"
	"path/filepath"
	"testing"
)

// Req: COSI-030, COSI-031, COSI-032, COSI-033, COSI-035, COSI-117
func TestLifeOfABucket(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, storeDir(t))
	create(t, s, "photos", BucketOptions{})
	create(t, s, "photos", BucketOptions{Anonymous: Private}) // the same, spelt out
	wantKind(t, "other options", s.CreateBucket(ctx, "photos", BucketOptions{Quota: 5}), ErrExists)

	o := GrantOptions{Bucket: "photos", Name: "ba-1"}
	cred := grant(t, s, o)
	if again := grant(t, s, o); again != cred {
		t.Errorf("granted again: %+v, want %+v", again, cred)
	}
	if len(cred.AccessKeyID) != 20 || len(cred.AccessSecretKey) != 40 {
		t.Errorf("key of %d and %d characters", len(cred.AccessKeyID), len(cred.AccessSecretKey))
	}
	_, err := s.Grant(ctx, GrantOptions{Bucket: "photos", Name: "ba-1", Mode: ReadOnly})
	wantKind(t, "other arguments", err, ErrExists)

	c := client(cred)
	mustPut(t, c, "photos", "a/b.jpg", "pixels")
	mustGet(t, c, "photos", "a/b.jpg", "pixels")

	s = reopen(t, s)
	if again := grant(t, s, o); again != cred {
		t.Errorf("granted after a restart: %+v, want %+v", again, cred)
	}
	mustGet(t, c, "photos", "a/b.jpg", "pixels")

	wantKind(t, "delete with contents", s.DeleteBucket(ctx, "photos", false), ErrNotEmpty)
	if err := s.Revoke(ctx, "photos", cred.AccountID); err != nil {
		t.Fatal(err)
	}
	_, err = get(ctx, c, "photos", "a/b.jpg")
	wantCode(t, "get with a revoked key", err, "InvalidAccessKeyId")
	if err := s.Revoke(ctx, "photos", cred.AccountID); err != nil {
		t.Errorf("revoke again: %v", err)
	}
	if err := s.DeleteBucket(ctx, "photos", true); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteBucket(ctx, "photos", false); err != nil {
		t.Errorf("delete again: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(s.root, "buckets", "photos")); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
	create(t, s, "photos", BucketOptions{Quota: 5}) // the name is free
}
