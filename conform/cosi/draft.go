package cosi

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/draftpb"
)

// draftCases are about the older draft's calls, on the same socket and under
// the same service name. The draft names a bucket by name, region and zone.
var draftCases = []Case{
	{
		Name: "draft/info", Req: "DRAFT-015 DRAFT-016 DRAFT-017 DRAFT-031 DRAFT-038", Level: Must,
		Clause: "If the plugin is unable to complete the ProvisionerGetInfo call successfully, it MUST return a non-ok gRPC code: OK is followed by an identity.",
		Run:    draftInfo,
	},
	{
		Name: "draft/all-calls", Req: "DRAFT-004 DRAFT-005 DRAFT-006", Level: Should,
		Clause: "Controller plugins SHOULD implement all RPCs. Unsupported RPCs SHOULD return an appropriate error code that indicates such.",
		Run:    draftAllCalls,
	},
	{
		Name: "draft/create", Req: "DRAFT-018 DRAFT-020 DRAFT-021 DRAFT-032", Level: Must,
		Clause: "This operation MUST be idempotent. If a bucket corresponding to the specified bucket `name` already exists and is compatible, the Plugin MUST reply `0 OK`.",
		Run:    draftCreate,
	},
	{
		Name: "draft/other-mode", Req: "DRAFT-019 DRAFT-032", Level: Must,
		Clause: "Bucket already exists but is incompatible: 6 ALREADY_EXISTS.",
		Run:    draftOtherMode,
	},
	{
		Name: "draft/unknown-mode", Req: "DRAFT-019", Level: Must,
		Clause: clauseInvalid,
		Run: draftRefuses(codes.InvalidArgument, func(name string) *draftpb.ProvisionerCreateBucketRequest {
			return &draftpb.ProvisionerCreateBucketRequest{BucketName: name, AnonymousBucketAccessMode: 9}
		}),
	},
	{
		Name: "draft/no-name", Req: "DRAFT-029 DRAFT-033", Level: Must,
		Clause: "Missing required field: 3 INVALID_ARGUMENT.",
		Run: draftRefuses(codes.InvalidArgument, func(string) *draftpb.ProvisionerCreateBucketRequest {
			return &draftpb.ProvisionerCreateBucketRequest{}
		}),
	},
	{
		Name: "draft/unknown-context", Req: "DRAFT-018 DRAFT-029", Level: Must,
		Clause: clauseInvalid,
		Run: draftRefuses(codes.InvalidArgument, func(name string) *draftpb.ProvisionerCreateBucketRequest {
			return &draftpb.ProvisionerCreateBucketRequest{BucketName: name, BucketContext: unknownMap}
		}),
	},
	{
		Name: "draft/region", Req: "DRAFT-034 DRAFT-036", Level: Must,
		Clause: "Unsupported 'region' and/or 'zone': 11 OUT_OF_RANGE.",
		Run: draftRefuses(codes.OutOfRange, func(name string) *draftpb.ProvisionerCreateBucketRequest {
			return &draftpb.ProvisionerCreateBucketRequest{BucketName: name, Region: "fl-check-nowhere"}
		}),
	},
	{
		Name: "draft/zone", Req: "DRAFT-035 DRAFT-036", Level: Must,
		Clause: "Unsupported 'region' and/or 'zone': 11 OUT_OF_RANGE.",
		Run: draftRefuses(codes.OutOfRange, func(name string) *draftpb.ProvisionerCreateBucketRequest {
			return &draftpb.ProvisionerCreateBucketRequest{BucketName: name, Zone: "fl-check-nowhere"}
		}),
	},
	{
		Name: "draft/field-six", Req: "DRAFT-018", Level: Must,
		Clause: "message ProvisionerCreateBucketRequest has five fields; the sixth of the second definition is an unknown field, and no error.",
		Run:    draftFieldSix,
	},
	{
		Name: "draft/grant", Req: "DRAFT-023 DRAFT-024 DRAFT-025 DRAFT-026 DRAFT-027", Level: Must,
		Clause: "principal: this is the account that is being provided access. This will be required later to revoke access.",
		Run:    draftGrant,
	},
	{
		Name: "draft/delete", Req: "DRAFT-021 DRAFT-022", Level: Must,
		Clause: "Idempotency requirements ensure that a retried call with the same fields continues where it left off when retried.",
		Run: func(t *T) {
			name := t.draftBucket()
			t.wantCode("delete", t.draftDelete(name), codes.OK)
			t.wantCode("second delete", t.draftDelete(name), codes.OK)
		},
	},
}

// draft calls one of the draft's methods; drivers without them are not asked.
func (t *T) draft(method string, req, reply proto.Message) error {
	if !t.cfg.Draft {
		t.Skipf("the driver is not said to serve the draft")
	}
	return t.conn.Invoke(t.ctx, provisioner+method, req, reply)
}

// draftCreated asks for a bucket and has it deleted at the end.
func (t *T) draftCreated(req *draftpb.ProvisionerCreateBucketRequest) error {
	err := t.draft("ProvisionerCreateBucket", req, &draftpb.ProvisionerCreateBucketResponse{})
	if err == nil {
		t.cleanup(func() { _ = t.patiently(func() error { return t.draftDelete(req.GetBucketName()) }) })
	}
	return err
}

