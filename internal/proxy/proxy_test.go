package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/internal/plugin"
)

// peer is a plugin of no particular service: it echoes, streams, fails and
// hangs as the method's name says.
func peer(_ any, s grpc.ServerStream) error {
	md, _ := metadata.FromIncomingContext(s.Context())
	method, _ := grpc.MethodFromServerStream(s)
	_ = s.SetHeader(metadata.Pairs("answer-header", strings.Join(md.Get("question"), ","), "raw-bin", "\x00\xff"))
	s.SetTrailer(metadata.Pairs("answer-trailer", "t"))
	switch method {
	case "/test/Fail":
		st, err := status.New(codes.OutOfRange, "no such region: ü").WithDetails(&errdetails.ErrorInfo{Reason: "r"})
		if err != nil {
			return err
		}
		return st.Err()
	case "/test/Hang":
		if err := s.SendHeader(nil); err != nil { // tells the test that it hangs
			return err
		}
		<-s.Context().Done()
		hung <- s.Context().Err()
		return nil
	case "/test/Deadline":
		deadline, ok := s.Context().Deadline()
		m := []byte(fmt.Sprint(ok && time.Until(deadline) > 50*time.Minute && time.Until(deadline) < time.Hour))
		return s.SendMsg(&m)
	}
	for { // echo until the caller has no more
		var m []byte
		if err := s.RecvMsg(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := s.SendMsg(&m); err != nil {
			return err
		}
	}
}

// hung gets how each hanging call ended.
var hung = make(chan error, 1)

func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return "unix://" + filepath.Join(dir, "p.sock")
}

func servePeer(t *testing.T, endpoint string) *grpc.Server {
	t.Helper()
	l, err := plugin.Listen(endpoint, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.UnknownServiceHandler(peer), grpc.ForceServerCodecV2(rawCodec{}))
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return s
}

// run starts one end and returns its address and what stops it.
func run(t *testing.T, c Config) (net.Addr, func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan net.Addr, 1), make(chan error, 1)
	c.Ready = func(a net.Addr) { ready <- a }
	go func() { done <- Run(ctx, c) }()
	var result error
	stop := func() error {
		if cancel != nil {
			cancel()
			cancel, result = nil, <-done
		}
		return result
	}
	t.Cleanup(func() { _ = stop() })
	select {
	case a := <-ready:
		return a, stop
	case err := <-done:
		done <- err // for stop
		t.Fatalf("Run: %v", err)
		return nil, nil
	}
}

func farEnd(t *testing.T, f files, to, peerName string) (string, func() error) {
	t.Helper()
	a, stop := run(t, Config{Listen: "tcp://127.0.0.1:0", Forward: to, Cert: f.cert, Key: f.key, CA: f.ca, PeerName: peerName})
	return a.String(), stop
}

