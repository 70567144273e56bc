package cosi

import (
	"context"
	"maps"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/cosi/draftpb"
	"github.com/fairlead/fairlead/internal/plugin"
)

// draftMethods are the draft's five methods (DRAFT-015), each mapped onto the
// driver's methods of v1alpha1.
var draftMethods = []grpc.MethodDesc{
	draftMethod("ProvisionerGetInfo", (*provisioner).draftGetInfo),
	draftMethod("ProvisionerCreateBucket", (*provisioner).draftCreateBucket),
	draftMethod("ProvisionerDeleteBucket", (*provisioner).draftDeleteBucket),
	draftMethod("ProvisionerGrantBucketAccess", (*provisioner).draftGrantBucketAccess),
	draftMethod("ProvisionerRevokeBucketAccess", (*provisioner).draftRevokeBucketAccess),
}

func draftMethod[Req, Resp any](name string, call func(*provisioner, context.Context, *Req) (*Resp, error)) grpc.MethodDesc {
	fullMethod := "/" + cosipb.Provisioner_ServiceDesc.ServiceName + "/" + name
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		req := new(Req)
		if err := decode(req); err != nil {
			return nil, err
		}
		handler := func(ctx context.Context, req any) (any, error) {
			return call(srv.(*provisioner), ctx, req.(*Req))
		}
		if interceptor == nil {
			return handler(ctx, req)
		}
		return interceptor(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: fullMethod}, handler)
	}}
}

// draftGetInfo answers the driver's name as provisioner_identity (DRAFT-017).
func (p *provisioner) draftGetInfo(context.Context, *draftpb.ProvisionerGetInfoRequest) (*draftpb.ProvisionerGetInfoResponse, error) {
	return &draftpb.ProvisionerGetInfoResponse{ProvisionerIdentity: p.name}, nil
}

// draftCreateBucket maps bucket_name to name, and bucket_context to parameters,
// joined by "region", "zone" and "anonymousAccess" where the request sets them.
// The answer is empty: the draft goes on by bucket_name (DRAFT-020). What the
// driver does not take of region or zone is OUT_OF_RANGE (DRAFT-036).
func (p *provisioner) draftCreateBucket(ctx context.Context, req *draftpb.ProvisionerCreateBucketRequest) (*draftpb.ProvisionerCreateBucketResponse, error) {
	fields := map[string]string{paramRegion: req.GetRegion(), paramZone: req.GetZone()}
	if m := req.GetAnonymousBucketAccessMode(); m != draftpb.ProvisionerCreateBucketRequest_BUCKET_PRIVATE {
		// The same modes, one number lower than in v1alpha1 (DRAFT-019).
		fields[paramAnonymous] = cosipb.AnonymousBucketAccessMode(m + 1).String()
	}
	parameters, err := join(req.GetBucketContext(), fields)
	if err != nil {
		return nil, err
	}
	in := &cosipb.DriverCreateBucketRequest{Name: req.GetBucketName(), Parameters: parameters}
	if _, err := throughRules(ctx, in, p.DriverCreateBucket); err != nil {
		return nil, outOfRange(err, parameters, fields)
	}
	return &draftpb.ProvisionerCreateBucketResponse{}, nil
}

// draftDeleteBucket maps bucket_context to delete_context. A bucket that is
// not there is deleted (COSI-032). Here and below, region and zone only repeat
// where the bucket is: its name finds it.
func (p *provisioner) draftDeleteBucket(ctx context.Context, req *draftpb.ProvisionerDeleteBucketRequest) (*draftpb.ProvisionerDeleteBucketResponse, error) {
	id, err := p.bucketID(ctx, req.GetBucketName())
	if err == nil {
		in := &cosipb.DriverDeleteBucketRequest{BucketId: id, DeleteContext: req.GetBucketContext()}
		_, err = throughRules(ctx, in, p.DriverDeleteBucket)
	} else if status.Code(err) == codes.NotFound {
		err = nil
	}
	return &draftpb.ProvisionerDeleteBucketResponse{}, err
}

