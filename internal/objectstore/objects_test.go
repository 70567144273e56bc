package objectstore

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// owner opens a store with one bucket and a client that may do everything.
func owner(t testing.TB, o BucketOptions) (*Store, *s3.Client, *string) {
	t.Helper()
	s := openStore(t, storeDir(t))
	create(t, s, "bucket", o)
	return s, client(grant(t, s, GrantOptions{Bucket: "bucket", Name: "owner"})), aws.String("bucket")
}

func TestObjects(t *testing.T) {
	ctx := t.Context()
	_, c, b := owner(t, BucketOptions{})
	key := aws.String("dir/object")
	_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: b, Key: key, Body: strings.NewReader("0123456789"),
		ContentType: aws.String("text/x"), Metadata: map[string]string{"who": "me"}, Tagging: aws.String("a=b")})
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: b, Key: key, Range: aws.String("bytes=2-4")})
	if err != nil {
		t.Fatal(err)
	}
	part, _ := io.ReadAll(out.Body)
	if string(part) != "234" || *out.ContentRange != "bytes 2-4/10" || *out.ContentType != "text/x" || out.Metadata["who"] != "me" {
		t.Errorf("range: %q, %+v", part, out)
	}
	tags, err := c.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: b, Key: key})
	if err != nil || len(tags.TagSet) != 1 || *tags.TagSet[0].Value != "b" {
		t.Errorf("tags: %+v, %v", tags, err)
	}
	if _, err := c.CopyObject(ctx, &s3.CopyObjectInput{Bucket: b, Key: aws.String("copy"), CopySource: aws.String("bucket/dir/object")}); err != nil {
		t.Fatal(err)
	}
	mustGet(t, c, "bucket", "copy", "0123456789")
	_, err = c.PutObject(ctx, &s3.PutObjectInput{Bucket: b, Key: key, Body: strings.NewReader("x"), IfNoneMatch: aws.String("*")})
	wantCode(t, "put if absent", err, "PreconditionFailed")
	list, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: b, Delimiter: aws.String("/")})
	if err != nil || len(list.Contents) != 1 || len(list.CommonPrefixes) != 1 {
		t.Errorf("list: %+v, %v", list, err)
	}
	presigned, err := s3.NewPresignClient(c).PresignPutObject(ctx, &s3.PutObjectInput{Bucket: b, Key: aws.String("signed")}, s3.WithPresignExpires(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequestWithContext(ctx, http.MethodPut, presigned.URL, strings.NewReader("by URL"))
	if status, body := do(t, req); status != 200 {
		t.Errorf("presigned put: %d %s", status, body)
	}
	mustGet(t, c, "bucket", "signed", "by URL")
}

func TestMultipart(t *testing.T) {
	ctx := t.Context()
	s, c, b := owner(t, BucketOptions{})
	key := aws.String("big/object")
	up, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: b, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16)
	done := make([]types.CompletedPart, 2)
	for i, body := range [][]byte{data, []byte("tail")} {
		n := int32(i + 1)
		p, err := c.UploadPart(ctx, &s3.UploadPartInput{Bucket: b, Key: key, UploadId: up.UploadId, PartNumber: &n, Body: bytes.NewReader(body)})
		if err != nil {
			t.Fatal(err)
		}
		done[i] = types.CompletedPart{ETag: p.ETag, PartNumber: &n}
	}
	err = s.DeleteBucket(ctx, "bucket", false)
	wantKind(t, "delete a bucket with an upload", err, ErrNotEmpty)
	if !strings.Contains(fmt.Sprint(err), "1 unfinished upload") {
		t.Errorf("message: %v", err)
	}
	s = reopen(t, s) // an upload goes on after a restart
	_, err = c.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: b, Key: key, UploadId: up.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: done}})
	if err != nil {
		t.Fatal(err)
	}
	mustGet(t, c, "bucket", *key, string(data)+"tail")
	got, err := s.count(ctx, "bucket")
	if want := (contents{objects: 1, bytes: 5<<20 + 4}); err != nil || got != want {
		t.Errorf("count = %+v, %v; want %+v", got, err, want)
	}
}

func TestVersions(t *testing.T) {
	ctx := t.Context()
	s, c, b := owner(t, BucketOptions{Versioning: true})
	key := aws.String("dir/k")
	var ids []*string
	for _, body := range []string{"one", "two", "three"} {
		out, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: b, Key: key, Body: strings.NewReader(body)})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, out.VersionId)
	}
	old, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: b, Key: key, VersionId: ids[0]})
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(old.Body); string(body) != "one" {
		t.Errorf("first version: %q", body)
	}
	if _, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: b, Key: key}); err != nil {
		t.Fatal(err)
	}
	_, err = get(ctx, c, "bucket", *key)
	wantCode(t, "get what is marked deleted", err, "NoSuchKey")
	list, err := c.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: b})
	if err != nil || len(list.Versions) != 3 || len(list.DeleteMarkers) != 1 {
		t.Fatalf("versions: %+v, %v", list, err)
	}
	// Removing the marker brings the newest version back.
	if _, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: b, Key: key, VersionId: list.DeleteMarkers[0].VersionId}); err != nil {
		t.Fatal(err)
	}
	mustGet(t, c, "bucket", *key, "three")
	v, err := c.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: b})
	if err != nil || v.Status != types.BucketVersioningStatusEnabled {
		t.Errorf("versioning: %+v, %v", v, err)
	}
	err = s.DeleteBucket(ctx, "bucket", false)
	wantKind(t, "delete", err, ErrNotEmpty)
	if !strings.Contains(fmt.Sprint(err), "2 older versions") {
		t.Errorf("message: %v", err)
	}
}

func TestObjectLock(t *testing.T) {
	ctx := t.Context()
	_, c, b := owner(t, BucketOptions{ObjectLock: true})
	key := aws.String("k")
	until := time.Now().Add(time.Hour)
	out, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: b, Key: key, Body: strings.NewReader("keep"),
		ObjectLockMode: types.ObjectLockModeCompliance, ObjectLockRetainUntilDate: &until})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: b, Key: key, VersionId: out.VersionId})
	wantCode(t, "delete a locked version", err, "AccessDenied")
	_, err = c.PutObjectLegalHold(ctx, &s3.PutObjectLegalHoldInput{Bucket: b, Key: key, LegalHold: &types.ObjectLockLegalHold{Status: types.ObjectLockLegalHoldStatusOn}})
	if err != nil {
		t.Error(err)
	}
	hold, err := c.GetObjectLegalHold(ctx, &s3.GetObjectLegalHoldInput{Bucket: b, Key: key})
	if err != nil || hold.LegalHold.Status != types.ObjectLockLegalHoldStatusOn {
		t.Errorf("legal hold: %+v, %v", hold, err)
	}
	cfg, err := c.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: b})
	if err != nil || cfg.ObjectLockConfiguration.ObjectLockEnabled != types.ObjectLockEnabledEnabled {
		t.Errorf("lock configuration: %+v, %v", cfg, err)
	}
}
