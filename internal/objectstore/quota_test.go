package objectstore

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// used is what the quota has counted; it must be what a walk counts.
func used(t testing.TB, s *Store) int64 {
	t.Helper()
	u := s.bucket("bucket").usage
	c, err := s.walk(t.Context(), "bucket", 0)
	if err != nil {
		t.Fatal(err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.used != c.bytes || u.reserve != 0 {
		t.Fatalf("counted %d and %d reserved, but %d are there", u.used, u.reserve, c.bytes)
	}
	return u.used
}

func TestQuota(t *testing.T) {
	ctx := t.Context()
	s, c, b := owner(t, BucketOptions{Quota: 100})
	body := func(n int) string { return strings.Repeat("x", n) }
	mustPut(t, c, "bucket", "a", body(60))
	wantCode(t, "put over the quota", put(ctx, c, "bucket", "b", body(41)), "QuotaExceeded")
	mustPut(t, c, "bucket", "b", body(40))
	mustPut(t, c, "bucket", "a", body(60)) // replaced, not added
	wantCode(t, "replace by more", put(ctx, c, "bucket", "a", body(61)), "QuotaExceeded")
	_, err := c.CopyObject(ctx, &s3.CopyObjectInput{Bucket: b, Key: aws.String("c"), CopySource: aws.String("bucket/b")})
	wantCode(t, "copy over the quota", err, "QuotaExceeded")
	if got := used(t, s); got != 100 {
		t.Errorf("used %d", got)
	}
	s = reopen(t, s)
	wantCode(t, "put after a restart", put(ctx, c, "bucket", "c", "x"), "QuotaExceeded")
	if _, err := c.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: b, Delete: &types.Delete{
		Objects: []types.ObjectIdentifier{{Key: aws.String("a")}, {Key: aws.String("none")}}}}); err != nil {
		t.Fatal(err)
	}
	mustPut(t, c, "bucket", "c", body(60))
	if got := used(t, s); got != 100 {
		t.Errorf("used %d", got)
	}
}

// TestQuotaCountsParts: parts count as they come, and not twice when they
// become an object.
func TestQuotaCountsParts(t *testing.T) {
	ctx := t.Context()
	s, c, b := owner(t, BucketOptions{Quota: 100})
	key := aws.String("k")
	up, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: b, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	part := func(n int32, size int) (*s3.UploadPartOutput, error) {
		return c.UploadPart(ctx, &s3.UploadPartInput{Bucket: b, Key: key, UploadId: up.UploadId, PartNumber: &n, Body: strings.NewReader(strings.Repeat("x", size))})
	}
	if _, err = part(1, 90); err != nil {
		t.Fatal(err)
	}
	_, err = part(2, 11)
	wantCode(t, "part over the quota", err, "QuotaExceeded")
	one, err := part(1, 100) // the part again, in place of the first
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: b, Key: key, UploadId: up.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{ETag: one.ETag, PartNumber: aws.Int32(1)}}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := used(t, s); got != 100 {
		t.Errorf("used %d", got)
	}
}

func TestQuotaCountsVersions(t *testing.T) {
	ctx := t.Context()
	s, c, b := owner(t, BucketOptions{Quota: 100, Versioning: true})
	mustPut(t, c, "bucket", "k", strings.Repeat("x", 60))
	wantCode(t, "a second version", put(ctx, c, "bucket", "k", strings.Repeat("y", 60)), "QuotaExceeded")
	mustPut(t, c, "bucket", "k", strings.Repeat("y", 40))
	if _, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: b, Key: aws.String("k")}); err != nil {
		t.Fatalf("a delete marker is no data: %v", err)
	}
	if got := used(t, s); got != 100 {
		t.Errorf("used %d", got)
	}
	list, err := c.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: b})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list.Versions {
		if _, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: b, Key: v.Key, VersionId: v.VersionId}); err != nil {
			t.Fatal(err)
		}
	}
	if got := used(t, s); got != 0 {
		t.Errorf("used %d after all versions went", got)
	}
}

// TestQuotaIsExact: of many that write at the same time as many get through as
// fit, and not one more.
func TestQuotaIsExact(t *testing.T) {
	s, c, _ := owner(t, BucketOptions{Quota: 1000})
	var mu sync.Mutex
	stored := 0
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			err := put(t.Context(), c, "bucket", fmt.Sprintf("k%d", i), strings.Repeat("x", 100))
			mu.Lock()
			defer mu.Unlock()
			switch code(err) {
			case "":
				stored++
			case "QuotaExceeded":
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if stored != 10 || used(t, s) != 1000 {
		t.Errorf("%d objects, %d bytes", stored, used(t, s))
	}
	for i := range 16 { // and on one key they replace one another
		wg.Go(func() {
			if err := put(t.Context(), c, "bucket", "same", strings.Repeat("x", i)); err != nil && code(err) != "QuotaExceeded" {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	used(t, s)
}
