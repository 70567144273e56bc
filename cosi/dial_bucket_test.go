package cosi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

// Req: COSI-034, COSI-051, COSI-052, COSI-058, COSI-059, COSI-063, COSI-064, COSI-065, COSI-066, COSI-072, COSI-073, COSI-074, COSI-118, COSI-133
func TestCallsCarryTheirArguments(t *testing.T) {
	path := scriptedSocket(t)
	p := play(t, path, named("d", answers{
		"DriverCreateBucket": always(&cosipb.DriverCreateBucketResponse{
			BucketId:   "id-1",
			BucketInfo: &cosipb.Protocol{Type: &cosipb.Protocol_S3{S3: &cosipb.S3{Region: "eu"}}},
		}),
		"DriverDeleteBucket": always(&cosipb.DriverDeleteBucketResponse{}),
		"DriverGrantBucketAccess": always(&cosipb.DriverGrantBucketAccessResponse{
			AccountId: "acc-1", Credentials: map[string]*cosipb.CredentialDetails{"s3": {Secrets: map[string]string{"k": "v"}}},
		}),
		"DriverRevokeBucketAccess": always(&cosipb.DriverRevokeBucketAccessResponse{}),
	}))
	c, ctx := dialScript(t, path), scriptedContext(t, 30*time.Second)
	opaque := map[string]string{"region": "x", "Ünïcode key": "\n", "anonymousAccess": "what", "secret.token": "s3cr3t", "empty": ""}

	b, err := c.CreateBucket(ctx, "name-1", opaque)
	if err != nil || b.ID != "id-1" || b.Info.GetS3().GetRegion() != "eu" {
		t.Fatalf("CreateBucket: %v %v", b, err)
	}
	g, err := c.GrantAccess(ctx, GrantRequest{BucketID: b.ID, Account: "ba-1", Authentication: cosipb.AuthenticationType_IAM, Parameters: opaque})
	if err != nil || g.AccountID != "acc-1" || g.Credentials["s3"]["k"] != "v" {
		t.Fatalf("GrantAccess: %v %v", g, err)
	}
	if err := c.RevokeAccess(ctx, b.ID, g.AccountID, opaque); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteBucket(ctx, b.ID, opaque); err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]proto.Message{
		"DriverCreateBucket":       &cosipb.DriverCreateBucketRequest{Name: "name-1", Parameters: opaque},
		"DriverGrantBucketAccess":  &cosipb.DriverGrantBucketAccessRequest{BucketId: "id-1", Name: "ba-1", AuthenticationType: cosipb.AuthenticationType_IAM, Parameters: opaque},
		"DriverRevokeBucketAccess": &cosipb.DriverRevokeBucketAccessRequest{BucketId: "id-1", AccountId: "acc-1", RevokeAccessContext: opaque},
		"DriverDeleteBucket":       &cosipb.DriverDeleteBucketRequest{BucketId: "id-1", DeleteContext: opaque},
	} {
		if got := p.last(method); !proto.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", method, got, want)
		}
	}
}

// Req: COSI-051, COSI-058, COSI-063, COSI-064, COSI-065, COSI-072, COSI-073, COSI-079, COSI-081, COSI-082, COSI-084, COSI-097
func TestInvalidRequestsAreNotSent(t *testing.T) {
	path := scriptedSocket(t)
	p := play(t, path, named("d", nil))
	c, ctx := dialScript(t, path), scriptedContext(t, 30*time.Second)
	long, big := strings.Repeat("n", 129), map[string]string{"k": strings.Repeat("v", 4096)}
	key := cosipb.AuthenticationType_Key
	grant := func(r GrantRequest) error { _, err := c.GrantAccess(ctx, r); return err }
	create := func(name string, parameters map[string]string) error {
		_, err := c.CreateBucket(ctx, name, parameters)
		return err
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{create("", nil), "field name is required"},
		{create(long, nil), "field name has 129 bytes"},
		{create("n", big), "field parameters has 4097 bytes"},
		{create("n\xff", nil), "field name"},
		{c.DeleteBucket(ctx, "", nil), "field bucket_id is required"},
		{c.DeleteBucket(ctx, long, nil), "field bucket_id has 129 bytes"},
		{c.DeleteBucket(ctx, "b", big), "field delete_context has 4097 bytes"},
		{grant(GrantRequest{Account: "a", Authentication: key}), "field bucket_id is required"},
		{grant(GrantRequest{BucketID: "b", Authentication: key}), "field name is required"},
		{grant(GrantRequest{BucketID: "b", Account: "a"}), "field authentication_type is required"},
		{grant(GrantRequest{BucketID: "b", Account: "a", Authentication: 7}), "field authentication_type"},
		{grant(GrantRequest{BucketID: "b", Account: "a", Authentication: key, Parameters: big}), "field parameters has 4097 bytes"},
		{c.RevokeAccess(ctx, "", "a", nil), "field bucket_id is required"},
		{c.RevokeAccess(ctx, "b", "", nil), "field account_id is required"},
		{c.RevokeAccess(ctx, "b", "a", big), "field revoke_access_context has 4097 bytes"},
	} {
		if status.Code(tt.err) != codes.InvalidArgument || !Terminal(tt.err) || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("got %v, want %q", tt.err, tt.want)
		}
	}
	if n := len(p.calls); n != 1 {
		t.Errorf("went over the wire: %v", p.calls)
	}
	// Exactly at the limits is fine; the plugin here merely has no such method.
	if err := create(long[:128], map[string]string{"k": big["k"][:4095]}); status.Code(err) != codes.Unimplemented {
		t.Errorf("at the limit: %v", err)
	}
}

