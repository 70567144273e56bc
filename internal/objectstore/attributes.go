package objectstore

import (
	"encoding/json"
	"errors"
	"os"
	"slices"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/s3err"
	"golang.org/x/sys/unix"
)

// etagAttribute is the attribute that the gateway gives every object, version
// and part before the file takes its name.
const etagAttribute = "etag"

// attributes keeps the gateway's metadata. That of objects lies in extended
// attributes; that of our own buckets is no file's: it is read off the records,
// so that a bucket is configured by one commit and nothing can get out of step.
type attributes struct {
	meta.XattrMeta
	s *Store
}

// RetrieveAttribute reads one attribute; object is empty for a bucket's own.
func (a attributes) RetrieveAttribute(f *os.File, bucket, object, name string) ([]byte, error) {
	if f == nil && object == "" {
		if b := a.s.bucket(bucket); b != nil {
			return b.attribute(name)
		}
	}
	return a.XattrMeta.RetrieveAttribute(f, bucket, object, name)
}

// attribute is a bucket's configuration as the gateway's backend stores it.
func (b *bucket) attribute(name string) ([]byte, error) {
	switch {
	case name == "versioning" && b.Options.Versioning:
		return []byte{1}, nil
	case name == "bucket-lock" && b.Options.ObjectLock:
		created := b.Created
		return json.Marshal(auth.BucketLockConfig{Enabled: true, CreatedAt: &created})
	}
	return nil, meta.ErrNoSuchKey
}

// StoreAttribute writes one attribute. Two moments make an object durable:
//
//   - A file without a name yet (f is not nil) gets its etag when its data is
//     whole, just before it takes its name. It is synced there, so that the name
//     never stands for data that is not on the disk.
//   - An object in place is synced at once: where a version is put back, the
//     copy it was made from is removed next.
func (a attributes) StoreAttribute(f *os.File, bucket, object, name string, value []byte) error {
	if err := a.store(f, bucket, object, name, value); err != nil {
		return err
	}
	switch {
	case f != nil && name == etagAttribute:
		return f.Sync()
	case f == nil && object != "":
		return syncFile(bucket + "/" + object)
	}
	return nil
}

// store writes one attribute, and tells a full disk from attributes too large
// for the file system, which ext4 reports alike.
func (a attributes) store(f *os.File, bucket, object, name string, value []byte) error {
	err := a.XattrMeta.StoreAttribute(f, bucket, object, name, value)
	full := errors.Is(err, unix.ENOSPC) || errors.Is(err, s3err.GetAPIError(s3err.ErrNoSpaceLeftOnDevice))
	tooLarge := errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ERANGE)
	if tooLarge || full && !a.s.diskFull() {
		return s3err.GetAPIError(s3err.ErrMetadataTooLarge)
	}
	return err
}

// ListAttributes puts the etag last: versions are copied attribute by
// attribute, and are synced with the etag.
func (a attributes) ListAttributes(bucket, object string) ([]string, error) {
	names, err := a.XattrMeta.ListAttributes(bucket, object)
	if i := slices.Index(names, etagAttribute); i >= 0 {
		names = append(slices.Delete(names, i, i+1), etagAttribute)
	}
	return names, err
}

// diskFull reports whether next to nothing is left of the store's disk.
func (s *Store) diskFull() bool {
	var st unix.Statfs_t
	if err := unix.Statfs(s.root, &st); err != nil {
		return false
	}
	return st.Bavail*uint64(st.Bsize) < 64<<10 || st.Files > 0 && st.Ffree == 0
}

var _ meta.MetadataStorer = attributes{}
