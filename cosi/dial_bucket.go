package cosi

import (
	"context"
	"fmt"
	"log/slog"

	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/internal/plugin"
)

// Bucket is what a plugin says of a bucket that it created.
type Bucket struct {
	// ID is the bucket's identifier in the object store, for all later calls.
	// From a draft plugin it is the name (DRAFT-020).
	ID string
	// Info is what is needed to connect to it; nil where the plugin gave none,
	// as no draft plugin can.
	Info *cosipb.Protocol
}

// GrantRequest asks for access to a bucket.
type GrantRequest struct {
	BucketID string
	// Account is the name that the access is created, and repeated, by.
	Account        string
	Authentication cosipb.AuthenticationType
	// Parameters are opaque to the caller (COSI-066).
	Parameters map[string]string
}

// Grant is access to a bucket.
type Grant struct {
	// AccountID is what RevokeAccess takes (COSI-034, DRAFT-025).
	AccountID string
	// Credentials are secret. The outer key is the protocol: "s3", "azure" or
	// "gcs". A draft
	// plugin's file is under "file", with the keys "contents" and "path".
	Credentials map[string]map[string]string
}

// String keeps the credentials out of logs and errors (COSI-136).
func (g Grant) String() string {
	return fmt.Sprintf("{AccountID:%s Credentials:[redacted]}", g.AccountID)
}

// GoString is String, for %#v.
func (g Grant) GoString() string { return g.String() }

// CreateBucket creates the bucket, or finds it if it exists with the same
// parameters, which are opaque here (COSI-052). A draft plugin gets the
// parameters region, zone and anonymousAccess as fields of their own, and the
// others as bucket_context (DRAFT-033 to DRAFT-035).
func (c *Client) CreateBucket(ctx context.Context, name string, parameters map[string]string) (b Bucket, err error) {
	what := fmt.Sprintf("create bucket %q", name)
	err = c.inTurn(ctx, name, what, func(ctx context.Context, s *session) error {
		if s.protocol == ProtocolDraft {
			b, err = c.draftCreate(ctx, s, name, parameters)
			return err
		}
		in := &cosipb.DriverCreateBucketRequest{Name: name, Parameters: parameters}
		var out cosipb.DriverCreateBucketResponse
		if err := c.invoke(ctx, s, cosipb.Provisioner_DriverCreateBucket_FullMethodName, in, &out); err != nil {
			return err
		}
		b = Bucket{ID: out.GetBucketId(), Info: out.GetBucketInfo()}
		return nil
	})
	if err != nil {
		return Bucket{}, err
	}
	c.queue.learn(b.ID, name)
	return b, nil
}

// DeleteBucket deletes the bucket; one that is gone already is no error. A draft
// plugin needs the region and zone that the bucket was created with in
// deleteContext, which is opaque otherwise (COSI-059).
func (c *Client) DeleteBucket(ctx context.Context, bucketID string, deleteContext map[string]string) error {
	what := fmt.Sprintf("delete bucket %q", bucketID)
	err := c.inTurn(ctx, bucketID, what, func(ctx context.Context, s *session) error {
		if s.protocol == ProtocolDraft {
			return c.draftDelete(ctx, s, bucketID, deleteContext)
		}
		in := &cosipb.DriverDeleteBucketRequest{BucketId: bucketID, DeleteContext: deleteContext}
		return c.invoke(ctx, s, cosipb.Provisioner_DriverDeleteBucket_FullMethodName, in, &cosipb.DriverDeleteBucketResponse{})
	})
	if err == nil {
		c.queue.forget(bucketID)
	}
	return err
}

// GrantAccess gives the account access to the bucket; repeated, it gives the
// same account again. Authentication must be Key or IAM (COSI-065); a draft
// plugin knows Key only.
func (c *Client) GrantAccess(ctx context.Context, r GrantRequest) (g Grant, err error) {
	what := fmt.Sprintf("grant access %q to bucket %q", r.Account, r.BucketID)
	err = c.inTurn(ctx, r.BucketID, what, func(ctx context.Context, s *session) error {
		if s.protocol == ProtocolDraft {
			g, err = c.draftGrant(ctx, s, r)
			return err
		}
		in := &cosipb.DriverGrantBucketAccessRequest{
			BucketId: r.BucketID, Name: r.Account,
			AuthenticationType: r.Authentication, Parameters: r.Parameters,
		}
		var out cosipb.DriverGrantBucketAccessResponse
		if err := c.invoke(ctx, s, cosipb.Provisioner_DriverGrantBucketAccess_FullMethodName, in, &out); err != nil {
			return err
		}
		g = Grant{AccountID: out.GetAccountId(), Credentials: map[string]map[string]string{}}
		for protocol, details := range out.GetCredentials() {
			g.Credentials[protocol] = details.GetSecrets()
		}
		return nil
	})
	if err != nil {
		return Grant{}, err
	}
	return g, nil
}

// RevokeAccess takes the account's access to the bucket away; an account that
// is gone already is no error. accountID is a [Grant]'s. A draft plugin needs
// region and zone in revokeContext, which is opaque otherwise (COSI-074).
func (c *Client) RevokeAccess(ctx context.Context, bucketID, accountID string, revokeContext map[string]string) error {
	what := fmt.Sprintf("revoke access %q to bucket %q", accountID, bucketID)
	return c.inTurn(ctx, bucketID, what, func(ctx context.Context, s *session) error {
		if s.protocol == ProtocolDraft {
			return c.draftRevoke(ctx, s, bucketID, accountID, revokeContext)
		}
		in := &cosipb.DriverRevokeBucketAccessRequest{
			BucketId: bucketID, AccountId: accountID, RevokeAccessContext: revokeContext,
		}
		return c.invoke(ctx, s, cosipb.Provisioner_DriverRevokeBucketAccess_FullMethodName, in, &cosipb.DriverRevokeBucketAccessResponse{})
	})
}

// inTurn is do, when no other call for the bucket is in flight.
func (c *Client) inTurn(ctx context.Context, bucket, what string, call func(context.Context, *session) error) error {
	leave, err := c.queue.enter(ctx, bucket)
	if err != nil {
		return gaveUp(ctx, what+": waiting for another call for this bucket", nil)
	}
	defer leave()
	return c.do(ctx, what, call)
}

// invoke is the session's, with a log line that shows no secret.
func (c *Client) invoke(ctx context.Context, s *session, method string, in, out proto.Message) error {
	err := s.invoke(ctx, method, in, out)
	if c.options.log.Enabled(ctx, slog.LevelDebug) {
		c.options.log.DebugContext(ctx, "COSI call", "driver", s.name, "rpc", methodName(method),
			"request", plugin.Redact(in), "answer", plugin.Redact(out), "err", plugin.RedactError(err, in, out))
	}
	return err
}