// nearEnd returns a connection to the near end's socket.
func nearEnd(t *testing.T, f files, to, peerName string) *grpc.ClientConn {
	t.Helper()
	endpoint := socket(t)
	run(t, Config{Listen: endpoint, Forward: "tcp://" + to, Cert: f.cert, Key: f.key, CA: f.ca, PeerName: peerName})
	conn, err := grpc.NewClient("unix:"+strings.TrimPrefix(endpoint, "unix://"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func echo(ctx context.Context, conn *grpc.ClientConn, text []byte, opts ...grpc.CallOption) ([]byte, error) {
	var out []byte
	err := conn.Invoke(ctx, "/test/Echo", &text, &out, opts...)
	return out, err
}

// Req: COSI-147, COSI-148
func TestCallsPassThrough(t *testing.T) {
	ca, behind := newAuthority(t), socket(t)
	servePeer(t, behind)
	far, _ := farEnd(t, ca.write(t.TempDir(), leaf{}), behind, "")
	conn, ctx := nearEnd(t, ca.write(t.TempDir(), leaf{}), far, ""), within(t, 30*time.Second)

	t.Run("message and metadata", func(t *testing.T) {
		var header, trailer metadata.MD
		out, err := echo(metadata.AppendToOutgoingContext(ctx, "question", "a", "question", "b"), conn, []byte("x"), grpc.Header(&header), grpc.Trailer(&trailer))
		if err != nil || string(out) != "x" {
			t.Fatalf("got %q %v", out, err)
		}
		if got := header.Get("answer-header"); len(got) != 1 || got[0] != "a,b" {
			t.Errorf("header %v", header)
		}
		if got := header.Get("raw-bin"); len(got) != 1 || got[0] != "\x00\xff" {
			t.Errorf("binary header %q", got)
		}
		if got := trailer.Get("answer-trailer"); len(got) != 1 || got[0] != "t" {
			t.Errorf("trailer %v", trailer)
		}
	})
	t.Run("large and empty messages", func(t *testing.T) {
		for _, size := range []int{0, 1 << 20, 4<<20 - 100} {
			big := bytes.Repeat([]byte{0xa5}, size)
			if out, err := echo(ctx, conn, big); err != nil || !bytes.Equal(out, big) {
				t.Errorf("%d bytes became %d: %v", size, len(out), err)
			}
		}
	})
	t.Run("status with details", func(t *testing.T) {
		var trailer metadata.MD
		in, out := []byte("x"), []byte(nil)
		err := conn.Invoke(ctx, "/test/Fail", &in, &out, grpc.Trailer(&trailer))
		s := status.Convert(err)
		if s.Code() != codes.OutOfRange || s.Message() != "no such region: ü" || len(s.Details()) != 1 {
			t.Errorf("got %v %v", err, s.Details())
		}
		if len(trailer.Get("answer-trailer")) != 1 {
			t.Errorf("trailer %v", trailer)
		}
	})
	t.Run("streams", func(t *testing.T) {
		s, err := conn.NewStream(ctx, anyCall, "/test/Stream")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 { // turn by turn: nothing may wait for the end
			m := []byte(fmt.Sprint(i))
			if err := s.SendMsg(&m); err != nil {
				t.Fatal(err)
			}
			var got []byte
			if err := s.RecvMsg(&got); err != nil || !bytes.Equal(got, m) {
				t.Fatalf("message %d: %q %v", i, got, err)
			}
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		var m []byte
		if err := s.RecvMsg(&m); !errors.Is(err, io.EOF) {
			t.Errorf("end: %v", err)
		}
	})
	t.Run("deadline", func(t *testing.T) {
		in, out := []byte(nil), []byte(nil)
		if err := conn.Invoke(within(t, time.Hour), "/test/Deadline", &in, &out); err != nil || string(out) != "true" {
			t.Errorf("got %q %v", out, err)
		}
	})
	t.Run("cancellation", func(t *testing.T) {
		hanging, cancel := context.WithCancel(ctx)
		s, err := conn.NewStream(hanging, anyCall, "/test/Hang")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Header(); err != nil {
			t.Fatal(err)
		}
		cancel()
		select {
		case err := <-hung:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the plugin saw %v", err)
			}
		case <-ctx.Done():
			t.Error("the plugin never heard of the cancellation")
		}
	})
}

func TestOtherEndAway(t *testing.T) {
	ca, behind := newAuthority(t), socket(t)
	far, stop := farEnd(t, ca.write(t.TempDir(), leaf{}), behind, "")
	conn := nearEnd(t, ca.write(t.TempDir(), leaf{}), far, "")
	unavailable := func(name, want string) {
		t.Helper()
		_, err := echo(within(t, 30*time.Second), conn, nil)
		if s := status.Convert(err); s.Code() != codes.Unavailable || !strings.Contains(s.Message(), want) {
			t.Errorf("%s: got %v, want UNAVAILABLE with %q", name, err, want)
		}
	}
	unavailable("no plugin", "proxy cannot reach "+behind)
	servePeer(t, behind)
	eventually(t, conn) // the plugin has come
	if err := stop(); err != nil {
		t.Errorf("far end stopped with %v", err)
	}
	unavailable("no far end", "proxy cannot reach tcp://"+far)
}

// eventually calls until it works.
func eventually(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := echo(ctx, conn, nil)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("never worked: %v", err)
		case <-tick.C:
		}
	}
}

func TestStopLetsCallsEnd(t *testing.T) {
	ca, behind := newAuthority(t), socket(t)
	servePeer(t, behind)
	far, stop := farEnd(t, ca.write(t.TempDir(), leaf{}), behind, "")
	conn := nearEnd(t, ca.write(t.TempDir(), leaf{}), far, "")
	s, err := conn.NewStream(within(t, 30*time.Second), anyCall, "/test/Stream")
	if err != nil {
		t.Fatal(err)
	}
	turn := func() {
		t.Helper()
		m, got := []byte("x"), []byte(nil)
		if err := errors.Join(s.SendMsg(&m), s.RecvMsg(&got)); err != nil || string(got) != "x" {
			t.Fatalf("got %q %v", got, err)
		}
	}
	turn()
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	ctx := within(t, 30*time.Second)
	for { // until the far end takes no new connection
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", far)
		if err != nil {
			break
		}
		_ = c.Close()
	}
	turn() // the call in flight goes on
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("stopped with %v", err)
	}
}

