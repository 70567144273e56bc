package objectstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/valyala/fasthttp"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"
)

// gateway is the backend that the S3 server calls. It stands before the posix
// backend and lets through only the methods written here: everything else, the
// changing of policies, ACLs and bucket configurations above all, is answered
// with NotImplemented by what it embeds.
type gateway struct {
	backend.BackendUnsupported
	posix *posix.Posix
	s     *Store
	// owner is the access key of the root account, which owns every bucket.
	owner string
}

func (g *gateway) Shutdown()      { g.posix.Shutdown() }
func (g *gateway) String() string { return "fairlead" }

// NormalizeObjectKey names the object that policies are matched against. Keys
// with two spellings are refused elsewhere, so cleaning only makes sure that no
// spelling gets around a prefix; the slash that ends a directory object stays.
func (g *gateway) NormalizeObjectKey(bucket, key string) string {
	clean := g.posix.NormalizeObjectKey(bucket, key)
	if clean != "" && key != "" && key[len(key)-1] == '/' {
		return clean + "/"
	}
	return clean
}

// change runs op, which writes to a key, between the bucket's gate and its
// quota.
func (g *gateway) change(b *bucket, c charge, op func() error) error {
	if err := keyError(c.key); err != nil {
		return err
	}
	if !b.gate.enter() {
		return noSuchBucket(b.Name)
	}
	defer b.gate.leave()
	if err := g.s.ready(b); err != nil {
		return g.s.s3Error(err, c.key)
	}
	done, err := g.s.charge(b, c)
	if err != nil {
		return g.s.s3Error(err, c.key)
	}
	defer done()
	return g.s.s3Error(op(), c.key)
}

// write is change, acknowledged only once it is on the disk.
func (g *gateway) write(bucketName string, c charge, op func() error) error {
	b := g.s.serving(bucketName)
	if b == nil {
		return noSuchBucket(bucketName)
	}
	if err := g.change(b, c, op); err != nil {
		return err
	}
	step("object written")
	return g.s.s3Error(g.s.syncKeys(b, c.key), c.key)
}

// read checks what every reading method must before op runs.
func (g *gateway) read(bucketName, key string, op func() error) error {
	if err := keyError(key); err != nil {
		return err
	}
	if err := g.look(bucketName); err != nil {
		return g.s.s3Error(err, key)
	}
	return g.s.s3Error(op(), key)
}

// look makes sure that there is a bucket to look into.
func (g *gateway) look(name string) error {
	b := g.s.serving(name)
	if b == nil {
		return noSuchBucket(name)
	}
	return g.s.readyToRead(b)
}

// syncKeys brings the objects, their versions and every directory above them up
// to the bucket's root to the disk.
func (s *Store) syncKeys(b *bucket, keys ...string) error {
	dirs := map[string]bool{}
	climb := func(from, top string) {
		for d := from; len(d) >= len(top); d = filepath.Dir(d) {
			dirs[d] = true
		}
	}
	top := s.bucketDir(b.Name)
	for _, key := range keys {
		object := filepath.Join(top, key)
		if err := syncFile(object); err != nil {
			return err
		}
		climb(filepath.Dir(object), top)
		if b.Options.Versioning {
			climb(filepath.Join(s.versionsDir(), b.Name, versionsPath(key)), s.versionsDir())
		}
	}
	rooted := b.inDir.Load()
	if !rooted {
		dirs[s.bucketsDir()] = true
	}
	for d := range dirs {
		if err := s.dirs.sync(d); err != nil {
			return err
		}
	}
	b.inDir.Store(true)
	return nil
}

// uploadsPath is where the backend keeps the uploads of a key, below the
// bucket's directory; versionsPath its older versions, below the bucket's
// directory of versions.
func uploadsPath(key string) string {
	return filepath.Join(tmpDir, "multipart", keyHash(key))
}

func versionsPath(key string) string {
	h := keyHash(key)
	return filepath.Join(h[:2], h[2:4], h[4:6], h)
}

func keyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// The buckets themselves.

// ListBuckets shows an account its own bucket, and nobody anything else.
func (g *gateway) ListBuckets(ctx context.Context, in s3response.ListBucketsInput) (s3response.ListAllMyBucketsResult, error) {
	out := s3response.ListAllMyBucketsResult{Owner: s3response.CanonicalUser{ID: in.Owner}, Prefix: in.Prefix}
	a := g.caller(ctx)
	if a == nil {
		return out, nil
	}
	name := a.Grant.Bucket
	b := g.s.serving(name)
	if b == nil || name <= in.ContinuationToken || len(name) < len(in.Prefix) || name[:len(in.Prefix)] != in.Prefix {
		return out, nil
	}
	out.Buckets.Bucket = []s3response.ListAllMyBucketsEntry{{Name: name, CreationDate: b.Created}}
	return out, nil
}

// HeadBucket says whether the bucket is there.
func (g *gateway) HeadBucket(_ context.Context, in *s3.HeadBucketInput) (*s3.HeadBucketOutput, error) {
	if g.s.serving(*in.Bucket) == nil {
		return nil, noSuchBucket(*in.Bucket)
	}
	return &s3.HeadBucketOutput{}, nil
}

// GetBucketAcl gives every bucket to the root account. It is the first thing
// asked of a bucket in every request.
func (g *gateway) GetBucketAcl(_ context.Context, in *s3.GetBucketAclInput) ([]byte, error) {
	if g.s.serving(*in.Bucket) == nil {
		return nil, noSuchBucket(*in.Bucket)
	}
	return json.Marshal(auth.ACL{Owner: g.owner})
}

// GetBucketPolicy makes the policy for this one request: see policyFor. Before
// the caller is known, and for one without credentials, it is that of anybody.
func (g *gateway) GetBucketPolicy(ctx context.Context, name string) ([]byte, error) {
	b := g.s.serving(name)
	if b == nil {
		return nil, noSuchBucket(name)
	}
	a := g.caller(ctx)
	if a != nil && a.Grant.Bucket != name {
		a = nil
	}
	request, ok := ctx.(*fasthttp.RequestCtx)
	return policyFor(name, b.Options.Anonymous, a, ok && request.IsHead()), nil
}

// caller is the account that signed the request, or nil.
func (g *gateway) caller(ctx context.Context) *accountRecord {
	a, ok := ctx.Value("account").(auth.Account) // the gateway's own key for it
	if !ok {
		return nil
	}
	return g.s.accountByID(a.Access)
}

// GetBucketVersioning, GetObjectLockConfiguration and GetBucketCors answer from
// the record.
func (g *gateway) GetBucketVersioning(ctx context.Context, name string) (s3response.GetBucketVersioningOutput, error) {
	if err := g.look(name); err != nil {
		return s3response.GetBucketVersioningOutput{}, g.s.s3Error(err, "")
	}
	return g.posix.GetBucketVersioning(ctx, name)
}

func (g *gateway) GetObjectLockConfiguration(ctx context.Context, name string) ([]byte, error) {
	if err := g.look(name); err != nil {
		return nil, g.s.s3Error(err, "")
	}
	return g.posix.GetObjectLockConfiguration(ctx, name)
}

func (g *gateway) GetBucketCors(_ context.Context, name string) ([]byte, error) {
	return nil, s3err.GetBucketErr(s3err.ErrNoSuchCORSConfiguration, name)
}
