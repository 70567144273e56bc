package objectstore

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

// A reader that found the bucket just before it was deleted does not make its
// directory again: that would be nobody's, and the name taken for ever.
func TestALateReaderMakesNoDirectory(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, storeDir(t))
	create(t, s, "photos", BucketOptions{})
	b := s.serving("photos")
	if err := s.DeleteBucket(ctx, "photos", false); err != nil {
		t.Fatal(err)
	}
	if err := s.readyToRead(b); err == nil {
		t.Error("the deleted bucket is there")
	}
	if _, err := os.Lstat(s.bucketDir("photos")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its directory: %v", err)
	}
	create(t, s, "photos", BucketOptions{}) // the name is free
}