func TestConfigIsRefused(t *testing.T) {
	f := newAuthority(t).write(t.TempDir(), leaf{})
	other := newAuthority(t).write(t.TempDir(), leaf{})
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unix, tcp := socket(t), "tcp://127.0.0.1:1"
	for name, c := range map[string]Config{
		"two sockets":   {Listen: unix, Forward: unix, Cert: f.cert, Key: f.key, CA: f.ca},
		"two networks":  {Listen: tcp, Forward: tcp, Cert: f.cert, Key: f.key, CA: f.ca},
		"nothing":       {},
		"no port":       {Listen: unix, Forward: "tcp://127.0.0.1", Cert: f.cert, Key: f.key, CA: f.ca},
		"no host":       {Listen: unix, Forward: "tcp://:1", Cert: f.cert, Key: f.key, CA: f.ca},
		"port 0":        {Listen: unix, Forward: "tcp://127.0.0.1:0", Cert: f.cert, Key: f.key, CA: f.ca},
		"no .sock":      {Listen: "unix:///x", Forward: tcp, Cert: f.cert, Key: f.key, CA: f.ca},
		"no cert":       {Listen: unix, Forward: tcp, Key: f.key, CA: f.ca},
		"no key":        {Listen: unix, Forward: tcp, Cert: f.cert, CA: f.ca},
		"no CA":         {Listen: unix, Forward: tcp, Cert: f.cert, Key: f.key},
		"absent CA":     {Listen: unix, Forward: tcp, Cert: f.cert, Key: f.key, CA: f.ca + ".no"},
		"empty CA":      {Listen: unix, Forward: tcp, Cert: f.cert, Key: f.key, CA: empty},
		"foreign key":   {Listen: unix, Forward: tcp, Cert: f.cert, Key: other.key, CA: f.ca},
		"reversed pair": {Listen: unix, Forward: tcp, Cert: f.key, Key: f.cert, CA: f.ca},
	} {
		if err := Run(t.Context(), c); !errors.Is(err, plugin.ErrConfig) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func FuzzParseTCP(f *testing.F) {
	for _, seed := range []string{"tcp://127.0.0.1:1", "tcp://[::1]:1", "tcp://", "tcp://x", "unix:///x.sock", "tcp://a:b:c", "tcp://:https"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, endpoint string) {
		address, err := parseTCP(endpoint)
		if err != nil {
			return
		}
		if _, _, err := net.SplitHostPort(address); err != nil || "tcp://"+address != endpoint {
			t.Errorf("%q became %q: %v", endpoint, address, err)
		}
	})
}