// draftGrantBucketAccess grants access by key to the account that principal
// names. bucket_context becomes parameters, joined by "mode" if access_policy
// is ReadWrite, ReadOnly or WriteOnly, and by "policy" if it is anything else.
// The answer's principal is the account id, which later revokes the access
// (DRAFT-025); its credentials_file_contents are described at [draftFile].
func (p *provisioner) draftGrantBucketAccess(ctx context.Context, req *draftpb.ProvisionerGrantBucketAccessRequest) (*draftpb.ProvisionerGrantBucketAccessResponse, error) {
	parameters, err := join(req.GetBucketContext(), accessPolicy(req.GetAccessPolicy()))
	if err != nil {
		return nil, err
	}
	id, err := p.bucketID(ctx, req.GetBucketName())
	if err != nil {
		return nil, err
	}
	in := &cosipb.DriverGrantBucketAccessRequest{
		BucketId: id, Name: req.GetPrincipal(), Parameters: parameters,
		AuthenticationType: cosipb.AuthenticationType_Key,
	}
	out, err := throughRules(ctx, in, p.DriverGrantBucketAccess)
	if err != nil {
		return nil, err
	}
	file, err := draftFile(out.GetCredentials())
	if err != nil {
		return nil, status.Errorf(codes.Internal,
			"access is granted to account %q, but the draft cannot carry its credentials: %v; revoke it, or grant by v1alpha1", out.GetAccountId(), err)
	}
	return &draftpb.ProvisionerGrantBucketAccessResponse{Principal: out.GetAccountId(), CredentialsFileContents: file}, nil
}

// draftRevokeBucketAccess maps principal, which is what the grant answered, to
// account_id, and bucket_context to revoke_access_context. Of a bucket that is
// not there everything is revoked.
func (p *provisioner) draftRevokeBucketAccess(ctx context.Context, req *draftpb.ProvisionerRevokeBucketAccessRequest) (*draftpb.ProvisionerRevokeBucketAccessResponse, error) {
	id, err := p.bucketID(ctx, req.GetBucketName())
	if err == nil {
		in := &cosipb.DriverRevokeBucketAccessRequest{
			BucketId: id, AccountId: req.GetPrincipal(), RevokeAccessContext: req.GetBucketContext(),
		}
		_, err = throughRules(ctx, in, p.DriverRevokeBucketAccess)
	} else if status.Code(err) == codes.NotFound {
		err = nil
	}
	return &draftpb.ProvisionerRevokeBucketAccessResponse{}, err
}

// bucketID is the driver's id for the bucket that the draft calls name.
func (p *provisioner) bucketID(ctx context.Context, name string) (string, error) {
	d, ok := p.driver.(BucketIDer)
	if !ok {
		return name, nil
	}
	id, err := d.BucketID(ctx, name)
	if err == nil {
		p.names.learn(name, id)
	}
	return id, err
}

// throughRules calls a method of v1alpha1 as if the request had come in and
// the answer gone out by itself: what the draft's messages are mapped to must
// keep the limits too.
func throughRules[Req, Resp proto.Message](ctx context.Context, req Req, call func(context.Context, Req) (Resp, error)) (Resp, error) {
	var none Resp
	if err := plugin.CheckMessage(req, serveRules); err != nil {
		return none, status.Errorf(codes.InvalidArgument, "by v1alpha1's names: %v", err)
	}
	resp, err := call(ctx, req)
	switch {
	case err != nil:
		return none, plugin.RedactError(plugin.Status(err), resp)
	case !resp.ProtoReflect().IsValid():
		return none, status.Error(codes.Internal, "the driver gave neither an answer nor an error")
	}
	if err := plugin.CheckMessage(resp, serveRules); err != nil {
		return none, status.Errorf(codes.Internal, "the driver gave an invalid answer: %v", err)
	}
	return resp, nil
}

// join adds fields that are not empty to a draft's context, which may name
// them too if it says the same.
func join(context, fields map[string]string) (map[string]string, error) {
	sum := maps.Clone(context)
	for key, value := range fields {
		if value == "" {
			continue
		}
		if old, ok := sum[key]; ok && old != value {
			return nil, status.Errorf(codes.InvalidArgument, "bucket_context has %q for %s, a field of the request %q", old, key, value)
		}
		if sum == nil {
			sum = map[string]string{}
		}
		sum[key] = value
	}
	return sum, nil
}

func accessPolicy(policy string) map[string]string {
	switch policy {
	case "ReadWrite", "ReadOnly", "WriteOnly":
		return map[string]string{"mode": policy}
	default:
		return map[string]string{"policy": policy}
	}
}
