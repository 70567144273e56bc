package e2e

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
)

// key is one key on one bucket, as the files of an access tell it.
type key struct{ endpoint, region, bucket, id, secret string }

// key reads the files of an access, NAME or NAME.ACCESS.
func (h *host) key(device string) key {
	h.t.Helper()
	file := func(name string) string { return read(h.t, h.run, "creds", device, name) }
	return key{
		endpoint: file("AWS_ENDPOINT_URL"), region: file("AWS_REGION"), bucket: file("BUCKET_NAME"),
		id: file("AWS_ACCESS_KEY_ID"), secret: file("AWS_SECRET_ACCESS_KEY"),
	}
}

func (k key) client() *s3.Client {
	return s3.New(s3.Options{
		Region: k.region, BaseEndpoint: &k.endpoint, UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(k.id, k.secret, ""),
		Retryer:     aws.NopRetryer{},
	})
}

func (k key) put(ctx context.Context, name, text string) error {
	_, err := k.client().PutObject(ctx, &s3.PutObjectInput{Bucket: &k.bucket, Key: &name, Body: strings.NewReader(text)})
	return err
}

func (k key) get(ctx context.Context, name string) (string, error) {
	out, err := k.client().GetObject(ctx, &s3.GetObjectInput{Bucket: &k.bucket, Key: &name})
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(out.Body)
	return string(body), errors.Join(err, out.Body.Close())
}

// s3Code is the S3 error code of an error, "" for none.
func s3Code(err error) string {
	var api smithy.APIError
	switch {
	case errors.As(err, &api):
		return api.ErrorCode()
	case err != nil:
		return err.Error()
	}
	return ""
}

// alive checks that a key reads what it wrote.
func (k key) alive(t testing.TB) {
	t.Helper()
	if err := k.put(t.Context(), "alive", k.id); err != nil {
		t.Errorf("key %s on %s: %v", k.id, k.bucket, err)
	} else if text, err := k.get(t.Context(), "alive"); err != nil || text != k.id {
		t.Errorf("key %s on %s reads %q: %v", k.id, k.bucket, text, err)
	}
}

// dead checks that a key is refused as one that nobody has.
func (k key) dead(t testing.TB) {
	t.Helper()
	if _, err := k.get(t.Context(), "alive"); s3Code(err) != "InvalidAccessKeyId" {
		t.Errorf("key %s on %s is not dead: %v", k.id, k.bucket, err)
	}
}