// Req: COSI-055, COSI-069, COSI-070, COSI-081, COSI-082, COSI-084, COSI-085, COSI-129
func TestInvalidAnswersAreErrors(t *testing.T) {
	secret := map[string]*cosipb.CredentialDetails{"s3": {Secrets: map[string]string{"k": "v"}}}
	many := map[string]*cosipb.CredentialDetails{}
	for i := range 1000 {
		many[fmt.Sprint(i)] = &cosipb.CredentialDetails{Secrets: map[string]string{"k": strings.Repeat("v", 2000)}}
	}
	for name, tt := range map[string]struct {
		method string
		answer proto.Message
		want   string
	}{
		"no bucket id":      {"DriverCreateBucket", &cosipb.DriverCreateBucketResponse{}, "field bucket_id is required"},
		"long bucket id":    {"DriverCreateBucket", &cosipb.DriverCreateBucketResponse{BucketId: strings.Repeat("i", 129)}, "field bucket_id has 129 bytes"},
		"long region":       {"DriverCreateBucket", &cosipb.DriverCreateBucketResponse{BucketId: "i", BucketInfo: &cosipb.Protocol{Type: &cosipb.Protocol_S3{S3: &cosipb.S3{Region: strings.Repeat("r", 129)}}}}, "region"},
		"no account":        {"DriverGrantBucketAccess", &cosipb.DriverGrantBucketAccessResponse{Credentials: secret}, "field account_id is required"},
		"no credentials":    {"DriverGrantBucketAccess", &cosipb.DriverGrantBucketAccessResponse{AccountId: "a"}, "field credentials is required"},
		"large credentials": {"DriverGrantBucketAccess", &cosipb.DriverGrantBucketAccessResponse{AccountId: "a", Credentials: map[string]*cosipb.CredentialDetails{"s3": {Secrets: map[string]string{"k": strings.Repeat("v", 4096)}}}}, "secrets has 4097 bytes"},
		"wrong secret key":  {"DriverGrantBucketAccess", &cosipb.DriverGrantBucketAccessResponse{AccountId: "a", Credentials: map[string]*cosipb.CredentialDetails{"s3": {Secrets: map[string]string{"k/../k": "v"}}}}, "k/../k"},
		"too many":          {"DriverGrantBucketAccess", &cosipb.DriverGrantBucketAccessResponse{AccountId: "a", Credentials: many}, "larger than 1048576 bytes"},
		"another's bytes":   {"DriverCreateBucket", &cosipb.DriverCreateBucketRequest{Name: "i", Parameters: map[string]string{"a": "b"}}, "it is no DriverCreateBucketResponse"},
	} {
		t.Run(name, func(t *testing.T) {
			path := scriptedSocket(t)
			p := play(t, path, named("d", answers{tt.method: always(tt.answer)}))
			c := dialScript(t, path)
			for _, op := range operations {
				if op.method != tt.method {
					continue
				}
				err := op.call(scriptedContext(t, 30*time.Second), c)
				if !errors.Is(err, ErrAnswer) || Retryable(err) || Terminal(err) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				if n := p.count(tt.method); n != 1 {
					t.Errorf("%d calls", n)
				}
			}
		})
	}
}

