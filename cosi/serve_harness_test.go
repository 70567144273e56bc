package cosi_test

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/cosi/cosipb"
)

// store is a small but complete driver that keeps buckets in memory.
type store struct {
	prefix string                                                           // of ids; empty makes id and name equal
	before func(context.Context, proto.Message) error                       // runs first in every call
	after  func(proto.Message, proto.Message, error) (proto.Message, error) // may replace the answer

	mu       sync.Mutex
	buckets  map[string]map[string]string // parameters by id
	accounts map[string]*cosipb.DriverGrantBucketAccessRequest
	calls    int
}

func call[Req, Resp proto.Message](ctx context.Context, s *store, req Req, do func() (Resp, error)) (Resp, error) {
	var none Resp
	s.mu.Lock()
	s.calls++
	s.mu.Unlock()
	if s.before != nil {
		if err := s.before(ctx, req); err != nil {
			return none, err
		}
	}
	s.mu.Lock()
	resp, err := do()
	s.mu.Unlock()
	if s.after != nil {
		changed, err := s.after(req, resp, err)
		if changed == nil {
			return none, err
		}
		return changed.(Resp), err
	}
	return resp, err
}

func (s *store) DriverCreateBucket(ctx context.Context, req *cosipb.DriverCreateBucketRequest) (*cosipb.DriverCreateBucketResponse, error) {
	return call(ctx, s, req, func() (*cosipb.DriverCreateBucketResponse, error) {
		for key, value := range req.GetParameters() {
			switch {
			case key != "region" && key != "anonymousAccess" && key != "quota":
				return nil, status.Errorf(codes.InvalidArgument, "unknown parameter %q; known are anonymousAccess, quota and region", key)
			case key == "region" && value != "eu":
				return nil, status.Errorf(codes.OutOfRange, "region %q is not eu", value)
			}
		}
		id := s.prefix + req.GetName()
		if old, ok := s.buckets[id]; ok && !maps.Equal(old, req.GetParameters()) {
			return nil, status.Errorf(codes.AlreadyExists, "bucket %q exists with other parameters", req.GetName())
		}
		if s.buckets == nil {
			s.buckets = map[string]map[string]string{}
		}
		s.buckets[id] = maps.Clone(req.GetParameters())
		return &cosipb.DriverCreateBucketResponse{BucketId: id, BucketInfo: &cosipb.Protocol{
			Type: &cosipb.Protocol_S3{S3: &cosipb.S3{Region: "eu", SignatureVersion: cosipb.S3SignatureVersion_S3V4}},
		}}, nil
	})
}

func (s *store) DriverDeleteBucket(ctx context.Context, req *cosipb.DriverDeleteBucketRequest) (*cosipb.DriverDeleteBucketResponse, error) {
	return call(ctx, s, req, func() (*cosipb.DriverDeleteBucketResponse, error) {
		delete(s.buckets, req.GetBucketId())
		return &cosipb.DriverDeleteBucketResponse{}, nil
	})
}

// secretKey is what must not turn up in any log or error.
const secretKey = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEYxx"

func (s *store) DriverGrantBucketAccess(ctx context.Context, req *cosipb.DriverGrantBucketAccessRequest) (*cosipb.DriverGrantBucketAccessResponse, error) {
	return call(ctx, s, req, func() (*cosipb.DriverGrantBucketAccessResponse, error) {
		if _, ok := s.buckets[req.GetBucketId()]; !ok {
			return nil, status.Errorf(codes.NotFound, "there is no bucket %q", req.GetBucketId())
		}
		if s.accounts == nil {
			s.accounts = map[string]*cosipb.DriverGrantBucketAccessRequest{}
		}
		account := "acct-" + req.GetName()
		s.accounts[account] = req
		return &cosipb.DriverGrantBucketAccessResponse{AccountId: account, Credentials: map[string]*cosipb.CredentialDetails{
			"s3": {Secrets: map[string]string{
				"endpoint": "http://127.0.0.1:9000", "region": "eu",
				"accessKeyID": "AKIAIOSFODNN7EXAMPLE", "accessSecretKey": secretKey,
			}},
		}}, nil
	})
}

func (s *store) DriverRevokeBucketAccess(ctx context.Context, req *cosipb.DriverRevokeBucketAccessRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
	return call(ctx, s, req, func() (*cosipb.DriverRevokeBucketAccessResponse, error) {
		delete(s.accounts, req.GetAccountId())
		return &cosipb.DriverRevokeBucketAccessResponse{}, nil
	})
}

func (s *store) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// socket is a fresh path, short enough for a socket.
func socket(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "cosi.sock")
}

// lines keeps a log, and lets a test wait for what it says.
type lines struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newLines() *lines { return &lines{changed: make(chan struct{})} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await returns the first line that holds every word.
func (l *lines) await(t testing.TB, words ...string) string {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		l.mu.Lock()
		text, changed := l.text.String(), l.changed
		l.mu.Unlock()
	next:
		for line := range strings.Lines(text) {
			for _, w := range words {
				if !strings.Contains(line, w) {
					continue next
				}
			}
			return line
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("no line of the log has %q:\n%s", words, text)
		}
	}
}

// served is a plugin that runs in this process, reached over a real socket.
type served struct {
	cosipb.IdentityClient
	cosipb.ProvisionerClient
	conn *grpc.ClientConn
	path string
	log  *lines
	stop func() error // ends Serve and returns what it returned; safe twice
}

const driverName = "objects.example.com"

func serve(t testing.TB, d cosi.Driver, opts ...cosi.Option) *served {
	t.Helper()
	s := &served{path: socket(t), log: newLines()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	opts = append([]cosi.Option{cosi.WithEndpoint("unix://" + s.path), cosi.WithLogger(log)}, opts...)
	go func() { ended <- cosi.Serve(ctx, driverName, d, opts...) }()
	s.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { s.stop() })
	s.conn = connect(t, s.path)
	s.IdentityClient, s.ProvisionerClient = cosipb.NewIdentityClient(s.conn), cosipb.NewProvisionerClient(s.conn)
	return s
}

func connect(t testing.TB, path string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second}),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// wantStatus checks code, words of the message, and that there are no details.
func wantStatus(t testing.TB, err error, code codes.Code, words ...string) {
	t.Helper()
	s := status.Convert(err)
	if s.Code() != code {
		t.Errorf("got %v, want code %v", err, code)
	}
	if err != nil && strings.TrimSpace(s.Message()) == "" {
		t.Error("the status has no message")
	}
	for _, w := range words {
		if !strings.Contains(s.Message(), w) {
			t.Errorf("message %q does not say %q", s.Message(), w)
		}
	}
	if n := len(s.Proto().GetDetails()); n != 0 {
		t.Errorf("the status has %d details", n)
	}
}

func long(n int) string { return strings.Repeat("a", n) }

func createRequest(name string, kv ...string) *cosipb.DriverCreateBucketRequest {
	r := &cosipb.DriverCreateBucketRequest{Name: name}
	for i := 0; i < len(kv); i += 2 {
		if r.Parameters == nil {
			r.Parameters = map[string]string{}
		}
		r.Parameters[kv[i]] = kv[i+1]
	}
	return r
}

func grantRequest(id, name string) *cosipb.DriverGrantBucketAccessRequest {
	return &cosipb.DriverGrantBucketAccessRequest{BucketId: id, Name: name, AuthenticationType: cosipb.AuthenticationType_Key}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
