package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Guard stands between gRPC and a driver's handlers, and does for them what a
// specification asks of every call: it checks request and answer, lets one
// call in per object, survives panics, answers in time, and makes every error
// a proper status that tells no secret. Set the fields before its first call;
// the zero value checks the general limits only.
type Guard struct {
	// Rules are checked on every request and on every answer.
	Rules Rules
	// Object names what the request works on, such as "bucket" and its name;
	// an empty name means that the call needs no lock. Nil locks nothing.
	Object func(req proto.Message) (kind, name string)
	// Log gets failed calls, and with level debug all calls; nil means none.
	Log *slog.Logger
	// Metrics counts the calls; nil counts nothing.
	Metrics *Metrics

	locks Locks
}

// Unary is the interceptor.
func (g *Guard) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	begin := time.Now()
	c := call{guard: g, method: info.FullMethod, req: req.(proto.Message), handler: handler}
	resp, err := c.do(ctx)
	took := time.Since(begin)
	g.Metrics.observe(info.FullMethod, status.Code(err), took)
	if g.Log != nil {
		c.log(ctx, resp, err, took)
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// Drain waits for the driver's calls to end, those too that were answered
// because their deadline had passed. It returns ctx's error if some did not.
func (g *Guard) Drain(ctx context.Context) error { return g.locks.Drain(ctx) }

// call is one call on its way through the guard.
type call struct {
	guard   *Guard
	method  string
	req     proto.Message
	handler grpc.UnaryHandler
}

type result struct {
	resp proto.Message
	err  error
}

func (c *call) do(ctx context.Context) (proto.Message, error) {
	if err := CheckMessage(c.req, c.guard.Rules); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error()) // COSI-096, COSI-098
	}
	kind, name := "", ""
	if c.guard.Object != nil {
		kind, name = c.guard.Object(c.req)
	}
	if name == "" {
		r := result{}
		c.run(ctx, &r)
		return r.resp, r.err
	}
	key := kind + " " + name
	if !c.guard.locks.TryLock(key) {
		return nil, status.Errorf(codes.Aborted, "another call is pending for %s %q; try again when it has ended", kind, name) // COSI-105
	}
	return c.detached(ctx, key)
}

// detached runs the driver on a goroutine of its own, so that the caller gets
// its answer in time even if the driver does not heed ctx. The lock is kept
// until the driver has really ended: until then a retry gets ABORTED, and
// never meets the work it repeats.
func (c *call) detached(ctx context.Context, key string) (proto.Message, error) {
	done := make(chan result, 1)
	go func() {
		r := result{}
		defer func() {
			c.guard.locks.Unlock(key) // first: the caller's next call may come at once
			done <- r
		}()
		c.run(ctx, &r)
	}()
	select {
	case r := <-done:
		return r.resp, r.err
	case <-ctx.Done():
		code := status.FromContextError(ctx.Err()).Code()
		return nil, status.Errorf(code, "%s has not ended in time: %v", path.Base(c.method), ctx.Err())
	}
}

// run calls the driver and leaves a clean answer in r, whatever the driver
// does: the deferred part sees panics, and the end of the goroutine too.
func (c *call) run(ctx context.Context, r *result) {
	var answer any
	var err error
	returned := false
	defer func() {
		if !returned {
			err = c.crashed(ctx, recover())
		}
		*r = c.answer(answer, err)
	}()
	answer, err = c.handler(ctx, c.req)
	returned = true
}

func (c *call) answer(answer any, err error) result {
	resp, _ := answer.(proto.Message)
	valid := resp != nil && resp.ProtoReflect().IsValid()
	if err != nil {
		// A driver may wrap what it was given or was about to answer.
		if !valid {
			resp = nil
		}
		return result{err: RedactError(Status(err), c.req, resp)}
	}
	if !valid {
		return result{err: status.Error(codes.Internal, "the driver gave neither an answer nor an error")}
	}
	if err := CheckMessage(resp, c.guard.Rules); err != nil {
		return result{err: status.Errorf(codes.Internal, "the driver gave an invalid answer: %v", err)}
	}
	return result{resp: resp}
}

// crashed reports a driver that panicked, or that ended its goroutine (no panic).
func (c *call) crashed(ctx context.Context, panicked any) error {
	what := "ended its goroutine"
	if panicked != nil {
		what = RedactText(fmt.Sprintf("panicked: %v", panicked), c.req)
	}
	if c.guard.Log != nil {
		c.guard.Log.ErrorContext(ctx, "driver "+what, "method", c.method, "stack", string(debug.Stack()))
	}
	return status.Errorf(codes.Internal, "the driver %s in %s; its log holds the stack", what, path.Base(c.method))
}

// log writes one line per call; messages are printed only if the line is.
func (c *call) log(ctx context.Context, resp proto.Message, err error, took time.Duration) {
	level := slog.LevelDebug
	code := status.Code(err)
	switch code {
	case codes.OK:
	case codes.Internal, codes.Unknown, codes.DataLoss:
		level = slog.LevelError
	default:
		level = slog.LevelWarn
	}
	if !c.guard.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("method", c.method), slog.String("code", CodeName(code)), slog.Duration("took", took)}
	if err != nil {
		attrs = append(attrs, slog.String("error", status.Convert(err).Message()))
	}
	if c.guard.Log.Enabled(ctx, slog.LevelDebug) {
		attrs = append(attrs, slog.String("request", Redact(c.req)))
		if err == nil {
			attrs = append(attrs, slog.String("response", Redact(resp)))
		}
	}
	c.guard.Log.LogAttrs(ctx, level, "call", attrs...)
}
