package cosi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/cosi/draftpb"
	"github.com/fairlead/fairlead/internal/plugin"
)

// maxAnswer is the largest answer taken from a plugin, in bytes: far above what
// the field limits allow, except for a hostile number of credentials.
const maxAnswer = 1 << 20

// session is one connection to one plugin process: it never connects again.
// What was learned of the process (name, protocol, missing methods) therefore
// holds for all of the session.
type session struct {
	conn     *link
	socket   socketID
	name     string
	protocol string
	missing  sync.Map // full method name -> error: it said UNIMPLEMENTED

	// Guarded by the client's mu.
	calls   int
	retired bool
}

// link is a gRPC connection over one connected socket.
type link struct {
	*grpc.ClientConn
	raw net.Conn
}

// Close closes the socket too, which gRPC does not know of before its first call.
func (l *link) Close() error {
	return errors.Join(l.ClientConn.Close(), ignoreClosed(l.raw.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// acquire returns a session for one call, connecting first if need be. It
// waits for the plugin until ctx ends. The caller must release the session.
func (c *Client) acquire(ctx context.Context) (*session, error) {
	if s := c.usable(); s != nil {
		return s, nil
	}
	select {
	case c.connecting <- struct{}{}:
		defer func() { <-c.connecting }()
	case <-ctx.Done():
		return nil, c.absent(ctx)
	case <-c.closed.Done():
		return nil, errClosed()
	}
	if s := c.usable(); s != nil { // somebody else connected meanwhile
		return s, nil
	}
	s, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	return s, c.install(s)
}

// usable returns the current session if its process still answers and its
// socket has not been replaced by another process's.
func (c *Client) usable() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.current
	if s == nil {
		return nil
	}
	if s.conn.GetState() == connectivity.Ready && !s.socket.replaced(c.path) {
		s.calls++
		return s
	}
	s.retire()
	c.current = nil
	return nil
}

// install makes s the current session, with one call.
func (c *Client) install(s *session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Err() != nil {
		s.retire()
		return errClosed()
	}
	s.calls++
	c.current, c.name, c.protocol, c.lastErr = s, s.name, s.protocol, nil
	return nil
}

// release ends one call's use of s.
func (c *Client) release(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.calls--
	if s.retired && s.calls == 0 {
		_ = s.conn.Close()
	}
}

// retire closes s when its last call has ended. The client's mu is held.
func (s *session) retire() {
	s.retired = true
	if s.calls == 0 {
		_ = s.conn.Close()
	}
}

// connect tries to open a session until it works, ctx ends, or no retry can
// help. A change of the socket's file is tried at once; otherwise the pauses
// grow, so that neither an absent nor a broken plugin is hammered.
func (c *Client) connect(ctx context.Context) (*session, error) {
	w := watchSocket(c.path)
	defer w.close()
	for n := 0; ; n++ {
		s, err := c.open(ctx)
		if err == nil {
			return s, nil
		}
		if ended(ctx) || c.closed.Err() != nil {
			return nil, c.absent(ctx)
		}
		c.mu.Lock()
		c.lastErr = err
		c.mu.Unlock()
		if !Retryable(err) {
			return nil, err
		}
		c.options.log.Debug("waiting for COSI plugin", "socket", c.path, "cause", err)
		changed, err := w.wait(ctx, c.closed, min(c.options.backoff.pause(n), maxPoll))
		if err != nil {
			return nil, c.absent(ctx)
		}
		if changed {
			n = -1
		}
	}
}

// absent is the error of a call whose context ended before the plugin answered.
func (c *Client) absent(ctx context.Context) error {
	if ctx.Err() == nil {
		return errClosed()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	message := fmt.Sprintf("waiting for COSI plugin at %s: %v", c.path, ctx.Err())
	if c.lastErr != nil {
		message += "; last answer: " + c.lastErr.Error()
	}
	return &statusError{status.FromContextError(ctx.Err()).Code(), message, errors.Join(ctx.Err(), errAbsent)}
}

// open connects once and asks who is there.
func (c *Client) open(ctx context.Context) (*session, error) {
	ctx, cancel := c.attempt(ctx)
	defer cancel()
	id, _ := identify(c.path) // before the dial: what is newer is somebody else's
	conn, err := c.dialOnce(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, socket: id}
	if err := s.introduce(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	c.mu.Lock()
	known := c.name
	c.mu.Unlock()
	if known != "" && known != s.name {
		_ = conn.Close()
		return nil, &statusError{codes.FailedPrecondition,
			fmt.Sprintf("COSI plugin at %s is now driver %q; it was %q", c.path, s.name, known), ErrDriverChanged}
	}
	return s, nil
}

// dialOnce makes a gRPC connection that never connects again.
func (c *Client) dialOnce(ctx context.Context) (*link, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "unix", c.path)
	if err != nil {
		return nil, &statusError{codes.Unavailable, explainDial(c.path, err), err}
	}
	var used atomic.Bool
	dial := func(context.Context, string) (net.Conn, error) {
		if used.Swap(true) {
			return nil, errors.New("the plugin closed the connection")
		}
		return raw, nil
	}
	opts := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a UNIX socket: the file's mode guards it
		grpc.WithContextDialer(dial),
		grpc.WithAuthority("localhost"),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(), // ours follow COSI's tables
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
	}, c.options.grpc...)
	conn, err := grpc.NewClient("passthrough:///cosi", opts...)
	if err != nil {
		_ = raw.Close()
		return nil, &statusError{codes.Internal, fmt.Sprintf("connect to %s: %v", c.path, err), err}
	}
	return &link{conn, raw}, nil
}

// introduce asks the driver's name: by v1alpha1's DriverGetInfo, and where
// that is UNIMPLEMENTED by the draft's ProvisionerGetInfo (COSI-109, DRAFT-030).
func (s *session) introduce(ctx context.Context) error {
	var info cosipb.DriverGetInfoResponse
	err := s.invoke(ctx, cosipb.Identity_DriverGetInfo_FullMethodName, &cosipb.DriverGetInfoRequest{}, &info)
	if err == nil {
		s.name, s.protocol = info.GetName(), ProtocolV1Alpha1
		return checkPluginName(s.name)
	}
	if status.Code(err) != codes.Unimplemented {
		return err
	}
	var old draftpb.ProvisionerGetInfoResponse
	err = s.invoke(ctx, draftGetInfo, &draftpb.ProvisionerGetInfoRequest{}, &old)
	if status.Code(err) == codes.Unimplemented {
		return status.Error(codes.Unimplemented, "the plugin has neither DriverGetInfo (COSI v1alpha1) nor ProvisionerGetInfo (the older draft)")
	}
	if err != nil {
		return err
	}
	s.name, s.protocol = old.GetProvisionerIdentity(), ProtocolDraft
	return nil
}

// invoke makes one attempt of a call: limits and required fields hold for what
// is sent and for what comes back (COSI-081 to COSI-085). A method that was
// UNIMPLEMENTED once is not called again on this session (COSI-108).
func (s *session) invoke(ctx context.Context, method string, in, out proto.Message) error {
	if err, ok := s.missing.Load(method); ok {
		return err.(error)
	}
	if err := plugin.CheckMessage(in, callerRules); err != nil {
		return invalidArgument("request %s: %w", methodName(method), err)
	}
	err := s.conn.Invoke(ctx, method, in, out)
	switch {
	case err == nil:
		if err := plugin.CheckMessage(out, callerRules); err != nil {
			return badAnswer("answer to %s: %v", methodName(method), err)
		}
	case status.Code(err) == codes.Unimplemented:
		s.missing.Store(method, err)
	case garbled(err):
		return badAnswer("answer to %s: it is no %s", methodName(method), out.ProtoReflect().Descriptor().Name())
	case tooLarge(err):
		return badAnswer("answer to %s: larger than %d bytes", methodName(method), maxAnswer)
	}
	return err
}

// attempt limits ctx to one attempt, and to the client's life.
func (c *Client) attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.closed, cancel)
	timeout := func() {}
	if d := c.options.attemptTimeout; d > 0 {
		ctx, timeout = context.WithTimeout(ctx, d)
	}
	return ctx, func() { timeout(); stop(); cancel() }
}
