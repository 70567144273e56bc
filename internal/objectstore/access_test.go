package objectstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// operation is one thing a client can try; "seed/old" is there before.
type operation struct {
	name string
	try  func(ctx context.Context, c *s3.Client, b *string) error
}

func operations() []operation {
	key := aws.String("seed/old")
	return []operation{
		{"head bucket", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: b})
			return err
		}},
		{"list", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: b})
			return err
		}},
		{"list v1", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.ListObjects(ctx, &s3.ListObjectsInput{Bucket: b})
			return err
		}},
		{"list versions", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: b})
			return err
		}},
		{"list uploads", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: b})
			return err
		}},
		{"get", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := get(ctx, c, *b, *key)
			return err
		}},
		{"head", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: b, Key: key})
			return err
		}},
		{"get attributes", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.GetObjectAttributes(ctx, &s3.GetObjectAttributesInput{Bucket: b, Key: key,
				ObjectAttributes: []types.ObjectAttributes{types.ObjectAttributesObjectSize}})
			return err
		}},
		{"get tags", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: b, Key: key})
			return err
		}},
		{"put", func(ctx context.Context, c *s3.Client, b *string) error {
			return put(ctx, c, *b, "seed/new", "x")
		}},
		{"put tags", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.PutObjectTagging(ctx, &s3.PutObjectTaggingInput{Bucket: b, Key: key,
				Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}})
			return err
		}},
		{"multipart", func(ctx context.Context, c *s3.Client, b *string) error {
			up, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: b, Key: aws.String("seed/mp")})
			if err != nil {
				return err
			}
			_, err = c.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: b, Key: up.Key, UploadId: up.UploadId})
			return err
		}},
		{"copy", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.CopyObject(ctx, &s3.CopyObjectInput{Bucket: b, Key: aws.String("seed/copy"), CopySource: aws.String(*b + "/seed/old")})
			return err
		}},
		{"delete", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: b, Key: aws.String("seed/gone")})
			return err
		}},
		{"delete many", func(ctx context.Context, c *s3.Client, b *string) error {
			out, err := c.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: b, Delete: &types.Delete{
				Objects: []types.ObjectIdentifier{{Key: aws.String("seed/gone")}}}})
			if err == nil && len(out.Errors) > 0 {
				return fmt.Errorf("%s", *out.Errors[0].Code)
			}
			return err
		}},
	}
}

