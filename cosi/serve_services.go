package cosi

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/internal/plugin"
)

// provisioner answers both services, of v1alpha1 and of the draft, from one
// driver. Checks, locks and errors are the guard's business.
type provisioner struct {
	cosipb.UnimplementedIdentityServer
	cosipb.UnimplementedProvisionerServer
	name   string
	driver Driver
	names  bucketNames
}

func newProvisioner(name string, d Driver) *provisioner {
	return &provisioner{name: name, driver: d}
}

// register serves everything at one address (COSI-143). v1alpha1 and the draft
// give one service name two sets of methods, so the service is described by
// hand as the sum of both.
func (p *provisioner) register(r grpc.ServiceRegistrar) {
	both := cosipb.Provisioner_ServiceDesc
	both.Methods = slices.Concat(both.Methods, draftMethods)
	r.RegisterService(plugin.BlameCaller(cosipb.Identity_ServiceDesc), p)
	r.RegisterService(plugin.BlameCaller(both), p)
}

// object names the bucket that a request is about: at most one call per bucket
// is in flight (COSI-104, COSI-105). A bucket is created by its name and later
// called by its id, so that an id counts as the name it was given for.
func (p *provisioner) object(req proto.Message) (kind, name string) {
	switch r := req.(type) {
	case *cosipb.DriverCreateBucketRequest:
		return "bucket", r.GetName()
	case interface{ GetBucketId() string }:
		return "bucket", p.names.ofID(r.GetBucketId())
	case interface{ GetBucketName() string }:
		return "bucket", r.GetBucketName()
	}
	return "", ""
}

func (p *provisioner) DriverGetInfo(context.Context, *cosipb.DriverGetInfoRequest) (*cosipb.DriverGetInfoResponse, error) {
	return &cosipb.DriverGetInfoResponse{Name: p.name}, nil
}

func (p *provisioner) DriverCreateBucket(ctx context.Context, req *cosipb.DriverCreateBucketRequest) (*cosipb.DriverCreateBucketResponse, error) {
	resp, err := p.driver.DriverCreateBucket(ctx, req)
	if err == nil {
		p.names.learn(req.GetName(), resp.GetBucketId())
	}
	return resp, err
}

func (p *provisioner) DriverDeleteBucket(ctx context.Context, req *cosipb.DriverDeleteBucketRequest) (*cosipb.DriverDeleteBucketResponse, error) {
	resp, err := p.driver.DriverDeleteBucket(ctx, req)
	if err == nil {
		p.names.forget(req.GetBucketId())
	}
	return resp, err
}

func (p *provisioner) DriverGrantBucketAccess(ctx context.Context, req *cosipb.DriverGrantBucketAccessRequest) (*cosipb.DriverGrantBucketAccessResponse, error) {
	return p.driver.DriverGrantBucketAccess(ctx, req)
}

func (p *provisioner) DriverRevokeBucketAccess(ctx context.Context, req *cosipb.DriverRevokeBucketAccessRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
	return p.driver.DriverRevokeBucketAccess(ctx, req)
}

// bucketNames remembers the names of buckets whose driver gave them another
// id; with a driver whose ids are the names it stays empty. It serves the
// locks only, so it may start empty: after a restart, and until a create call
// or a call of the draft has shown name and id together, a call by name and a
// call by id to one such bucket are not known to be about the same one.
type bucketNames struct {
	mu   sync.Mutex
	byID map[string]string
}

func (n *bucketNames) learn(name, id string) {
	if name == id || id == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byID == nil {
		n.byID = map[string]string{}
	}
	n.byID[id] = name
}

func (n *bucketNames) ofID(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, ok := n.byID[id]; ok {
		return name
	}
	return id
}

func (n *bucketNames) forget(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.byID, id)
}
