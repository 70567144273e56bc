package objectstore

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// signed sends a request with a path and query of our own making, which no SDK
// would send, under good credentials.
func signed(t *testing.T, c Credentials, method, rawPath, rawQuery string, header http.Header) (int, string) {
	t.Helper()
	body := ""
	req, err := http.NewRequestWithContext(t.Context(), method, c.Endpoint, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Opaque = "//" + req.URL.Host + rawPath
	req.URL.RawQuery = rawQuery
	for k, v := range header {
		req.Header[k] = v
	}
	const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	req.Header.Set("X-Amz-Content-Sha256", emptyHash)
	err = v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).SignHTTP(t.Context(),
		aws.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.AccessSecretKey}, req, emptyHash, "s3", c.Region, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return do(t, req)
}

// TestHostileKeys: a key that is not one plain path gets the right S3 error from
// every operation, never 500, and nothing outside of the bucket changes.
func TestHostileKeys(t *testing.T) {
	s := openStore(t, storeDir(t))
	create(t, s, "bucket", BucketOptions{})
	create(t, s, "victim", BucketOptions{Versioning: true})
	cred := grant(t, s, GrantOptions{Bucket: "bucket", Name: "a"})
	victim := client(grant(t, s, GrantOptions{Bucket: "victim", Name: "v"}))
	mustPut(t, victim, "victim", "k", "precious")
	if err := s.ready(s.bucket("bucket")); err != nil {
		t.Fatal(err)
	}
	before := tree(t, s.root)
	long := strings.Repeat("x", 256)
	for _, c := range []struct {
		path, want string
	}{
		{"/bucket/../victim/k", "InvalidArgument"},
		{"/bucket/%2e%2e/victim/k", "InvalidArgument"},
		{"/bucket/..%2Fvictim%2Fk", "InvalidArgument"},
		{"/bucket/a/./b", "InvalidArgument"},
		{"/bucket/a//b", "InvalidArgument"},
		{"/bucket//a", "InvalidArgument"},
		{"/bucket/a%00b", "InvalidArgument"},
		{"/bucket/%ff%fe", "InvalidArgument"},
		{"/bucket/.sgwtmp/multipart/x", "InvalidArgument"},
		{"/bucket/.sgwtmp", "InvalidArgument"},
		{"/bucket/" + long, "KeyTooLongError"},
		{"/bucket/a/" + long + "/b", "KeyTooLongError"},
		{"/bucket/" + strings.Repeat("abcdefg/", 129), "KeyTooLongError"},
		{"/..", "InvalidBucketName"},
		{"/%2e%2e/x", "InvalidBucketName"},
		{"/UPPER/x", "InvalidBucketName"},
	} {
		for _, method := range []string{http.MethodPut, http.MethodGet, http.MethodDelete, http.MethodHead} {
			status, body := signed(t, cred, method, c.path, "", nil)
			if status < 400 || status >= 500 || method != http.MethodHead && !strings.Contains(body, "<Code>"+c.want+"</Code>") {
				t.Errorf("%s %.60s: %d %s, want %s", method, c.path, status, body, c.want)
			}
		}
	}
	for _, c := range []struct{ method, path, query string }{
		{http.MethodDelete, "/bucket/k", "uploadId=..%2F..%2F..%2F..%2Fvictim"},
		{http.MethodPut, "/bucket/k", "partNumber=1&uploadId=..%2F..%2F..%2F..%2Fvictim"},
		{http.MethodGet, "/bucket/k", "uploadId=..%2F.."},
		{http.MethodPost, "/bucket/k", "uploadId=..%2F.."},
		{http.MethodDelete, "/bucket/k", "versionId=..%2F..%2Fk"},
		{http.MethodGet, "/bucket/k", "versionId=..%2F..%2Fk"},
		{http.MethodGet, "/bucket/k", "tagging&versionId=..%2F..%2Fk"},
		{http.MethodGet, "/bucket", "prefix=..%2Fvictim%2F"},
		{http.MethodGet, "/bucket", "list-type=2&prefix=%2F"},
		{http.MethodGet, "/bucket", "versions&prefix=a%2F%2F"},
		{http.MethodGet, "/bucket", "list-type=2&prefix=.sgwtmp%2F"},
		{http.MethodGet, "/bucket", "list-type=2&start-after=..%2F..&delimiter=..%2F"},
		{http.MethodGet, "/bucket", "marker=%ff%00"},
		{http.MethodGet, "/bucket", "uploads&prefix=..%2F&upload-id-marker=..%2F"},
	} {
		status, body := signed(t, cred, c.method, c.path, c.query, nil)
		if status >= 500 || strings.Contains(body, "precious") || strings.Contains(body, "<Key>") {
			t.Errorf("%s %s?%s: %d %s", c.method, c.path, c.query, status, body)
		}
	}
	c := client(cred)
	out, err := c.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: aws.String("bucket"), Delete: &types.Delete{
		Objects: []types.ObjectIdentifier{{Key: aws.String("../victim/k")}, {Key: aws.String("k"), VersionId: aws.String("../../k")}}}})
	if err != nil || len(out.Deleted) > 0 || len(out.Errors) != 2 {
		t.Errorf("delete many: %+v, %v", out, err)
	}
	for _, source := range []string{"bucket/../victim/k", "../buckets/victim/k", "victim/k", "bucket/k?versionId=../../k"} {
		_, err := c.CopyObject(t.Context(), &s3.CopyObjectInput{Bucket: aws.String("bucket"), Key: aws.String("got"), CopySource: &source})
		if got := code(err); got == "" || got == "InternalError" {
			t.Errorf("copy from %q: %q", source, got)
		}
	}
	mustGet(t, victim, "victim", "k", "precious")
	if after := tree(t, s.root); after != before {
		t.Errorf("the tree changed:\n%s\nwas\n%s", after, before)
	}
}

