package keeper

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/device"
	"github.com/fairlead/fairlead/internal/ledger"
	"github.com/fairlead/fairlead/internal/seal"
)

// vendor is a COSI driver in memory, served on a real socket. It counts what it
// has made, so that a test sees what leaked or was made twice. Knobs make it
// behave badly.
type vendor struct {
	endpoint string

	mu       sync.Mutex
	buckets  map[string]map[string]string  // parameters by id
	accounts map[string]map[string]account // by bucket id and account id
	keys     int                           // ever made
	calls    map[string]int
	forced   bool                    // the last delete was forced
	full     bool                    // buckets are not empty
	stray    bool                    // a repeated grant makes a second account
	fail     func(call string) error // asked before each call
	region   string                  // part of the credentials
}

type account struct {
	name, key  string
	parameters map[string]string
}

func (v *vendor) begin(call string) error {
	v.calls[call]++
	if v.fail != nil {
		return v.fail(call)
	}
	return nil
}

func (v *vendor) DriverCreateBucket(_ context.Context, r *cosipb.DriverCreateBucketRequest) (*cosipb.DriverCreateBucketResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.begin("create"); err != nil {
		return nil, err
	}
	id := "id-" + r.GetName()
	if have, ok := v.buckets[id]; ok && !maps.Equal(have, r.GetParameters()) {
		return nil, status.Error(codes.AlreadyExists, "other parameters")
	}
	v.buckets[id] = r.GetParameters()
	return &cosipb.DriverCreateBucketResponse{BucketId: id, BucketInfo: &cosipb.Protocol{Type: &cosipb.Protocol_S3{S3: &cosipb.S3{Region: "r", SignatureVersion: cosipb.S3SignatureVersion_S3V4}}}}, nil
}

func (v *vendor) DriverDeleteBucket(_ context.Context, r *cosipb.DriverDeleteBucketRequest) (*cosipb.DriverDeleteBucketResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.begin("delete"); err != nil {
		return nil, err
	}
	v.forced = r.GetDeleteContext()["force"] == "true"
	if v.full && !v.forced {
		return nil, status.Error(codes.FailedPrecondition, "the bucket holds 3 objects")
	}
	delete(v.buckets, r.GetBucketId())
	return &cosipb.DriverDeleteBucketResponse{}, nil
}

func (v *vendor) DriverGrantBucketAccess(_ context.Context, r *cosipb.DriverGrantBucketAccessRequest) (*cosipb.DriverGrantBucketAccessResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.begin("grant"); err != nil {
		return nil, err
	}
	if _, ok := v.buckets[r.GetBucketId()]; !ok {
		return nil, status.Errorf(codes.NotFound, "no bucket %s", r.GetBucketId())
	}
	if r.GetParameters()["mode"] == "WriteOnly" {
		return nil, status.Error(codes.InvalidArgument, "this driver knows no WriteOnly")
	}
	accounts := v.accounts[r.GetBucketId()]
	if accounts == nil {
		accounts = map[string]account{}
		v.accounts[r.GetBucketId()] = accounts
	}
	id := "acc-" + r.GetName()
	if v.stray {
		id += "-again"
	}
	a, ok := accounts[id]
	if !ok {
		v.keys++
		a = account{name: r.GetName(), key: fmt.Sprintf("secret-key-%d", v.keys), parameters: r.GetParameters()}
		accounts[id] = a
	} else if !maps.Equal(a.parameters, r.GetParameters()) {
		return nil, status.Error(codes.AlreadyExists, "other parameters")
	}
	return &cosipb.DriverGrantBucketAccessResponse{AccountId: id, Credentials: map[string]*cosipb.CredentialDetails{"s3": {Secrets: map[string]string{
		"endpoint": "http://127.0.0.1:1", "region": v.region, "accessKeyID": id, "accessSecretKey": a.key,
	}}}}, nil
}

func (v *vendor) DriverRevokeBucketAccess(_ context.Context, r *cosipb.DriverRevokeBucketAccessRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.begin("revoke"); err != nil {
		return nil, err
	}
	delete(v.accounts[r.GetBucketId()], r.GetAccountId())
	return &cosipb.DriverRevokeBucketAccessResponse{}, nil
}

// serveVendor serves a new vendor driver until the test ends.
func serveVendor(t testing.TB) *vendor {
	t.Helper()
	dir := shortDir(t)
	v := &vendor{endpoint: "unix://" + dir + "/v.sock", buckets: map[string]map[string]string{}, accounts: map[string]map[string]account{}, calls: map[string]int{}, region: "r"}
	v.serve(t)
	return v
}

func (v *vendor) serve(t testing.TB) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- cosi.Serve(ctx, "vendor.example.com", v, cosi.WithEndpoint(v.endpoint), cosi.WithLogger(slog.New(slog.DiscardHandler)))
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("vendor: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func (v *vendor) set(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
}

// shortDir is a directory on tmpfs whose path is short enough for sockets.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// host is the directories of a keeper, which outlive it.
type host struct {
	state, creds, cdi, sockets string
	clock                      func() time.Time
	builtIn                    bool   // the driver counts as our own
	root                       string // where devices are looked for; empty is this host
}

func newHost(t testing.TB) *host {
	dir := shortDir(t)
	h := &host{state: t.TempDir(), creds: dir + "/creds", cdi: dir + "/cdi", sockets: dir + "/d"}
	for _, d := range []string{h.creds, h.cdi, h.sockets} {
		if err := os.Mkdir(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// open opens a keeper with a driver named "vendor", which the default class
// uses.
func (h *host) open(t testing.TB, endpoint string) *Keeper {
	t.Helper()
	k, closeAll := h.start(t, endpoint)
	t.Cleanup(closeAll)
	return k
}

func (h *host) start(t testing.TB, endpoint string) (k *Keeper, closeAll func()) {
	t.Helper()
	led, err := ledger.Open(h.state, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	key, err := seal.Open(filepath.Join(h.state, "host.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		led.PutDriver(claim.Driver{Name: "vendor", Endpoint: endpoint, BuiltIn: h.builtIn}),
		led.PutBucketClass(claim.BucketClass{Name: claim.DefaultName, Driver: "vendor", DeletionPolicy: claim.Retain}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	k, err = Open(Config{
		Ledger: led, Key: key, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		CredsDir: h.creds, CDIDir: h.cdi, SocketDir: h.sockets, Now: h.clock, Devices: device.Host{Root: h.root},
	})
	if err != nil {
		t.Fatal(err)
	}
	return k, sync.OnceFunc(func() {
		k.Close()
		if err := led.Close(); err != nil {
			t.Error(err)
		}
	})
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func mustClaim(t testing.TB, k *Keeper, req claim.Request) claim.Claim {
	t.Helper()
	if _, err := k.Claim(req); err != nil {
		t.Fatal(err)
	}
	access := claim.DefaultName
	if req.NoAccess || req.Kind == claim.KindDevice {
		access = ""
	}
	c, err := k.Wait(soon(t), req.Name, access)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// keyOnDisk is the secret that an application reads.
func (h *host) keyOnDisk(t testing.TB, device string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(h.creds, device, "AWS_SECRET_ACCESS_KEY"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
