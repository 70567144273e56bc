package cosi_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/cosi/draftpb"
)

// gate holds calls to a driver in the middle.
type gate struct {
	entered chan string   // the bucket of a call that waits
	open    chan struct{} // lets all calls go on
}

func newGate() gate { return gate{make(chan string, 100), make(chan struct{})} }

// hold makes a driver wait at the gate, deaf to its context, if bucket says so.
func (g gate) hold(bucket string) func(context.Context, proto.Message) error {
	return func(_ context.Context, req proto.Message) error {
		name := ""
		switch r := req.(type) {
		case *cosipb.DriverCreateBucketRequest:
			name = r.GetName()
		case interface{ GetBucketId() string }:
			name = r.GetBucketId()
		}
		if name == bucket {
			g.entered <- name
			<-g.open
		}
		return nil
	}
}

// Req: COSI-103, COSI-104, COSI-105, COSI-106
func TestServeOneCallPerBucket(t *testing.T) {
	for _, prefix := range []string{"", "id-of-"} {
		g := newGate()
		d := &store{prefix: prefix}
		s := serve(t, d)
		ctx := within(t, 20*time.Second)
		must(s.DriverCreateBucket(ctx, createRequest("busy")))(t)
		must(s.DriverCreateBucket(ctx, createRequest("other")))(t)
		id := prefix + "busy"
		d.before = g.hold(id)
		first := make(chan error, 1)
		go func() {
			_, err := s.DriverGrantBucketAccess(ctx, grantRequest(id, "app"))
			first <- err
		}()
		<-g.entered
		_, err := s.DriverCreateBucket(ctx, createRequest("busy"))
		wantStatus(t, err, codes.Aborted, `another call is pending for bucket "busy"`)
		_, err = s.DriverDeleteBucket(ctx, &cosipb.DriverDeleteBucketRequest{BucketId: id})
		wantStatus(t, err, codes.Aborted, "busy")
		_, err = s.DriverRevokeBucketAccess(ctx, &cosipb.DriverRevokeBucketAccessRequest{BucketId: id, AccountId: "a"})
		wantStatus(t, err, codes.Aborted, "busy")
		err = s.conn.Invoke(ctx, "/cosi.v1alpha1.Provisioner/ProvisionerDeleteBucket", &draftpb.ProvisionerDeleteBucketRequest{BucketName: "busy"}, &draftpb.ProvisionerDeleteBucketResponse{})
		wantStatus(t, err, codes.Aborted, "busy")
		must(s.DriverGrantBucketAccess(ctx, grantRequest(prefix+"other", "app")))(t)
		must(s.DriverGetInfo(ctx, &cosipb.DriverGetInfoRequest{}))(t)
		close(g.open)
		if err := <-first; err != nil {
			t.Errorf("the first call: %v", err)
		}
		// The answer of one call and the start of the next never meet a lock.
		d.before = nil
		for range 50 {
			must(s.DriverGrantBucketAccess(ctx, grantRequest(id, "app")))(t)
		}
	}
}

// Req: COSI-088, COSI-090, COSI-105
func TestServeDeafDriver(t *testing.T) {
	g := newGate()
	d := &store{before: g.hold("b")}
	s := serve(t, d)
	ctx := within(t, 20*time.Second)
	impatient, giveUp := context.WithCancel(ctx)
	go func() { <-g.entered; giveUp() }()
	_, err := s.DriverCreateBucket(impatient, createRequest("b"))
	wantStatus(t, err, codes.Canceled)
	// The plugin itself has answered, although the driver is still at it.
	s.log.await(t, "DriverCreateBucket has not ended in time")
	_, err = s.DriverCreateBucket(ctx, createRequest("b"))
	wantStatus(t, err, codes.Aborted)
	close(g.open)
	for {
		_, err = s.DriverCreateBucket(ctx, createRequest("b"))
		if err == nil {
			break
		}
		wantStatus(t, err, codes.Aborted) // until the first one has ended
	}
}

