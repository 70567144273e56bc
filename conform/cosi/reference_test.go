package cosi

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/cosi/draftpb"
)

// reference is a correct driver of a store in memory, written from the
// specification and with none of this project's driver code: what the suite is
// measured with. Its calls are fields, so that a test can break one of them.
type reference struct {
	cosipb.UnimplementedIdentityServer
	cosipb.UnimplementedProvisionerServer

	info     func() (*cosipb.DriverGetInfoResponse, error)
	create   func(*createRequest) (*cosipb.DriverCreateBucketResponse, error)
	delete   func(*deleteRequest) (*cosipb.DriverDeleteBucketResponse, error)
	grant    func(*grantRequest) (*cosipb.DriverGrantBucketAccessResponse, error)
	revoke   func(*revokeRequest) (*cosipb.DriverRevokeBucketAccessResponse, error)
	validate func(proto.Message) error
	region   func(region, zone string) error                                  // of the draft
	handle   func(ctx context.Context, call func() (any, error)) (any, error) // around every call
	allow    func(known bool, g grantee, a Access) bool                       // the store's own check of a key
	options  []grpc.ServerOption
	beside   string // a file to make beside the socket

	stop func()        // ends the driver
	met  chan struct{} // calls under way find each other here

	mu      sync.Mutex
	buckets map[string]map[string]string // parameters by bucket
	grants  map[string]grantee           // by account id
	objects map[string][]byte            // by bucket and object
}

type grantee struct {
	bucket     string
	parameters map[string]string
	secret     string
}

func newReference() *reference {
	r := &reference{met: make(chan struct{})}
	r.forget()
	r.info = func() (*cosipb.DriverGetInfoResponse, error) {
		return &cosipb.DriverGetInfoResponse{Name: "reference.fairlead.dev"}, nil
	}
	r.create, r.delete, r.grant, r.revoke = r.goodCreate, r.goodDelete, r.goodGrant, r.goodRevoke
	r.validate = validate
	r.region = func(region, zone string) error {
		if region != "" || zone != "" {
			return status.Errorf(codes.OutOfRange, "no region %q, zone %q", region, zone)
		}
		return nil
	}
	r.allow = func(known bool, g grantee, a Access) bool {
		return known && g.bucket == a.BucketID && g.secret == a.Credentials["s3"]["accessSecretKey"]
	}
	r.handle = func(_ context.Context, call func() (any, error)) (any, error) { return call() }
	return r
}

func (r *reference) forget() {
	r.buckets, r.grants, r.objects = map[string]map[string]string{}, map[string]grantee{}, map[string][]byte{}
}

// meet lets calls that are under way at once overlap for sure: it returns when
// another call is here too, or when none comes.
func (r *reference) meet() {
	select {
	case r.met <- struct{}{}:
	case <-r.met:
	case <-time.After(time.Millisecond):
	}
}

func (r *reference) DriverGetInfo(context.Context, *cosipb.DriverGetInfoRequest) (*cosipb.DriverGetInfoResponse, error) {
	return r.info()
}

func (r *reference) DriverCreateBucket(_ context.Context, req *createRequest) (*cosipb.DriverCreateBucketResponse, error) {
	return r.create(req)
}

func (r *reference) DriverDeleteBucket(_ context.Context, req *deleteRequest) (*cosipb.DriverDeleteBucketResponse, error) {
	return r.delete(req)
}

func (r *reference) DriverGrantBucketAccess(_ context.Context, req *grantRequest) (*cosipb.DriverGrantBucketAccessResponse, error) {
	return r.grant(req)
}

func (r *reference) DriverRevokeBucketAccess(_ context.Context, req *revokeRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
	return r.revoke(req)
}

