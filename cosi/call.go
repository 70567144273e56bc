package cosi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/cosi/draftpb"
	"github.com/fairlead/fairlead/internal/plugin"
)

// rpc is one method that [CallJSON] can call.
type rpc struct {
	method  string // full method name
	in, out proto.Message
}

// short is the name as [RPCs] lists it: "Provisioner.DriverCreateBucket".
func (r rpc) short() string {
	service, method, _ := strings.Cut(strings.TrimPrefix(r.method, "/cosi.v1alpha1."), "/")
	return service + "." + method
}

var rpcs = []rpc{
	{cosipb.Identity_DriverGetInfo_FullMethodName, &cosipb.DriverGetInfoRequest{}, &cosipb.DriverGetInfoResponse{}},
	{cosipb.Provisioner_DriverCreateBucket_FullMethodName, &cosipb.DriverCreateBucketRequest{}, &cosipb.DriverCreateBucketResponse{}},
	{cosipb.Provisioner_DriverDeleteBucket_FullMethodName, &cosipb.DriverDeleteBucketRequest{}, &cosipb.DriverDeleteBucketResponse{}},
	{cosipb.Provisioner_DriverGrantBucketAccess_FullMethodName, &cosipb.DriverGrantBucketAccessRequest{}, &cosipb.DriverGrantBucketAccessResponse{}},
	{cosipb.Provisioner_DriverRevokeBucketAccess_FullMethodName, &cosipb.DriverRevokeBucketAccessRequest{}, &cosipb.DriverRevokeBucketAccessResponse{}},
	{draftGetInfo, &draftpb.ProvisionerGetInfoRequest{}, &draftpb.ProvisionerGetInfoResponse{}},
	{draftCreateBucket, &draftpb.ProvisionerCreateBucketRequest{}, &draftpb.ProvisionerCreateBucketResponse{}},
	{draftDeleteBucket, &draftpb.ProvisionerDeleteBucketRequest{}, &draftpb.ProvisionerDeleteBucketResponse{}},
	{draftGrantAccess, &draftpb.ProvisionerGrantBucketAccessRequest{}, &draftpb.ProvisionerGrantBucketAccessResponse{}},
	{draftRevokeAccess, &draftpb.ProvisionerRevokeBucketAccessRequest{}, &draftpb.ProvisionerRevokeBucketAccessResponse{}},
}

// RPCs lists what [CallJSON] can call, such as "Identity.DriverGetInfo": the
// methods of v1alpha1, then the draft's.
func RPCs() []string {
	names := make([]string, len(rpcs))
	for i, r := range rpcs {
		names[i] = r.short()
	}
	return names
}

// CallJSON makes one attempt of one call to the plugin at endpoint, to drive it
// by hand: rpc is "DriverGetInfo", "Identity.DriverGetInfo" or the full gRPC
// name; in is the request as protobuf JSON (empty means an empty request) and
// out the answer, indented. Nothing is checked or retried: what a plugin says
// to a wrong request is often the question.
//
// The answer shows its secrets, credentials too, since the person asked for
// them: print it for that person and nowhere else.
//
// Errors are gRPC status errors; INVALID_ARGUMENT without a call for an unknown
// rpc (the known ones are listed) or malformed JSON (line and column are named).
func CallJSON(ctx context.Context, endpoint, rpc string, in []byte) (out []byte, err error) {
	path, err := plugin.ParseEndpoint(endpoint)
	if err != nil {
		return nil, invalidArgument("call COSI plugin: %w", err)
	}
	r, err := findRPC(rpc)
	if err != nil {
		return nil, err
	}
	request, answer := proto.Clone(r.in), proto.Clone(r.out)
	if len(bytes.TrimSpace(in)) > 0 {
		if err := protojson.Unmarshal(in, request); err != nil {
			return nil, explainJSON(request, err)
		}
	}
	c := newClient(path, nil)
	defer func() { _ = c.Close() }()
	conn, err := c.dialOnce(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.Invoke(ctx, r.method, request, answer); err != nil {
		return nil, err
	}
	raw, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(answer)
	if err != nil {
		return nil, &statusError{codes.Internal, fmt.Sprintf("write answer to %s as JSON: %v", r.short(), err), err}
	}
	// protojson varies its spaces on purpose; a program reads ours.
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("indent answer to %s: %w", r.short(), err)
	}
	return b.Bytes(), nil
}

func findRPC(name string) (rpc, error) {
	i := slices.IndexFunc(rpcs, func(r rpc) bool {
		return name == r.short() || name == methodName(r.method) || name == r.method || "/"+name == r.method
	})
	if i < 0 {
		return rpc{}, invalidArgument("unknown RPC %q; known are %s", name, strings.Join(RPCs(), ", "))
	}
	return rpcs[i], nil
}

// jsonPlace is how protojson says where: "(line 1:2): what".
var jsonPlace = regexp.MustCompile(`\(line (\d+):(\d+)\): (.*)`)

func explainJSON(m proto.Message, err error) error {
	name := m.ProtoReflect().Descriptor().Name()
	if p := jsonPlace.FindStringSubmatch(err.Error()); p != nil {
		return invalidArgument("request is no JSON of %s: line %s, column %s: %s", name, p[1], p[2], p[3])
	}
	// protojson varies the space after "proto:" on purpose.
	text := strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
	return invalidArgument("request is no JSON of %s: %s", name, text)
}