// never are operations that no account may do, whatever its mode.
func never() []operation {
	key := aws.String("seed/old")
	policy := aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","NotPrincipal":"x","Action":"s3:*","Resource":"arn:aws:s3:::b/*"}]}`)
	return []operation{
		{"put policy", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.PutBucketPolicy(ctx, &s3.PutBucketPolicyInput{Bucket: b, Policy: policy})
			return err
		}},
		{"get policy", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: b})
			return err
		}},
		{"delete policy", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.DeleteBucketPolicy(ctx, &s3.DeleteBucketPolicyInput{Bucket: b})
			return err
		}},
		{"put bucket acl", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.PutBucketAcl(ctx, &s3.PutBucketAclInput{Bucket: b, ACL: types.BucketCannedACLPublicRead})
			return err
		}},
		{"put object acl", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.PutObjectAcl(ctx, &s3.PutObjectAclInput{Bucket: b, Key: key, ACL: types.ObjectCannedACLPublicRead})
			return err
		}},
		{"put versioning", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{Bucket: b,
				VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
			return err
		}},
		{"put bucket tags", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.PutBucketTagging(ctx, &s3.PutBucketTaggingInput{Bucket: b,
				Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}})
			return err
		}},
		{"put cors", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.PutBucketCors(ctx, &s3.PutBucketCorsInput{Bucket: b, CORSConfiguration: &types.CORSConfiguration{
				CORSRules: []types.CORSRule{{AllowedMethods: []string{"GET"}, AllowedOrigins: []string{"*"}}}}})
			return err
		}},
		{"put website", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.PutBucketWebsite(ctx, &s3.PutBucketWebsiteInput{Bucket: b, WebsiteConfiguration: &types.WebsiteConfiguration{
				IndexDocument: &types.IndexDocument{Suffix: aws.String("i")}}})
			return err
		}},
		{"create bucket", func(ctx context.Context, c *s3.Client, _ *string) error {
			_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("another")})
			return err
		}},
		{"delete bucket", func(ctx context.Context, c *s3.Client, b *string) error {
			_, err := c.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: b})
			return err
		}},
	}
}

func denied(err error) bool {
	c := code(err)
	return c == "AccessDenied" || c == "Forbidden" || strings.HasSuffix(c, "AccessDenied") ||
		c == "AccessControlListNotSupported" || c == "MethodNotAllowed"
}

// TestWhatAnAccountMayDo is each mode against each operation.
// Req: COSI-035, COSI-067
func TestWhatAnAccountMayDo(t *testing.T) {
	read := "head bucket,list,list v1,list versions,get,head,get attributes,get tags"
	write := "head bucket,list uploads,put,put tags,multipart"
	all := read + "," + write + ",copy,delete,delete many"
	s := openStore(t, storeDir(t))
	create(t, s, "bucket", BucketOptions{})
	create(t, s, "other", BucketOptions{})
	owner := client(grant(t, s, GrantOptions{Bucket: "bucket", Name: "owner"}))
	mustPut(t, owner, "bucket", "seed/old", "old")
	mustPut(t, owner, "bucket", "seed/gone", "gone")
	for _, who := range []struct {
		name    string
		client  *s3.Client
		allowed string
	}{
		{"ReadWrite", owner, all},
		{"ReadOnly", client(grant(t, s, GrantOptions{Bucket: "bucket", Name: "ro", Mode: ReadOnly})), read},
		{"WriteOnly", client(grant(t, s, GrantOptions{Bucket: "bucket", Name: "wo", Mode: WriteOnly})), write},
		{"another bucket's", client(grant(t, s, GrantOptions{Bucket: "other", Name: "foreign"})), ""},
		{"nobody's", anonymous(s), ""},
	} {
		allowed := "," + who.allowed + ","
		for _, op := range operations() {
			t.Run(who.name+"/"+op.name, func(t *testing.T) {
				err := op.try(t.Context(), who.client, aws.String("bucket"))
				if strings.Contains(allowed, ","+op.name+",") {
					if err != nil {
						t.Errorf("refused: %v", err)
					}
				} else if !denied(err) {
					t.Errorf("got %q (%v), want a refusal", code(err), err)
				}
			})
		}
		for _, op := range never() {
			t.Run(who.name+"/"+op.name, func(t *testing.T) {
				if err := op.try(t.Context(), who.client, aws.String("bucket")); !denied(err) {
					t.Errorf("got %q (%v), want a refusal", code(err), err)
				}
			})
		}
	}
}

// Req: COSI-037
func TestAnonymousAccess(t *testing.T) {
	s := openStore(t, storeDir(t))
	for _, mode := range []Access{Private, ReadOnly, WriteOnly, ReadWrite} {
		t.Run(string(mode), func(t *testing.T) {
			name := strings.ToLower(string(mode))
			create(t, s, name, BucketOptions{Anonymous: mode})
			c := client(grant(t, s, GrantOptions{Bucket: name, Name: name}))
			mustPut(t, c, name, "seed/old", "old")
			for _, op := range operations() {
				want := false
				switch op.name {
				case "get", "head", "list", "list v1", "head bucket":
					want = mode.reads()
				case "put":
					want = mode.writes()
				}
				err := op.try(t.Context(), anonymous(s), &name)
				if got := err == nil; got != want || err != nil && !denied(err) && code(err) != "InvalidRequest" {
					t.Errorf("%s without credentials: %v; allowed should be %v", op.name, err, want)
				}
			}
		})
	}
}

// Req: COSI-067
func TestPrefix(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, storeDir(t))
	create(t, s, "bucket", BucketOptions{})
	owner := client(grant(t, s, GrantOptions{Bucket: "bucket", Name: "owner"}))
	for _, k := range []string{"photos/a", "photos2", "music/a", "top"} {
		mustPut(t, owner, "bucket", k, k)
	}
	c := client(grant(t, s, GrantOptions{Bucket: "bucket", Name: "photos", Prefix: "photos/"}))
	mustGet(t, c, "bucket", "photos/a", "photos/a")
	mustPut(t, c, "bucket", "photos/deep/er", "x")
	mustPut(t, c, "bucket", "photos/", "")
	for _, k := range []string{"photos2", "music/a", "top", "photos", "photos/../top"} {
		if _, err := get(ctx, c, "bucket", k); err == nil {
			t.Errorf("read %q", k)
		}
		if err := put(ctx, c, "bucket", k, "mine"); err == nil {
			t.Errorf("wrote %q", k)
		}
	}
	for prefix, allowed := range map[string]bool{"photos/": true, "photos/d": true, "photos": false, "": false, "music/": false, "photos/../": true} {
		out, err := c.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("bucket"), Prefix: &prefix})
		if got := err == nil; got != allowed {
			t.Errorf("list %q: %v", prefix, err)
		}
		for _, o := range value(out).Contents {
			if !strings.HasPrefix(*o.Key, "photos/") {
				t.Errorf("list %q shows %q", prefix, *o.Key)
			}
		}
	}
	// The source of a copy is checked like a read, the target like a write.
	for source, target := range map[string]string{"bucket/top": "photos/stolen", "bucket/photos/a": "music/mine",
		"bucket/photos/../top": "photos/stolen", "bucket/photos%2F..%2Ftop": "photos/stolen"} {
		_, err := c.CopyObject(ctx, &s3.CopyObjectInput{Bucket: aws.String("bucket"), Key: &target, CopySource: &source})
		if err == nil {
			t.Errorf("copied %s to %s", source, target)
		}
	}
	// Deleting many settles each key on its own.
	out, err := c.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: aws.String("bucket"), Delete: &types.Delete{
		Objects: []types.ObjectIdentifier{{Key: aws.String("photos/a")}, {Key: aws.String("top")}, {Key: aws.String("photos/../top")}}}})
	if err != nil || len(out.Deleted) != 1 || len(out.Errors) != 2 {
		t.Errorf("delete many: %+v, %v", out, err)
	}
	mustGet(t, owner, "bucket", "top", "top")
	for _, p := range []string{"a*", "a?", "${aws:username}", "/a", "../a", "a//b", "a\x00b", strings.Repeat("x", 1025)} {
		_, err := s.Grant(ctx, GrantOptions{Bucket: "bucket", Name: "bad" + p, Prefix: p})
		wantKind(t, fmt.Sprintf("prefix %.20q", p), err, ErrInvalid)
	}
}

func TestCopyAcrossBuckets(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, storeDir(t))
	create(t, s, "mine", BucketOptions{})
	create(t, s, "theirs", BucketOptions{})
	mine := client(grant(t, s, GrantOptions{Bucket: "mine", Name: "mine"}))
	theirs := client(grant(t, s, GrantOptions{Bucket: "theirs", Name: "theirs"}))
	mustPut(t, theirs, "theirs", "secret", "secret")
	_, err := mine.CopyObject(ctx, &s3.CopyObjectInput{Bucket: aws.String("mine"), Key: aws.String("k"), CopySource: aws.String("theirs/secret")})
	wantCode(t, "copy", err, "AccessDenied")
	up, err := mine.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: aws.String("mine"), Key: aws.String("k")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = mine.UploadPartCopy(ctx, &s3.UploadPartCopyInput{Bucket: aws.String("mine"), Key: aws.String("k"),
		UploadId: up.UploadId, PartNumber: aws.Int32(1), CopySource: aws.String("theirs/secret")})
	wantCode(t, "copy a part", err, "AccessDenied")
	out, err := mine.ListBuckets(ctx, &s3.ListBucketsInput{})
	if err != nil || len(out.Buckets) != 1 || *out.Buckets[0].Name != "mine" {
		t.Errorf("list buckets: %+v, %v", out, err)
	}
}

// Req: COSI-035
func TestRevokedAndExpiredKeysFailAtOnce(t *testing.T) {
	ctx := t.Context()
	s := openStore(t, storeDir(t))
	create(t, s, "bucket", BucketOptions{})
	stays := client(grant(t, s, GrantOptions{Bucket: "bucket", Name: "stays"}))
	mustPut(t, stays, "bucket", "k", "v")
	cred := grant(t, s, GrantOptions{Bucket: "bucket", Name: "goes"})
	url, err := s3.NewPresignClient(client(cred)).PresignGetObject(ctx,
		&s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("k")}, s3.WithPresignExpires(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if status := fetch(t, url.URL); status != 200 {
		t.Fatalf("presigned URL: %d", status)
	}
	wantKind(t, "revoke on another bucket", s.Revoke(ctx, "other", cred.AccountID), ErrInvalid)
	if status := fetch(t, url.URL); status != 200 {
		t.Fatalf("presigned URL after a revoke elsewhere: %d", status)
	}
	if err := s.Revoke(ctx, "bucket", cred.AccountID); err != nil {
		t.Fatal(err)
	}
	if status := fetch(t, url.URL); status != 403 {
		t.Errorf("presigned URL of a revoked key: %d", status)
	}
	_, err = get(ctx, client(cred), "bucket", "k")
	wantCode(t, "get", err, "InvalidAccessKeyId")
	mustGet(t, stays, "bucket", "k", "v")

	o := GrantOptions{Bucket: "bucket", Name: "brief", Expiry: "1h"}
	brief := grant(t, s, o)
	mustGet(t, client(brief), "bucket", "k", "v")
	s = reopen(t, s)
	a := *s.accountByID(brief.AccountID)
	if left := time.Until(a.ExpiresAt); left > time.Hour || left < 55*time.Minute {
		t.Errorf("expires in %v: not an hour after the first grant", left)
	}
	a.ExpiresAt = time.Now() // as if the hour were over
	s.mu.Lock()
	s.accounts[a.ID], s.byName["brief"] = &a, &a
	s.mu.Unlock()
	_, err = get(ctx, client(brief), "bucket", "k")
	wantCode(t, "get with an expired key", err, "InvalidAccessKeyId")
	_, err = s.Grant(ctx, o)
	wantKind(t, "grant again after expiry", err, ErrExpired)
}