func refuse(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// validate checks what can be seen from the request alone.
func validate(req proto.Message) error {
	texts, parameters := map[string]string{}, map[string]string{}
	known := map[string]bool{}
	switch req := req.(type) {
	case *createRequest:
		texts["name"], parameters, known["mode"] = req.GetName(), req.GetParameters(), true
		known["place"] = true
	case *deleteRequest:
		texts["bucket_id"], parameters = req.GetBucketId(), req.GetDeleteContext()
	case *grantRequest:
		texts["bucket_id"], texts["name"], parameters, known["mode"] = req.GetBucketId(), req.GetName(), req.GetParameters(), true
		if req.GetAuthenticationType() != key {
			return refuse("authentication_type %v is not KEY", req.GetAuthenticationType())
		}
	case *revokeRequest:
		texts["bucket_id"], texts["account_id"], parameters = req.GetBucketId(), req.GetAccountId(), req.GetRevokeAccessContext()
	}
	for field, text := range texts {
		if text == "" || len(text) > maxString {
			return refuse("%s has %d bytes, not 1 to %d", field, len(text), maxString)
		}
	}
	size := 0
	for k, v := range parameters {
		if size += len(k) + len(v); size > maxMap {
			return refuse("map has more than %d bytes", maxMap)
		}
	}
	for k, v := range parameters {
		switch {
		case !known[k]:
			return refuse("unknown parameter %q", k)
		case k == "mode" && v != "one" && v != "two":
			return refuse("%s: %q is neither one nor two", k, v)
		case k == "place":
			return status.Errorf(codes.OutOfRange, "%s: nothing can be made at %q", k, v)
		}
	}
	return nil
}

var bucketName = regexp.MustCompile(`^[a-z0-9-]{3,63}$`)

func (r *reference) goodCreate(req *createRequest) (*cosipb.DriverCreateBucketResponse, error) {
	if err := r.validate(req); err != nil {
		return nil, err
	}
	if !bucketName.MatchString(req.GetName()) {
		return nil, refuse("bad bucket name %q", req.GetName())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if have, ok := r.buckets[req.GetName()]; ok && !maps.Equal(have, req.GetParameters()) {
		return nil, status.Error(codes.AlreadyExists, "bucket exists with other parameters")
	}
	r.buckets[req.GetName()] = req.GetParameters()
	return &cosipb.DriverCreateBucketResponse{
		BucketId:   req.GetName(),
		BucketInfo: &cosipb.Protocol{Type: &cosipb.Protocol_S3{S3: &cosipb.S3{Region: "here", SignatureVersion: cosipb.S3SignatureVersion_S3V4}}},
	}, nil
}

func (r *reference) goodDelete(req *deleteRequest) (*cosipb.DriverDeleteBucketResponse, error) {
	if err := r.validate(req); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.objects {
		if filepath.Dir(filepath.Dir(name)) == req.GetBucketId() {
			return nil, status.Error(codes.FailedPrecondition, "bucket is not empty")
		}
	}
	delete(r.buckets, req.GetBucketId())
	for account, g := range r.grants {
		if g.bucket == req.GetBucketId() {
			delete(r.grants, account)
		}
	}
	return &cosipb.DriverDeleteBucketResponse{}, nil
}

func (r *reference) goodGrant(req *grantRequest) (*cosipb.DriverGrantBucketAccessResponse, error) {
	if err := r.validate(req); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.buckets[req.GetBucketId()]; !ok {
		return nil, status.Errorf(codes.NotFound, "no bucket %q", req.GetBucketId())
	}
	account := fmt.Sprintf("%.16x", sha256.Sum256([]byte(req.GetBucketId()+"/"+req.GetName())))
	g, ok := r.grants[account]
	if ok && !maps.Equal(g.parameters, req.GetParameters()) {
		return nil, status.Error(codes.AlreadyExists, "access exists with other parameters")
	}
	if !ok {
		g = grantee{bucket: req.GetBucketId(), parameters: req.GetParameters(), secret: rand.Text()}
		r.grants[account] = g
	}
	return granted(account, g.secret), nil
}

func granted(account, secret string) *cosipb.DriverGrantBucketAccessResponse {
	return &cosipb.DriverGrantBucketAccessResponse{
		AccountId:   account,
		Credentials: map[string]*cosipb.CredentialDetails{"s3": {Secrets: map[string]string{"accessKeyID": account, "accessSecretKey": secret}}},
	}
}

func (r *reference) goodRevoke(req *revokeRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
	if err := r.validate(req); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grants[req.GetAccountId()].bucket == req.GetBucketId() {
		delete(r.grants, req.GetAccountId())
	}
	return &cosipb.DriverRevokeBucketAccessResponse{}, nil
}

// allowed asks the store whether it takes the key.
func (r *reference) allowed(a Access) error {
	g, known := r.grants[a.Credentials["s3"]["accessKeyID"]]
	if !r.allow(known, g, a) {
		return ErrRefused
	}
	return nil
}

func (r *reference) Put(_ context.Context, a Access, object string, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.allowed(a); err != nil {
		return err
	}
	r.objects[a.BucketID+"/"+object] = data
	return nil
}

func (r *reference) Get(_ context.Context, a Access, object string) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.objects[a.BucketID+"/"+object], r.allowed(a)
}

func (r *reference) Remove(_ context.Context, a Access, object string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.objects, a.BucketID+"/"+object)
	return nil
}