func (t *T) draftDelete(name string) error {
	return t.draft("ProvisionerDeleteBucket", &draftpb.ProvisionerDeleteBucketRequest{BucketName: name}, &draftpb.ProvisionerDeleteBucketResponse{})
}

func (t *T) draftBucket() string {
	name := t.name()
	if err := t.draftCreated(&draftpb.ProvisionerCreateBucketRequest{BucketName: name}); err != nil {
		t.Fatalf("create bucket %s: answered %s", name, describe(err))
	}
	return name
}

// draftRefuses is a case's Run: the request for a new bucket is refused.
func draftRefuses(want codes.Code, request func(name string) *draftpb.ProvisionerCreateBucketRequest) func(*T) {
	return func(t *T) {
		t.wantCode("ProvisionerCreateBucket", t.draftCreated(request(t.name())), want)
	}
}

func draftInfo(t *T) {
	var resp draftpb.ProvisionerGetInfoResponse
	err := t.draft("ProvisionerGetInfo", &draftpb.ProvisionerGetInfoRequest{}, &resp)
	t.wantCode("ProvisionerGetInfo", err, codes.OK)
	if err == nil && resp.GetProvisionerIdentity() == "" {
		t.Errorf("ProvisionerGetInfo answered an empty identity")
	}
}

func draftAllCalls(t *T) {
	calls := []struct {
		method     string
		req, reply proto.Message
	}{
		{"ProvisionerGetInfo", &draftpb.ProvisionerGetInfoRequest{}, &draftpb.ProvisionerGetInfoResponse{}},
		{"ProvisionerCreateBucket", &draftpb.ProvisionerCreateBucketRequest{}, &draftpb.ProvisionerCreateBucketResponse{}},
		{"ProvisionerDeleteBucket", &draftpb.ProvisionerDeleteBucketRequest{}, &draftpb.ProvisionerDeleteBucketResponse{}},
		{"ProvisionerGrantBucketAccess", &draftpb.ProvisionerGrantBucketAccessRequest{}, &draftpb.ProvisionerGrantBucketAccessResponse{}},
		{"ProvisionerRevokeBucketAccess", &draftpb.ProvisionerRevokeBucketAccessRequest{}, &draftpb.ProvisionerRevokeBucketAccessResponse{}},
	}
	for _, c := range calls {
		if err := t.draft(c.method, c.req, c.reply); status.Code(err) == codes.Unimplemented {
			t.Errorf("%s: answered %s", c.method, describe(err))
		}
	}
	err := t.draft("ControllerGetCapabilities", &draftpb.ProvisionerGetInfoRequest{}, &draftpb.ProvisionerGetInfoResponse{})
	t.wantCode("ControllerGetCapabilities, which no text defines", err, codes.Unimplemented)
}

func draftCreate(t *T) {
	name := t.draftBucket()
	t.wantCode("second create", t.draftCreated(&draftpb.ProvisionerCreateBucketRequest{BucketName: name}), codes.OK)
}

func draftOtherMode(t *T) {
	name := t.draftBucket()
	err := t.draftCreated(&draftpb.ProvisionerCreateBucketRequest{
		BucketName: name, AnonymousBucketAccessMode: draftpb.ProvisionerCreateBucketRequest_BUCKET_READ_ONLY,
	})
	t.wantCode("create with another anonymous access mode", err, codes.AlreadyExists)
	t.wantCode("create as at first", t.draftCreated(&draftpb.ProvisionerCreateBucketRequest{BucketName: name}), codes.OK)
}

func draftFieldSix(t *T) {
	entry := protowire.AppendTag(nil, 1, protowire.BytesType)
	entry = protowire.AppendString(entry, "password")
	entry = protowire.AppendTag(entry, 2, protowire.BytesType)
	entry = protowire.AppendString(entry, "abc123")
	six := protowire.AppendTag(nil, 6, protowire.BytesType)
	six = protowire.AppendBytes(six, entry)

	req := &draftpb.ProvisionerCreateBucketRequest{BucketName: t.draftBucket()}
	req.ProtoReflect().SetUnknown(six)
	t.wantCode("create with field 6", t.draftCreated(req), codes.OK)
}

func draftGrant(t *T) {
	bucket, who := t.draftBucket(), t.name()
	grant := func() *draftpb.ProvisionerGrantBucketAccessResponse {
		var resp draftpb.ProvisionerGrantBucketAccessResponse
		req := &draftpb.ProvisionerGrantBucketAccessRequest{BucketName: bucket, Principal: who}
		if err := t.draft("ProvisionerGrantBucketAccess", req, &resp); err != nil {
			t.Fatalf("grant: answered %s", describe(err))
		}
		return &resp
	}
	first := grant()
	if first.GetPrincipal() == "" {
		t.Errorf("principal is empty, so the access can never be revoked")
	}
	if first.GetCredentialsFileContents() == "" && first.GetCredentialsFilePath() == "" {
		t.Errorf("credentials are empty")
	}
	if second := grant(); !proto.Equal(first, second) {
		t.Errorf("second grant: another principal or other credentials than at first")
	}
	revoke := &draftpb.ProvisionerRevokeBucketAccessRequest{BucketName: bucket, Principal: first.GetPrincipal()}
	for range 2 {
		err := t.draft("ProvisionerRevokeBucketAccess", revoke, &draftpb.ProvisionerRevokeBucketAccessResponse{})
		t.wantCode("revoke, twice", err, codes.OK)
	}
}
