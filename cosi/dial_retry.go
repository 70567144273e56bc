package cosi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	// ErrDriverChanged is in the chain of an error of a [Client] whose socket
	// is now served by a driver of another name.
	ErrDriverChanged = errors.New("another driver answers")
	// ErrAnswer is in the chain of the error for an answer that breaks the
	// specification: a field that is missing or too long, a driver's name that
	// is not valid. The message names the field.
	ErrAnswer = errors.New("the plugin's answer breaks the specification")
)

// Retryable reports that the same call may be repeated after a pause, as a
// [Client] does by itself: the operation is pending (COSI-106), the plugin is
// not there or restarting, an attempt took too long (COSI-088), or the plugin
// is short of something.
func Retryable(err error) bool {
	switch status.Code(err) {
	case codes.Aborted, codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
		return true
	}
	return false
}

// Terminal reports that trying again with the same arguments cannot help: a
// person must change the arguments, the plugin or its permissions first
// (COSI-097, COSI-099, COSI-102, COSI-108, COSI-111, COSI-125, COSI-127). What
// is neither Terminal nor [Retryable], such as INTERNAL, was not retried, and
// may be later.
func Terminal(err error) bool {
	if errors.Is(err, ErrDriverChanged) || errors.Is(err, ErrAnswer) {
		return false // not the arguments' fault: the right plugin may return
	}
	switch status.Code(err) {
	case codes.InvalidArgument, codes.AlreadyExists, codes.OutOfRange, codes.Unimplemented,
		codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition, codes.NotFound:
		return true
	}
	return false
}

// do runs call on a session, again and again where that is allowed, until ctx ends.
func (c *Client) do(ctx context.Context, what string, call func(context.Context, *session) error) error {
	var last error // the last one that is not of ctx's ending
	for n := 0; ; n++ {
		err := c.once(ctx, call)
		switch {
		case err == nil:
			return nil
		case c.closed.Err() != nil:
			return errClosed()
		case ended(ctx):
			if errors.Is(err, errAbsent) { // that says more than the last answer
				return &statusError{status.Code(err), what + ": " + err.Error(), ctx.Err()}
			}
			return gaveUp(ctx, what, last)
		case !Retryable(err):
			return err
		}
		last = err
		pause := c.options.backoff.pause(n)
		c.options.log.Info("retrying COSI call", "call", what, "driver", c.Name(), "pause", pause, "cause", err)
		if !c.sleep(ctx, pause) {
			return gaveUp(ctx, what, err)
		}
	}
}

// ended reports that ctx is over. A deadline that has passed counts at once: the
// network and the plugin may notice it before ctx's own timer does.
func ended(ctx context.Context) bool {
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// once makes one attempt.
func (c *Client) once(ctx context.Context, call func(context.Context, *session) error) error {
	s, err := c.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.release(s)
	ctx, cancel := c.attempt(ctx)
	defer cancel()
	return call(ctx, s)
}

// sleep reports whether the whole pause went by.
func (c *Client) sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-c.closed.Done():
	}
	return false
}

// backoff is an exponential one: the n-th pause is base * 2^n, at most longest,
// less up to half of it by chance, so that callers do not march in step.
type backoff struct{ base, longest time.Duration }

func (b backoff) pause(n int) time.Duration {
	d := b.base
	for ; n > 0 && d < b.longest; n-- {
		d *= 2
	}
	d = max(min(d, b.longest), 0)
	return d - time.Duration(rand.Int64N(int64(d/2)+1))
}

// statusError is a gRPC status with a cause that errors.Is can find.
type statusError struct {
	code    codes.Code
	message string
	cause   error
}

func (e *statusError) Error() string { return e.message }
func (e *statusError) Unwrap() error { return e.cause }

// GRPCStatus makes it a gRPC status error.
func (e *statusError) GRPCStatus() *status.Status { return status.New(e.code, e.message) }

func invalidArgument(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &statusError{codes.InvalidArgument, err.Error(), errors.Unwrap(err)}
}

func badAnswer(format string, args ...any) error {
	return &statusError{codes.Internal, fmt.Sprintf(format, args...), ErrAnswer}
}

func errClosed() error {
	return &statusError{codes.Canceled, "COSI client is closed", context.Canceled}
}

// errAbsent marks the end of a wait for a plugin that did not come.
var errAbsent = errors.New("plugin is not there")

// gaveUp is the error of a call whose own context has ended; last is what the
// last attempt said, or nil.
func gaveUp(ctx context.Context, what string, last error) error {
	cause := ctx.Err()
	if cause == nil {
		return errClosed()
	}
	message := what + ": " + cause.Error()
	if last != nil {
		message += "; last answer: " + status.Convert(last).Message()
	}
	return &statusError{status.FromContextError(cause).Code(), message, cause}
}

// tooLarge recognises gRPC's own refusal of a large answer: the same code as a
// plugin's RESOURCE_EXHAUSTED, but no retry helps.
func tooLarge(err error) bool {
	return status.Code(err) == codes.ResourceExhausted &&
		strings.HasPrefix(status.Convert(err).Message(), "grpc: received message")
}

// garbled recognises gRPC's own report of an answer that is not the message it should be.
func garbled(err error) bool {
	return status.Code(err) == codes.Internal &&
		strings.HasPrefix(status.Convert(err).Message(), "grpc: failed to unmarshal")
}

// methodName is the last part of a full method name.
func methodName(method string) string { return method[strings.LastIndexByte(method, '/')+1:] }
