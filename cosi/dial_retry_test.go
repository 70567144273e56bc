package cosi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

// operations are the client's four calls, each with a good answer.
var operations = []struct {
	method string
	answer proto.Message
	call   func(context.Context, *Client) error
}{
	{"DriverCreateBucket", &cosipb.DriverCreateBucketResponse{BucketId: "b"}, func(ctx context.Context, c *Client) error {
		_, err := c.CreateBucket(ctx, "b", nil)
		return err
	}},
	{"DriverDeleteBucket", &cosipb.DriverDeleteBucketResponse{}, func(ctx context.Context, c *Client) error {
		return c.DeleteBucket(ctx, "b", nil)
	}},
	{"DriverGrantBucketAccess", &cosipb.DriverGrantBucketAccessResponse{
		AccountId: "a", Credentials: map[string]*cosipb.CredentialDetails{"s3": {Secrets: map[string]string{"k": "v"}}},
	}, func(ctx context.Context, c *Client) error {
		_, err := c.GrantAccess(ctx, GrantRequest{BucketID: "b", Account: "a", Authentication: cosipb.AuthenticationType_Key})
		return err
	}},
	{"DriverRevokeBucketAccess", &cosipb.DriverRevokeBucketAccessResponse{}, func(ctx context.Context, c *Client) error {
		return c.RevokeAccess(ctx, "b", "a", nil)
	}},
}

// Req: COSI-094, COSI-097, COSI-099, COSI-102, COSI-106, COSI-108, COSI-111, COSI-113, COSI-120, COSI-123, COSI-125, COSI-127
func TestRetryTable(t *testing.T) {
	retried := map[codes.Code]bool{
		codes.Aborted: true, codes.Unavailable: true, codes.DeadlineExceeded: true, codes.ResourceExhausted: true,
	}
	terminal := map[codes.Code]bool{
		codes.InvalidArgument: true, codes.AlreadyExists: true, codes.OutOfRange: true, codes.Unimplemented: true,
		codes.PermissionDenied: true, codes.Unauthenticated: true, codes.FailedPrecondition: true, codes.NotFound: true,
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		t.Run(code.String(), func(t *testing.T) {
			for _, op := range operations {
				path := scriptedSocket(t)
				var once sync.Once
				p := play(t, path, named("d", answers{op.method: func(context.Context, proto.Message) (out proto.Message, err error) {
					out = op.answer
					once.Do(func() { out, err = nil, status.Errorf(code, "said %v", code) })
					return out, err
				}}))
				c := dialScript(t, path)
				err := op.call(scriptedContext(t, 30*time.Second), c)
				calls := p.count(op.method)
				if retried[code] {
					if err != nil || calls != 2 {
						t.Errorf("%s: %d calls, then %v", op.method, calls, err)
					}
					continue
				}
				if calls != 1 || status.Code(err) != code || status.Convert(err).Message() != fmt.Sprintf("said %v", code) {
					t.Errorf("%s: %d calls, then %v", op.method, calls, err)
				}
			}
			err := status.Error(code, "x")
			if Retryable(err) != retried[code] || Terminal(err) != terminal[code] {
				t.Errorf("Retryable %v, Terminal %v", Retryable(err), Terminal(err))
			}
		})
	}
	for _, err := range []error{nil, errors.New("x"), status.Error(99, "x")} {
		if Retryable(err) || Terminal(err) {
			t.Errorf("%v: Retryable %v, Terminal %v", err, Retryable(err), Terminal(err))
		}
	}
}

// Req: COSI-088, COSI-089
func TestHungAttemptIsRetried(t *testing.T) {
	path := scriptedSocket(t)
	var once sync.Once
	p := play(t, path, named("d", answers{"DriverCreateBucket": func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		once.Do(func() { <-ctx.Done() })
		return &cosipb.DriverCreateBucketResponse{BucketId: "b"}, ctx.Err()
	}}))
	c := dialScript(t, path, DialAttemptTimeout(200*time.Millisecond))
	if _, err := c.CreateBucket(scriptedContext(t, 30*time.Second), "b", nil); err != nil {
		t.Fatal(err)
	}
	if n := p.count("DriverCreateBucket"); n < 2 {
		t.Errorf("%d attempts", n)
	}
}

// Req: COSI-089
func TestRetriesEndWithTheCallersContext(t *testing.T) {
	path := scriptedSocket(t)
	p := play(t, path, named("d", answers{"DriverCreateBucket": func(context.Context, proto.Message) (proto.Message, error) {
		return nil, status.Error(codes.Aborted, "still busy")
	}}))
	c := dialScript(t, path)
	_, err := c.CreateBucket(scriptedContext(t, 100*time.Millisecond), "b", nil)
	if status.Code(err) != codes.DeadlineExceeded || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "still busy") || !strings.Contains(err.Error(), `create bucket "b"`) {
		t.Errorf("error says too little: %v", err)
	}
	if n := p.count("DriverCreateBucket"); n < 3 {
		t.Errorf("%d attempts", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.DeleteBucket(ctx, "b", nil); status.Code(err) != codes.Canceled || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
}

// Req: COSI-106
func TestBackoffGrowsToItsLimit(t *testing.T) {
	b := backoff{100 * time.Millisecond, 10 * time.Second}
	full := b.base
	for n := range 100 {
		for range 20 {
			if d := b.pause(n); d < full/2 || d > full {
				t.Fatalf("pause %d is %v, want %v to %v", n, d, full/2, full)
			}
		}
		full = min(2*full, b.longest)
	}
	seen := map[time.Duration]bool{}
	for range 20 {
		seen[b.pause(3)] = true
	}
	if len(seen) < 2 {
		t.Error("no jitter")
	}
	if d := (backoff{}).pause(5); d != 0 {
		t.Errorf("zero back-off pauses %v", d)
	}
}