func TestServeCancelsTheDriver(t *testing.T) {
	entered, cancelled := make(chan struct{}), make(chan error, 1)
	s := serve(t, &store{before: func(ctx context.Context, _ proto.Message) error {
		close(entered)
		<-ctx.Done()
		cancelled <- ctx.Err()
		return ctx.Err()
	}})
	ctx, cancel := context.WithCancel(within(t, 10*time.Second))
	go func() { <-entered; cancel() }()
	_, err := s.DriverCreateBucket(ctx, createRequest("b"))
	wantStatus(t, err, codes.Canceled)
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.log.await(t, "DriverCreateBucket", "code=CANCELLED")
}

func TestServePassesDeadlinesOn(t *testing.T) {
	seen := make(chan time.Time, 1)
	s := serve(t, &store{before: func(ctx context.Context, _ proto.Message) error {
		deadline, _ := ctx.Deadline()
		seen <- deadline
		return nil
	}})
	ctx := within(t, 20*time.Second)
	must(s.DriverCreateBucket(ctx, createRequest("b")))(t)
	want, _ := ctx.Deadline()
	if got := <-seen; got.Before(want.Add(-10*time.Second)) || got.After(want.Add(10*time.Second)) {
		t.Errorf("the driver's deadline is %v, the caller's %v", got, want)
	}
	past, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err := serve(t, &store{before: func(ctx context.Context, _ proto.Message) error {
		<-ctx.Done()
		return fmt.Errorf("ask the store: %w", ctx.Err())
	}}).DriverCreateBucket(past, createRequest("b"))
	wantStatus(t, err, codes.DeadlineExceeded)
}

func TestServeSurvivesPanics(t *testing.T) {
	for name, crash := range map[string]func(){
		"panic":  func() { panic("out of cheese") },
		"index":  func() { var s []int; _ = s[len(s)] },
		"goexit": func() { runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			d := &store{before: func(context.Context, proto.Message) error { crash(); return nil }}
			s := serve(t, d)
			ctx := within(t, 10*time.Second)
			_, err := s.DriverCreateBucket(ctx, createRequest("b"))
			wantStatus(t, err, codes.Internal, "DriverCreateBucket")
			s.log.await(t, "level=ERROR", "stack=", "serve_concurrency_test.go")
			err = s.conn.Invoke(ctx, "/cosi.v1alpha1.Provisioner/ProvisionerDeleteBucket", &draftpb.ProvisionerDeleteBucketRequest{BucketName: "b"}, &draftpb.ProvisionerDeleteBucketResponse{})
			wantStatus(t, err, codes.Internal, "ProvisionerDeleteBucket")
			d.before = nil
			must(s.DriverCreateBucket(ctx, createRequest("b")))(t)
		})
	}
}

func TestServeStopsGracefully(t *testing.T) {
	g := newGate()
	s := serve(t, &store{before: g.hold("b")})
	ctx := within(t, 20*time.Second)
	answered := make(chan error, 1)
	go func() {
		_, err := s.DriverCreateBucket(ctx, createRequest("b"))
		answered <- err
	}()
	<-g.entered
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	for { // the socket goes first
		if _, err := os.Lstat(s.path); errors.Is(err, os.ErrNotExist) {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the socket stays")
		}
		runtime.Gosched()
	}
	select {
	case err := <-stopped:
		t.Fatalf("stopped with a call in flight: %v", err)
	default:
	}
	close(g.open)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

func TestServeStopIsBounded(t *testing.T) {
	g := newGate()
	defer close(g.open)
	s := serve(t, &store{before: g.hold("b")}, cosi.WithStopTimeout(50*time.Millisecond))
	ctx := within(t, 20*time.Second)
	go s.DriverCreateBucket(ctx, createRequest("b"))
	<-g.entered
	if err := s.stop(); err != nil {
		t.Errorf("Serve returned %v", err)
	}
	s.log.await(t, "level=WARN", "did not end")
}

func TestServeManyAtOnce(t *testing.T) {
	s := serve(t, &store{prefix: "id-"})
	ctx := within(t, 20*time.Second)
	errs := make(chan error, 64)
	for i := range cap(errs) {
		go func() {
			b, err := s.DriverCreateBucket(ctx, createRequest(fmt.Sprint("b", i)))
			if err == nil {
				_, err = s.DriverGrantBucketAccess(ctx, grantRequest(b.GetBucketId(), "app"))
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if log := s.log.String(); strings.Contains(log, "level=ERROR") {
		t.Error(log)
	}
}
