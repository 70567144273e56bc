package cosi

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

// scripted is a plugin on a real socket that says what a test wants: a faulty
// peer, where a real driver would be well behaved.
type scripted struct {
	t       *testing.T
	server  *grpc.Server
	answers answers

	mu    sync.Mutex
	calls map[string][]proto.Message // requests by method name
}

// answers are a scripted plugin's methods by name; others are UNIMPLEMENTED.
type answers map[string]func(ctx context.Context, in proto.Message) (proto.Message, error)

func always(m proto.Message) func(context.Context, proto.Message) (proto.Message, error) {
	return func(context.Context, proto.Message) (proto.Message, error) { return m, nil }
}

// named are the answers of a plugin that has a name, and those given.
func named(name string, more answers) answers {
	a := answers{"DriverGetInfo": always(&cosipb.DriverGetInfoResponse{Name: name})}
	for method, answer := range more {
		a[method] = answer
	}
	return a
}

func scriptedSocket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "c.sock")
}

// play serves the answers at path until stop or the test's end. It takes the
// path over as a restarted plugin would.
func play(t *testing.T, path string, a answers) *scripted {
	t.Helper()
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	p := &scripted{t: t, answers: a, calls: map[string][]proto.Message{}}
	p.server = grpc.NewServer(grpc.UnknownServiceHandler(p.handle))
	done := make(chan struct{})
	go func() { defer close(done); _ = p.server.Serve(l) }()
	t.Cleanup(func() { p.server.Stop(); <-done })
	return p
}

func (p *scripted) handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	r, err := findRPC(method)
	if err != nil {
		return err
	}
	in := proto.Clone(r.in)
	if err := stream.RecvMsg(in); err != nil {
		return err
	}
	name := methodName(method)
	p.mu.Lock()
	p.calls[name] = append(p.calls[name], in)
	answer := p.answers[name]
	p.mu.Unlock()
	if answer == nil {
		return status.Error(codes.Unimplemented, name+" is not for me")
	}
	out, err := answer(stream.Context(), in)
	if err != nil {
		return err
	}
	return stream.SendMsg(out)
}

// count is how many calls of a method came over the wire.
func (p *scripted) count(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.calls[method])
}

// last is the newest request of a method.
func (p *scripted) last(method string) proto.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.calls[method]); n > 0 {
		return p.calls[method][n-1]
	}
	p.t.Fatalf("no call of %s", method)
	return nil
}

func scriptedContext(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// dialScript connects with pauses too short to notice.
func dialScript(t *testing.T, path string, opts ...DialOption) *Client {
	t.Helper()
	opts = append([]DialOption{DialBackoff(time.Millisecond, 5*time.Millisecond)}, opts...)
	c, err := Dial(scriptedContext(t, 30*time.Second), "unix://"+path, opts...)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
