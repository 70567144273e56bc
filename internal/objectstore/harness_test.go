package objectstore

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
)

// openStore opens a store in dir, on a free port, and closes it with the test.
// The gateway changes the working directory, so these tests never run side by
// side in one process.
func openStore(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{Root: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	closeOnce = func() {
		if !closed {
			closed = true
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	}
	t.Cleanup(closeOnce)
	return s
}

// closeOnce closes the store opened last.
var closeOnce func()

// reopen closes the store and opens it again, as a restart does.
func reopen(t testing.TB, s *Store) *Store {
	t.Helper()
	closeOnce()
	return openStore(t, s.root)
}

// storeDir is a fresh directory that is left before it is removed.
func storeDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { os.Chdir("/") })
	return dir
}

func create(t testing.TB, s *Store, name string, o BucketOptions) {
	t.Helper()
	if err := s.CreateBucket(t.Context(), name, o); err != nil {
		t.Fatal(err)
	}
}

func grant(t testing.TB, s *Store, o GrantOptions) Credentials {
	t.Helper()
	c, err := s.Grant(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// client is an unmodified S3 client with these credentials. It tries nothing
// twice, so that a test sees the first answer.
func client(c Credentials) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(c.Endpoint),
		Region:       c.Region,
		UsePathStyle: true,
		Retryer:      aws.NopRetryer{},
		Credentials:  credentials.NewStaticCredentialsProvider(c.AccessKeyID, c.AccessSecretKey, ""),
	})
}

// anonymous is a client without credentials.
func anonymous(s *Store) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(s.Endpoint()),
		Region:       s.Region(),
		UsePathStyle: true,
		Retryer:      aws.NopRetryer{},
		Credentials:  aws.AnonymousCredentials{},
	})
}

func put(ctx context.Context, c *s3.Client, bucket, key, body string) error {
	_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader(body)})
	return err
}

func get(ctx context.Context, c *s3.Client, bucket, key string) (string, error) {
	out, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		return "", err
	}
	defer out.Body.Close()
	var b bytes.Buffer
	_, err = io.Copy(&b, out.Body)
	return b.String(), err
}

func mustPut(t testing.TB, c *s3.Client, bucket, key, body string) {
	t.Helper()
	if err := put(t.Context(), c, bucket, key, body); err != nil {
		t.Fatalf("put %s/%s: %v", bucket, key, err)
	}
}

func mustGet(t testing.TB, c *s3.Client, bucket, key, want string) {
	t.Helper()
	if got, err := get(t.Context(), c, bucket, key); err != nil || got != want {
		t.Fatalf("get %s/%s = %q, %v; want %q", bucket, key, clip(got), err, clip(want))
	}
}

// code is the S3 error code of err, "" for nil.
func code(err error) string {
	if err == nil {
		return ""
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return "not an S3 error: " + err.Error()
}

func wantCode(t testing.TB, what string, err error, want string) {
	t.Helper()
	if got := code(err); got != want {
		t.Errorf("%s: got %q (%v), want %q", what, got, err, want)
	}
}

func wantKind(t testing.TB, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: got %v, want %v", what, err, kind)
	}
}

// eventually watches a condition that the store brings about by itself.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Errorf("still not so: %s", what)
			return
		}
	}
}

func removeObject(ctx context.Context, c *s3.Client, bucket, key string) error {
	_, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: &key})
	return err
}
