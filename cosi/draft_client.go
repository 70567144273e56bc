package cosi

import (
	"context"
	"fmt"
	"maps"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/cosi/draftpb"
)

// The draft's methods: other names under v1alpha1's service (DRAFT-015).
const (
	draftService = "/cosi.v1alpha1.Provisioner/"

	draftGetInfo      = draftService + "ProvisionerGetInfo"
	draftCreateBucket = draftService + "ProvisionerCreateBucket"
	draftDeleteBucket = draftService + "ProvisionerDeleteBucket"
	draftGrantAccess  = draftService + "ProvisionerGrantBucketAccess"
	draftRevokeAccess = draftService + "ProvisionerRevokeBucketAccess"
)

// Parameters that are fields of their own in the draft's requests.
const (
	paramRegion       = "region"
	paramZone         = "zone"
	paramAnonymous    = "anonymousAccess" // Private, ReadOnly, WriteOnly or ReadWrite
	paramAccessPolicy = "accessPolicy"    // passed on as it is
	paramEndpoint     = "endpoint"        // the S3 endpoint, which the draft has no word for
)

// draftAnonymous are the draft's access modes by v1alpha1's names (DRAFT-019).
var draftAnonymous = map[string]draftpb.ProvisionerCreateBucketRequest_AnonymousBucketAccessMode{
	"":          draftpb.ProvisionerCreateBucketRequest_BUCKET_PRIVATE,
	"Private":   draftpb.ProvisionerCreateBucketRequest_BUCKET_PRIVATE,
	"ReadOnly":  draftpb.ProvisionerCreateBucketRequest_BUCKET_READ_ONLY,
	"WriteOnly": draftpb.ProvisionerCreateBucketRequest_BUCKET_WRITE_ONLY,
	"ReadWrite": draftpb.ProvisionerCreateBucketRequest_BUCKET_READ_WRITE,
}

func (c *Client) draftCreate(ctx context.Context, s *session, name string, parameters map[string]string) (Bucket, error) {
	mode, ok := draftAnonymous[parameters[paramAnonymous]]
	if !ok {
		return Bucket{}, invalidArgument("create bucket %q: parameter %s is %q; want Private, ReadOnly, WriteOnly or ReadWrite",
			name, paramAnonymous, parameters[paramAnonymous])
	}
	err := c.invoke(ctx, s, draftCreateBucket, &draftpb.ProvisionerCreateBucketRequest{
		BucketName: name, Region: parameters[paramRegion], Zone: parameters[paramZone],
		BucketContext:             without(parameters, paramRegion, paramZone, paramAnonymous),
		AnonymousBucketAccessMode: mode,
	}, &draftpb.ProvisionerCreateBucketResponse{})
	if err != nil {
		return Bucket{}, err
	}
	return Bucket{ID: name}, nil
}

func (c *Client) draftDelete(ctx context.Context, s *session, bucketID string, deleteContext map[string]string) error {
	return c.invoke(ctx, s, draftDeleteBucket, &draftpb.ProvisionerDeleteBucketRequest{
		BucketName: bucketID, Region: deleteContext[paramRegion], Zone: deleteContext[paramZone],
		BucketContext: without(deleteContext, paramRegion, paramZone),
	}, &draftpb.ProvisionerDeleteBucketResponse{})
}

func (c *Client) draftGrant(ctx context.Context, s *session, r GrantRequest) (Grant, error) {
	if r.Authentication != cosipb.AuthenticationType_Key {
		return Grant{}, invalidArgument("grant access %q to bucket %q: driver %q speaks the older draft, which knows authentication by key only",
			r.Account, r.BucketID, s.name)
	}
	p := r.Parameters
	var out draftpb.ProvisionerGrantBucketAccessResponse
	err := c.invoke(ctx, s, draftGrantAccess, &draftpb.ProvisionerGrantBucketAccessRequest{
		BucketName: r.BucketID, Region: p[paramRegion], Zone: p[paramZone],
		BucketContext: without(p, paramRegion, paramZone, paramAccessPolicy),
		Principal:     r.Account, AccessPolicy: p[paramAccessPolicy],
	}, &out)
	if err != nil {
		return Grant{}, err
	}
	return Grant{
		AccountID:   out.GetPrincipal(),
		Credentials: draftCredentials(out.GetCredentialsFileContents(), out.GetCredentialsFilePath(), p),
	}, nil
}

func (c *Client) draftRevoke(ctx context.Context, s *session, bucketID, accountID string, revokeContext map[string]string) error {
	return c.invoke(ctx, s, draftRevokeAccess, &draftpb.ProvisionerRevokeBucketAccessRequest{
		BucketName: bucketID, Region: revokeContext[paramRegion], Zone: revokeContext[paramZone],
		BucketContext: without(revokeContext, paramRegion, paramZone),
		Principal:     accountID,
	}, &draftpb.ProvisionerRevokeBucketAccessResponse{})
}

// draftCredentials brings the draft's credentials into v1alpha1's shape: the
// file as it came, and "s3" if it can be read as such. One that cannot is no
// error here: the account exists, and must stay revocable.
func draftCredentials(contents, path string, parameters map[string]string) map[string]map[string]string {
	file := map[string]string{}
	for key, value := range map[string]string{
		fileContents: contents, filePath: path,
		s3Endpoint: parameters[paramEndpoint], s3Region: parameters[paramRegion],
	} {
		if value != "" {
			file[key] = value
		}
	}
	credentials := map[string]map[string]string{protocolFile: file}
	if s3, err := s3FromFile(file); err == nil {
		credentials[protocolS3] = s3
	}
	return credentials
}

// s3FromFile reads "s3" credentials from what draftCredentials keeps under
// "file". What the contents do not say (endpoint, region) the parameters do.
func s3FromFile(file map[string]string) (map[string]string, error) {
	if file[fileContents] == "" {
		if path := file[filePath]; path != "" {
			return nil, fmt.Errorf("the plugin gave the path of a credentials file (%q), which is passed on but never opened", path)
		}
		return nil, fmt.Errorf("the plugin gave no credentials")
	}
	s3, err := parseCredentialsFile(file[fileContents])
	if err != nil {
		return nil, err
	}
	for _, key := range []string{s3Endpoint, s3Region} {
		if s3[key] == "" {
			s3[key] = file[key]
		}
	}
	return s3, nil
}

func without(m map[string]string, keys ...string) map[string]string {
	m = maps.Clone(m)
	for _, k := range keys {
		delete(m, k)
	}
	return m
}
