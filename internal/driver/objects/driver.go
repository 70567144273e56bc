// Package objects is Fairlead's own COSI driver: the four calls of the
// specification over the object store of this host.
package objects

import (
	"context"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/internal/objectstore"
)

// Name is what DriverGetInfo answers (COSI-027, COSI-048).
const Name = "objects.fairlead.dev"

// Driver serves one store. It implements cosi.Driver.
type Driver struct{ store *objectstore.Store }

// New makes a driver over an open store, which stays the caller's to close.
func New(store *objectstore.Store) *Driver { return &Driver{store} }

// DriverCreateBucket makes a bucket; its id is its name (COSI-030, COSI-031,
// COSI-117). The parameters are versioning, objectLock, quota, anonymousAccess
// and region.
func (d *Driver) DriverCreateBucket(ctx context.Context, in *cosipb.DriverCreateBucketRequest) (*cosipb.DriverCreateBucketResponse, error) {
	options, err := parseBucket(in.GetParameters(), d.store.Region())
	if err != nil {
		return nil, status(err)
	}
	if err := d.store.CreateBucket(ctx, in.GetName(), options); err != nil {
		return nil, status(err)
	}
	return &cosipb.DriverCreateBucketResponse{
		BucketId: in.GetName(),
		BucketInfo: &cosipb.Protocol{Type: &cosipb.Protocol_S3{S3: &cosipb.S3{
			Region:           d.store.Region(),
			SignatureVersion: cosipb.S3SignatureVersion_S3V4,
		}}},
	}, nil
}

// DriverDeleteBucket deletes a bucket that DriverCreateBucket made; one that is
// absent is deleted (COSI-032). The delete context is force=true or nothing.
func (d *Driver) DriverDeleteBucket(ctx context.Context, in *cosipb.DriverDeleteBucketRequest) (*cosipb.DriverDeleteBucketResponse, error) {
	force, err := parseDelete(in.GetDeleteContext())
	if err != nil {
		return nil, status(err)
	}
	if in.GetBucketId() == "" {
		return nil, status(missing("bucket_id"))
	}
	if err := d.store.DeleteBucket(ctx, in.GetBucketId(), force); err != nil {
		return nil, status(err)
	}
	return &cosipb.DriverDeleteBucketResponse{}, nil
}

// DriverGrantBucketAccess makes an account of the request's name with a key of
// its own (COSI-033); the same request gives the same account and key again.
// The parameters are mode, prefix and expiry.
func (d *Driver) DriverGrantBucketAccess(ctx context.Context, in *cosipb.DriverGrantBucketAccessRequest) (*cosipb.DriverGrantBucketAccessResponse, error) {
	if err := checkAuthentication(in.GetAuthenticationType()); err != nil {
		return nil, status(err)
	}
	if in.GetBucketId() == "" {
		return nil, status(missing("bucket_id"))
	}
	options, err := parseGrant(in)
	if err != nil {
		return nil, status(err)
	}
	c, err := d.store.Grant(ctx, options)
	if err != nil {
		return nil, status(err)
	}
	return &cosipb.DriverGrantBucketAccessResponse{
		AccountId: c.AccountID,
		Credentials: map[string]*cosipb.CredentialDetails{"s3": {Secrets: map[string]string{
			"endpoint":        c.Endpoint,
			"region":          c.Region,
			"accessKeyID":     c.AccessKeyID,
			"accessSecretKey": c.AccessSecretKey,
		}}},
	}, nil
}

// DriverRevokeBucketAccess ends an account at once (COSI-035); one that is
// absent is revoked. There are no parameters.
func (d *Driver) DriverRevokeBucketAccess(ctx context.Context, in *cosipb.DriverRevokeBucketAccessRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
	if err := known("revoke_access_context", in.GetRevokeAccessContext()); err != nil {
		return nil, status(err)
	}
	if in.GetBucketId() == "" {
		return nil, status(missing("bucket_id"))
	}
	if in.GetAccountId() == "" {
		return nil, status(missing("account_id"))
	}
	if err := d.store.Revoke(ctx, in.GetBucketId(), in.GetAccountId()); err != nil {
		return nil, status(err)
	}
	return &cosipb.DriverRevokeBucketAccessResponse{}, nil
}
