package cosi

import (
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

// Full method names.
const (
	provisioner  = "/cosi.v1alpha1.Provisioner/"
	createMethod = provisioner + "DriverCreateBucket"
)

var endpointCases = []Case{
	{
		Name: "endpoint/socket", Req: "COSI-141 COSI-142 COSI-145", Level: Must,
		Clause: "Only UNIX Domain Sockets MAY be used as endpoints. Plugin components SHALL create, bind, and listen for RPCs on the specified listen address.",
		Run:    endpointSocket,
	},
	{
		Name: "endpoint/suffix", Req: "COSI-168 COSI-169", Level: Must,
		Clause: "All UNIX endpoints SHALL end with `.sock`.",
		Run: func(t *T) {
			if !strings.HasSuffix(t.socket, ".sock") {
				t.Errorf("endpoint %s does not end with .sock", t.cfg.Endpoint)
			}
		},
	},
	{
		Name: "endpoint/all-services", Req: "COSI-008 COSI-013 COSI-015 COSI-137 COSI-143", Level: Must,
		Clause: "All supported RPC services MUST be available at the listen address of the Plugin.",
		Run:    endpointAllServices,
	},
	{
		Name: "endpoint/unknown-method", Req: "COSI-014 COSI-107", Level: Must,
		Clause: "Call not implemented: 12 UNIMPLEMENTED. The invoked RPC is not implemented by the Plugin.",
		Run:    endpointUnknownMethod,
	},
	{
		Name: "endpoint/unknown-fields", Req: "COSI-138", Level: Must,
		Clause: "proto3 SHOULD be used with gRPC: a field that the receiver does not know is no error.",
		Run:    endpointUnknownFields,
	},
	{
		Name: "endpoint/garbage", Req: "COSI-092", Level: Must,
		Clause: "All COSI API calls defined in this spec MUST return a standard gRPC status.",
		Run:    endpointGarbage,
	},
	{
		Name: "endpoint/nothing-beside", Req: "COSI-156", Level: Must,
		Clause: "Plugins SHALL NOT create additional files or directories adjacent to the UNIX socket specified by `COSI_ENDPOINT`.",
		Run:    endpointNothingBeside,
	},
}

func endpointSocket(t *T) {
	info, err := os.Lstat(t.socket)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if info.Mode().Type() != os.ModeSocket {
		t.Errorf("%s is no socket but %s", t.socket, info.Mode())
	}
}

// endpointAllServices sends each call without its required fields: a driver
// that serves the call refuses that with another code.
func endpointAllServices(t *T) {
	t.alive("the connection")
	for _, err := range []error{
		t.send(&createRequest{}), t.send(&deleteRequest{}), t.send(&grantRequest{}), t.send(&revokeRequest{}),
	} {
		if status.Code(err) == codes.Unimplemented {
			t.Errorf("answered %s", describe(err))
		}
	}
}

func endpointUnknownMethod(t *T) {
	for _, method := range []string{provisioner + "DriverNoSuchCall", "/cosi.v1alpha1.Identity/DriverNoSuchCall", "/cosi.v1alpha1.NoSuchService/Call"} {
		err := t.conn.Invoke(t.ctx, method, &cosipb.DriverGetInfoRequest{}, &cosipb.DriverGetInfoResponse{})
		t.wantCode(method, err, codes.Unimplemented)
	}
}

func endpointUnknownFields(t *T) {
	unknown := protowire.AppendTag(nil, 1234, protowire.BytesType)
	unknown = protowire.AppendString(unknown, "from a later version")
	info := &cosipb.DriverGetInfoRequest{}
	info.ProtoReflect().SetUnknown(unknown)
	_, err := t.Identity.DriverGetInfo(t.ctx, info)
	t.wantCode("DriverGetInfo", err, codes.OK)

	b := t.bucket()
	again := &createRequest{Name: b.Name, Parameters: t.cfg.BucketParameters}
	again.ProtoReflect().SetUnknown(unknown)
	resp, err := t.Provisioner.DriverCreateBucket(t.ctx, again)
	t.wantCode("DriverCreateBucket", err, codes.OK)
	if err == nil && resp.GetBucketId() != b.ID {
		t.Errorf("bucket_id is %q, with an unknown field %q", b.ID, resp.GetBucketId())
	}
}

// raw is a codec that sends bytes as they are and drops what is answered.
type raw struct{}

func (raw) Name() string { return "proto" }
func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (raw) Unmarshal(mem.BufferSlice, any) error { return nil }

var _ encoding.CodecV2 = raw{}

func endpointGarbage(t *T) {
	for _, text := range []string{
		"\xff\xff\xff\xff",             // no tag
		"\x0a\x05ab",                   // a name of 5 bytes that has 2
		"\x0a\x02\xff\xfe",             // a name that is no UTF-8
		"\x12\xff\xff\xff\xff\x7f",     // a map of 32 GiB
		"\x08\x01",                     // a name that is a number: an unknown field, so no name
		strings.Repeat("\x0b", 100000), // groups without an end
	} {
		if err := t.conn.Invoke(t.ctx, createMethod, []byte(text), nil, grpc.ForceCodecV2(raw{})); err == nil {
			t.Errorf("create of %.20q: answered OK", text)
		}
	}
	t.alive("garbage")
}

func endpointNothingBeside(t *T) {
	if !t.cfg.DedicatedDir {
		t.Skipf("the socket's directory may hold other people's files; set DedicatedDir if not")
	}
	entries, err := os.ReadDir(filepath.Dir(t.socket))
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, e := range entries {
		if e.Name() != filepath.Base(t.socket) {
			t.Errorf("%s stands beside the socket", filepath.Join(filepath.Dir(t.socket), e.Name()))
		}
	}
}