// tree lists all paths below root, temporary directories aside.
func tree(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() != tmpDir {
			b.WriteString(path + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestKeysAreRealNames: what S3 allows and a file system can hold works.
func TestKeysAreRealNames(t *testing.T) {
	_, c, b := owner(t, BucketOptions{})
	for _, k := range []string{strings.Repeat("x", 255), strings.Repeat("ab/", 300) + "end", "ünïcödé/日本", "a b+c&d=e", ".hidden", "..a", "dir/"} {
		body := "1"
		if strings.HasSuffix(k, "/") {
			body = ""
		}
		for range 2 { // the second replaces
			mustPut(t, c, "bucket", k, body)
		}
		mustGet(t, c, "bucket", k, body)
		if _, err := c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: b, Key: &k}); err != nil {
			t.Errorf("delete %.30q: %v", k, err)
		}
	}
	out, err := c.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: b})
	if err != nil || len(out.Contents) != 0 {
		t.Errorf("left: %+v, %v", out, err)
	}
}

// TestFileAndDirectory: a and a/b cannot both be; each order is refused as a
// conflict and harms nothing.
func TestFileAndDirectory(t *testing.T) {
	ctx := t.Context()
	_, c, b := owner(t, BucketOptions{})
	mustPut(t, c, "bucket", "a", "file")
	wantCode(t, "put below a file", put(ctx, c, "bucket", "a/b", "x"), "ObjectParentIsFile")
	mustPut(t, c, "bucket", "d/e", "below")
	wantCode(t, "put over a directory", put(ctx, c, "bucket", "d", "x"), "ExistingObjectIsDirectory")
	_, err := get(ctx, c, "bucket", "a/b")
	wantCode(t, "get below a file", err, "NoSuchKey")
	_, err = get(ctx, c, "bucket", "d")
	wantCode(t, "get a directory", err, "NoSuchKey")
	if _, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: b, Key: aws.String("d")}); err != nil {
		t.Errorf("delete a directory: %v", err)
	}
	_, err = c.CopyObject(ctx, &s3.CopyObjectInput{Bucket: b, Key: aws.String("a/c"), CopySource: aws.String("bucket/d/e")})
	wantCode(t, "copy below a file", err, "ObjectParentIsFile")
	mustGet(t, c, "bucket", "a", "file")
	mustGet(t, c, "bucket", "d/e", "below")
	big := map[string]string{"m": strings.Repeat("x", 2000)}
	_, err = c.PutObject(ctx, &s3.PutObjectInput{Bucket: b, Key: aws.String("meta"), Body: strings.NewReader("x"), Metadata: big})
	if got := code(err); got != "" && got != "MetadataTooLarge" {
		t.Errorf("2 kB of metadata: %v", err)
	}
}

// TestEncryptionIsRefused: the store encrypts no objects, so it must not take
// them as if it did.
func TestEncryptionIsRefused(t *testing.T) {
	ctx := t.Context()
	_, c, b := owner(t, BucketOptions{})
	key := aws.String("k")
	mustPut(t, c, "bucket", "plain", "plain")
	sseKey := aws.String(strings.Repeat("k", 32))
	for name, try := range map[string]func(context.Context) error{
		"AES256": func(ctx context.Context) error {
			_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: b, Key: key, Body: strings.NewReader("x"), ServerSideEncryption: types.ServerSideEncryptionAes256})
			return err
		},
		"KMS upload": func(ctx context.Context) error {
			_, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: b, Key: key, ServerSideEncryption: types.ServerSideEncryptionAwsKms})
			return err
		},
		"customer key copy": func(ctx context.Context) error {
			_, err := c.CopyObject(ctx, &s3.CopyObjectInput{Bucket: b, Key: key, CopySource: aws.String("bucket/plain"),
				CopySourceSSECustomerAlgorithm: aws.String("AES256"), CopySourceSSECustomerKey: sseKey})
			return err
		},
	} {
		wantCode(t, name, try(ctx), "NotImplemented")
	}
	// The SDK sends customers' keys over https only; others do not care.
	cred := Credentials{Endpoint: *c.Options().BaseEndpoint, Region: c.Options().Region, AccessKeyID: "x", AccessSecretKey: "x"}
	status, body := signed(t, cred, http.MethodPut, "/bucket/k", "", http.Header{"X-Amz-Server-Side-Encryption-Customer-Algorithm": {"AES256"}})
	if status != 501 || !strings.Contains(body, "NotImplemented") {
		t.Errorf("customer key: %d %s", status, body)
	}
	_, err := get(ctx, c, "bucket", "k")
	wantCode(t, "get", err, "NoSuchKey")
}