// draft is the older draft's method of that name, on the same store.
func (r *reference) draft(method string, req proto.Message) (proto.Message, error) {
	switch req := req.(type) {
	case *draftpb.ProvisionerGetInfoRequest:
		info, err := r.info()
		return &draftpb.ProvisionerGetInfoResponse{ProvisionerIdentity: info.GetName()}, err
	case *draftpb.ProvisionerCreateBucketRequest:
		parameters := maps.Clone(req.GetBucketContext())
		if mode := req.GetAnonymousBucketAccessMode(); mode > 3 {
			return nil, refuse("unknown mode %d", mode)
		} else if mode > 0 {
			parameters = map[string]string{"mode": "two"}
		}
		if err := r.region(req.GetRegion(), req.GetZone()); err != nil {
			return nil, err
		}
		_, err := r.create(&createRequest{Name: req.GetBucketName(), Parameters: parameters})
		return &draftpb.ProvisionerCreateBucketResponse{}, err
	case *draftpb.ProvisionerDeleteBucketRequest:
		_, err := r.delete(&deleteRequest{BucketId: req.GetBucketName(), DeleteContext: req.GetBucketContext()})
		return &draftpb.ProvisionerDeleteBucketResponse{}, err
	case *draftpb.ProvisionerGrantBucketAccessRequest:
		resp, err := r.grant(&grantRequest{BucketId: req.GetBucketName(), Name: req.GetPrincipal(), AuthenticationType: key, Parameters: req.GetBucketContext()})
		return &draftpb.ProvisionerGrantBucketAccessResponse{
			Principal: resp.GetAccountId(), CredentialsFileContents: resp.GetCredentials()["s3"].GetSecrets()["accessSecretKey"],
		}, err
	case *draftpb.ProvisionerRevokeBucketAccessRequest:
		_, err := r.revoke(&revokeRequest{BucketId: req.GetBucketName(), AccountId: req.GetPrincipal(), RevokeAccessContext: req.GetBucketContext()})
		return &draftpb.ProvisionerRevokeBucketAccessResponse{}, err
	}
	return nil, status.Errorf(codes.Unimplemented, "no method %s", method)
}

// service is the Provisioner with the draft's methods beside its own.
func (r *reference) service() *grpc.ServiceDesc {
	desc := cosipb.Provisioner_ServiceDesc
	for name, req := range map[string]proto.Message{
		"ProvisionerGetInfo":            &draftpb.ProvisionerGetInfoRequest{},
		"ProvisionerCreateBucket":       &draftpb.ProvisionerCreateBucketRequest{},
		"ProvisionerDeleteBucket":       &draftpb.ProvisionerDeleteBucketRequest{},
		"ProvisionerGrantBucketAccess":  &draftpb.ProvisionerGrantBucketAccessRequest{},
		"ProvisionerRevokeBucketAccess": &draftpb.ProvisionerRevokeBucketAccessRequest{},
	} {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{
			MethodName: name,
			Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				req := proto.Clone(req)
				if err := decode(req); err != nil {
					return nil, err
				}
				return r.handle(ctx, func() (any, error) { return r.draft(name, req) })
			},
		})
	}
	return &desc
}

// serve starts the driver on the socket, until stop is called.
func (r *reference) serve(t testing.TB, socket string) {
	t.Helper()
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	if r.beside != "" {
		if err := os.WriteFile(filepath.Join(filepath.Dir(socket), r.beside), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	around := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		return r.handle(ctx, func() (any, error) { return next(ctx, req) })
	}
	server := grpc.NewServer(append(r.options, grpc.UnaryInterceptor(around))...)
	cosipb.RegisterIdentityServer(server, r)
	server.RegisterService(r.service(), r)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(lis)
	}()
	r.stop = func() {
		server.Stop()
		<-done
	}
}

// config serves the driver until the test ends, and says all there is to say
// of it, so that no case is skipped.
func (r *reference) config(t testing.TB) Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "cosi.sock")
	r.serve(t, socket)
	t.Cleanup(func() {
		r.stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return Config{
		Endpoint:                    "unix://" + socket,
		BucketParameters:            nil,
		OtherBucketParameters:       map[string]string{"mode": "two"},
		MalformedBucketParameters:   map[string]string{"mode": "neither"},
		UnsupportedBucketParameters: map[string]string{"place": "moon"},
		BadBucketNames:              []string{"../x", "UPPER", "a", "with space"},
		AccessParameters:            map[string]string{"mode": "one"},
		OtherAccessParameters:       map[string]string{"mode": "two"},
		Probe:                       r,
		Restart: func(context.Context) error {
			r.stop()
			r.serve(t, socket)
			return nil
		},
		DedicatedDir: true,
		Draft:        true,
	}
}
