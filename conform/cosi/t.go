package cosi

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

// T is what a case works with: the driver's services, things made for the
// case, and the means to fail. Errorf may be called from any goroutine.
type T struct {
	*suite

	// Identity and Provisioner are the driver's services, unguarded.
	Identity    cosipb.IdentityClient
	Provisioner cosipb.ProvisionerClient

	ctx      context.Context
	cleanups []func()

	mu              sync.Mutex
	failed, skipped bool
	messages        []string
}

// stop ends a case early.
type stop struct{}

// protect runs f until it returns or stops.
func (t *T) protect(f func()) {
	defer func() {
		if r := recover(); r != nil && r != (stop{}) {
			panic(r)
		}
	}()
	f()
}

func (t *T) note(failed bool, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = t.failed || failed
	// A crowd of callers is often told the same: once is enough.
	if text := fmt.Sprintf(format, args...); !slices.Contains(t.messages, text) {
		t.messages = append(t.messages, text)
	}
}

// Errorf fails the case and goes on.
func (t *T) Errorf(format string, args ...any) { t.note(true, format, args...) }

// Fatalf fails the case and ends it.
func (t *T) Fatalf(format string, args ...any) {
	t.note(true, format, args...)
	panic(stop{})
}

// Skipf ends the case without a verdict.
func (t *T) Skipf(format string, args ...any) {
	t.note(false, format, args...)
	t.mu.Lock()
	t.skipped = true
	t.mu.Unlock()
	panic(stop{})
}

// cleanup runs f when the case has ended, last first. What it cannot remove is
// no failure of the case: some drivers are broken just there.
func (t *T) cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

func (t *T) cleanUp() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}

// wantCode fails unless err has one of the codes.
func (t *T) wantCode(what string, err error, want ...codes.Code) {
	if got := status.Code(err); !slices.Contains(want, got) {
		t.Errorf("%s: answered %s, want %s", what, describe(err), listCodes(want))
	}
}

func listCodes(want []codes.Code) string {
	var names []string
	for _, c := range want {
		names = append(names, c.String())
	}
	return strings.Join(names, " or ")
}

func describe(err error) string {
	if err == nil {
		return "OK"
	}
	st := status.Convert(err)
	return fmt.Sprintf("%s (%s)", st.Code(), st.Message())
}

// patiently repeats a call while it is answered ABORTED, with growing pauses:
// that is what the specification tells a caller to do (COSI-106). They vary,
// lest a crowd of callers come back in step and stand in each other's way.
func (t *T) patiently(call func() error) error {
	end := time.Now().Add(t.cfg.Timeout)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := call()
		if status.Code(err) != codes.Aborted || time.Now().After(end) {
			return err
		}
		select {
		case <-t.ctx.Done():
			return err
		case <-time.After(rand.N(2 * pause)):
		}
	}
}

// bucket is one that a case made.
type bucket struct {
	Name, ID string
	Info     *cosipb.Protocol
}

// bucket makes a bucket for the case; the case ends where that fails.
func (t *T) bucket() bucket {
	name := t.name()
	resp, err := t.create(name, t.cfg.BucketParameters)
	if err != nil {
		t.Fatalf("create bucket %s: answered %s", name, describe(err))
	}
	return bucket{Name: name, ID: resp.GetBucketId(), Info: resp.GetBucketInfo()}
}

// create asks for a bucket, and has it deleted at the end.
func (t *T) create(name string, parameters map[string]string) (*cosipb.DriverCreateBucketResponse, error) {
	resp, err := t.Provisioner.DriverCreateBucket(t.ctx, &cosipb.DriverCreateBucketRequest{Name: name, Parameters: parameters})
	if err == nil && resp.GetBucketId() != "" {
		t.cleanup(func() { _ = t.patiently(func() error { return t.delete(resp.GetBucketId()) }) })
	}
	return resp, err
}

func (t *T) delete(id string) error {
	_, err := t.Provisioner.DriverDeleteBucket(t.ctx, &cosipb.DriverDeleteBucketRequest{BucketId: id})
	return err
}

// access grants on the bucket; the case ends where that fails.
func (t *T) access(b bucket, name string) Access {
	a, err := t.grant(b.ID, name, t.cfg.AccessParameters)
	if err != nil {
		t.Fatalf("grant access %s to bucket %s: answered %s", name, b.Name, describe(err))
	}
	return a
}

// grant asks for a key, and has it revoked at the end.
func (t *T) grant(bucketID, name string, parameters map[string]string) (Access, error) {
	return t.grantWith(&cosipb.DriverGrantBucketAccessRequest{
		BucketId: bucketID, Name: name, AuthenticationType: cosipb.AuthenticationType_Key, Parameters: parameters,
	})
}

func (t *T) grantWith(req *cosipb.DriverGrantBucketAccessRequest) (Access, error) {
	resp, err := t.Provisioner.DriverGrantBucketAccess(t.ctx, req)
	if err != nil {
		return Access{}, err
	}
	a := Access{BucketID: req.GetBucketId(), AccountID: resp.GetAccountId(), Credentials: map[string]map[string]string{}}
	for protocol, details := range resp.GetCredentials() {
		a.Credentials[protocol] = details.GetSecrets()
	}
	if a.AccountID != "" {
		t.cleanup(func() { _ = t.patiently(func() error { return t.revoke(a.BucketID, a.AccountID) }) })
	}
	return a, nil
}

func (t *T) revoke(bucketID, accountID string) error {
	_, err := t.Provisioner.DriverRevokeBucketAccess(t.ctx, &cosipb.DriverRevokeBucketAccessRequest{BucketId: bucketID, AccountId: accountID})
	return err
}

// same says whether two grants are one: the same account with the same key.
func (a Access) same(b Access) bool {
	return a.AccountID == b.AccountID && maps.EqualFunc(a.Credentials, b.Credentials, maps.Equal)
}

// probe is the configured one; without one the case is skipped.
func (t *T) probe() Probe {
	if t.cfg.Probe == nil {
		t.Skipf("no probe is configured, so keys cannot be tried")
	}
	return t.cfg.Probe
}

// together runs f n times at once and returns when all have ended.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			f(i)
		})
	}
	close(begin)
	wg.Wait()
}
