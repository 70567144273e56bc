package keeper

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/draftpb"
	"github.com/fairlead/fairlead/internal/claim"
)

// draftDriver is a driver that knows the older draft only. It answers on a
// real socket and remembers where it was told each bucket is.
type draftDriver struct {
	mu     sync.Mutex
	places map[string]string // by method: region/zone
}

func (d *draftDriver) place(method, region, zone string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.places[method] = region + "/" + zone
}

func (d *draftDriver) answer(_ any, stream grpc.ServerStream) error {
	full, _ := grpc.MethodFromServerStream(stream)
	method := filepath.Base(full)
	recv := func(m proto.Message) bool { return stream.RecvMsg(m) == nil }
	var create draftpb.ProvisionerCreateBucketRequest
	var del draftpb.ProvisionerDeleteBucketRequest
	var grant draftpb.ProvisionerGrantBucketAccessRequest
	var revoke draftpb.ProvisionerRevokeBucketAccessRequest
	switch {
	case method == "ProvisionerGetInfo" && recv(&draftpb.ProvisionerGetInfoRequest{}):
		return stream.SendMsg(&draftpb.ProvisionerGetInfoResponse{ProvisionerIdentity: "draft.example.com"})
	case method == "ProvisionerCreateBucket" && recv(&create):
		d.place("create", create.GetRegion(), create.GetZone())
		return stream.SendMsg(&draftpb.ProvisionerCreateBucketResponse{})
	case method == "ProvisionerDeleteBucket" && recv(&del):
		d.place("delete", del.GetRegion(), del.GetZone())
		return stream.SendMsg(&draftpb.ProvisionerDeleteBucketResponse{})
	case method == "ProvisionerGrantBucketAccess" && recv(&grant):
		d.place("grant", grant.GetRegion(), grant.GetZone())
		return stream.SendMsg(&draftpb.ProvisionerGrantBucketAccessResponse{
			Principal:               "acc",
			CredentialsFileContents: `{"endpoint":"http://127.0.0.1:1","region":"eu","accessKeyID":"AK","accessSecretKey":"SK"}`,
		})
	case method == "ProvisionerRevokeBucketAccess" && recv(&revoke):
		d.place("revoke", revoke.GetRegion(), revoke.GetZone())
		return stream.SendMsg(&draftpb.ProvisionerRevokeBucketAccessResponse{})
	}
	return status.Errorf(codes.Unimplemented, "unknown method %s", method)
}

// A bucket of the draft is its name, region and zone: all calls must say them.
//
// Req: DRAFT-020, DRAFT-025, DRAFT-034, DRAFT-035
func TestDraftDriverIsToldThePlaceEveryTime(t *testing.T) {
	d := &draftDriver{places: map[string]string{}}
	socket := filepath.Join(shortDir(t), "v.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(d.answer))
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	h := newHost(t)
	k := h.open(t, "unix://"+socket)
	mustClaim(t, k, claim.Request{Name: "photos", Parameters: map[string]string{"region": "eu", "zone": "b"}})
	if got := h.keyOnDisk(t, "photos"); got != "SK" {
		t.Errorf("key %q", got)
	}
	yes := true
	if err := k.Release("photos", claim.ReleaseRequest{DeleteData: &yes}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.WaitGone(soon(t), "photos"); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, method := range []string{"create", "grant", "revoke", "delete"} {
		if d.places[method] != "eu/b" {
			t.Errorf("%s was told %q", method, d.places[method])
		}
	}
	if _, err := os.Stat(filepath.Join(h.creds, "photos")); !os.IsNotExist(err) {
		t.Error(err)
	}
}