// Req: COSI-077, DRAFT-028
func TestOneCallInFlightPerBucket(t *testing.T) {
	path := scriptedSocket(t)
	var inFlight, most atomic.Int32
	other := make(chan struct{})
	busy := func(out proto.Message) func(context.Context, proto.Message) (proto.Message, error) {
		return func(ctx context.Context, in proto.Message) (proto.Message, error) {
			if r, ok := in.(*cosipb.DriverCreateBucketRequest); ok && r.GetName() == "other" {
				close(other)
				return out, nil
			}
			most.Store(max(most.Load(), inFlight.Add(1)))
			defer inFlight.Add(-1)
			select { // long enough for every rival to arrive; an unrelated bucket's call gets through meanwhile
			case <-other:
			case <-ctx.Done():
			}
			return out, ctx.Err()
		}
	}
	a := named("d", nil)
	for _, op := range operations {
		a[op.method] = busy(op.answer)
	}
	a["DriverCreateBucket"] = busy(&cosipb.DriverCreateBucketResponse{BucketId: "id of b"})
	play(t, path, a)
	c, ctx := dialScript(t, path), scriptedContext(t, 30*time.Second)
	c.queue.learn("id of b", "b") // as if created earlier

	results := make(chan error)
	start := func(f func() error) { go func() { results <- f() }() }
	const each = 4
	for range each {
		start(func() error { _, err := c.CreateBucket(ctx, "b", nil); return err })
		start(func() error { return c.DeleteBucket(ctx, "b", nil) })
		start(func() error { return c.RevokeAccess(ctx, "id of b", "a", nil) })
	}
	if _, err := c.CreateBucket(ctx, "other", nil); err != nil { // does not wait
		t.Fatal(err)
	}
	for range 3 * each {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := most.Load(); n != 1 {
		t.Errorf("%d calls were in flight for one bucket", n)
	}
	if n := len(c.queue.turns); n != 0 {
		t.Errorf("%d turns left over", n)
	}
}

func TestWaitingForABucketEndsWithTheContext(t *testing.T) {
	path := scriptedSocket(t)
	inCall := make(chan struct{})
	play(t, path, named("d", answers{"DriverDeleteBucket": func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		close(inCall)
		<-ctx.Done()
		return nil, ctx.Err()
	}}))
	c := dialScript(t, path)
	first, stop := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- c.DeleteBucket(first, "b", nil) }()
	<-inCall
	err := c.DeleteBucket(scriptedContext(t, 20*time.Millisecond), "b", nil)
	if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "another call") {
		t.Errorf("got %v", err)
	}
	stop()
	if err := <-result; status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
}

// Req: COSI-020, COSI-136, COSI-149
func TestNothingSecretIsLogged(t *testing.T) {
	const secret = "wJalrXUtnFEMI-K7MDENG"
	path := scriptedSocket(t)
	play(t, path, named("d", answers{
		"DriverGrantBucketAccess": always(&cosipb.DriverGrantBucketAccessResponse{
			AccountId: "acc", Credentials: map[string]*cosipb.CredentialDetails{"s3": {Secrets: map[string]string{"accessSecretKey": secret}}},
		}),
	}))
	var log bytes.Buffer
	c := dialScript(t, path, DialLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	g, err := c.GrantAccess(scriptedContext(t, 30*time.Second), GrantRequest{BucketID: "b", Account: "a", Authentication: cosipb.AuthenticationType_Key})
	if err != nil {
		t.Fatal(err)
	}
	_, infoErr := g.BucketInfo("n", "b", cosipb.AuthenticationType_Key)
	for _, text := range []string{log.String(), fmt.Sprintf("%v %+v %#v %s", g, g, &g, g), fmt.Sprint(infoErr)} {
		if strings.Contains(text, secret) {
			t.Errorf("shows the secret: %s", text)
		}
	}
	if !strings.Contains(log.String(), "DriverGrantBucketAccess") || infoErr == nil {
		t.Errorf("log %q, error %v", log.String(), infoErr)
	}
	if !maps.Equal(g.Credentials["s3"], map[string]string{"accessSecretKey": secret}) {
		t.Error("the credentials themselves were touched")
	}
}
