package plugin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/fairlead/fairlead/internal/plugin"
)

// echo is a service of another specification: nothing of COSI is in it. Its
// one message has fields marked csi_secret and the plain field "plain".
type echo struct {
	desc protoreflect.MessageDescriptor
	do   func(context.Context, *dynamicpb.Message) (proto.Message, error)
}

func (e echo) register(r grpc.ServiceRegistrar) {
	handler := func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		req := dynamicpb.NewMessage(e.desc)
		if err := decode(req); err != nil {
			return nil, err
		}
		return interceptor(ctx, req, &grpc.UnaryServerInfo{FullMethod: "/test.Echo/Echo"}, func(ctx context.Context, _ any) (any, error) {
			return e.do(ctx, req)
		})
	}
	r.RegisterService(plugin.BlameCaller(grpc.ServiceDesc{
		ServiceName: "test.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: handler}},
	}), e)
}

// plain is the value of the field "plain", which names the object of a call.
func plain(m proto.Message) string {
	r := m.ProtoReflect()
	return r.Get(r.Descriptor().Fields().ByName("plain")).String()
}

type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// run serves e and returns how to call it, and how to stop and read its log.
func run(t *testing.T, e echo) (call func(proto.Message) (*dynamicpb.Message, error), stop func() string) {
	t.Helper()
	path, log := socketPath(t), &buffer{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := plugin.Server{
		Name: "echo", Endpoint: "unix://" + path, Services: e.register,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Guard: &plugin.Guard{
			Rules:  plugin.NewRules(plugin.Tables{MaxBytes: map[protoreflect.FullName]int{"test.Marked.plain": 192}}),
			Object: func(m proto.Message) (string, string) { return "volume", plain(m) },
		},
	}
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceValue(func() string {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run returned %v", err)
		}
		return log.text.String()
	})
	t.Cleanup(func() { stop() })
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return func(req proto.Message) (*dynamicpb.Message, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		resp := dynamicpb.NewMessage(e.desc)
		return resp, conn.Invoke(ctx, "/test.Echo/Echo", req, resp)
	}, stop
}

func TestGuardServesAnotherSpecification(t *testing.T) {
	desc := secretMessage(t, 1059, 1)
	e := echo{desc: desc, do: func(_ context.Context, m *dynamicpb.Message) (proto.Message, error) {
		switch plain(m) {
		case "fail":
			return nil, fmt.Errorf("login with %s: %w", m.Get(desc.Fields().ByName("token")).String(), errors.New("refused"))
		case "panic":
			panic("token " + m.Get(desc.Fields().ByName("token")).String())
		}
		return m, nil
	}}
	call, stop := run(t, e)
	with := func(text string) proto.Message {
		m := marked(desc)
		m.Set(desc.Fields().ByName("plain"), protoreflect.ValueOfString(text))
		return m
	}
	resp, err := call(with("fine"))
	if err != nil || plain(resp) != "fine" {
		t.Errorf("%v, %v", resp, err)
	}
	for text, want := range map[string]struct {
		code codes.Code
		text string
	}{
		"fail":                   {codes.Internal, "login with ***: refused"},
		"panic":                  {codes.Internal, "the driver panicked: token *** in Echo; its log holds the stack"},
		strings.Repeat("a", 193): {codes.InvalidArgument, "field plain has 193 bytes, more than the limit of 192"},
	} {
		_, err := call(with(text))
		if s := status.Convert(err); s.Code() != want.code || s.Message() != want.text {
			t.Errorf("%.5s: got %v, want %v %s", text, err, want.code, want.text)
		}
	}
	if _, err := call(with(strings.Repeat("a", 192))); err != nil {
		t.Errorf("the overriding limit itself: %v", err)
	}
	if log := stop(); strings.Contains(log, "hush") || !strings.Contains(log, "level=DEBUG msg=call") {
		t.Errorf("log:\n%s", log)
	}
}

func TestGuardLocksObjects(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	desc := secretMessage(t, 1059, 1)
	call, _ := run(t, echo{desc: desc, do: func(_ context.Context, m *dynamicpb.Message) (proto.Message, error) {
		if plain(m) == "slow" {
			entered <- struct{}{}
			<-leave
		}
		return m, nil
	}})
	with := func(text string) proto.Message {
		m := dynamicpb.NewMessage(desc)
		m.Set(desc.Fields().ByName("plain"), protoreflect.ValueOfString(text))
		return m
	}
	first := make(chan error, 1)
	go func() { _, err := call(with("slow")); first <- err }()
	<-entered
	if _, err := call(with("slow")); status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), `another call is pending for volume "slow"`) {
		t.Errorf("second call: %v", err)
	}
	for _, other := range []string{"other", ""} {
		if _, err := call(with(other)); err != nil {
			t.Errorf("unrelated call %q: %v", other, err)
		}
	}
	close(leave)
	if err := <-first; err != nil {
		t.Errorf("first call: %v", err)
	}
}

func BenchmarkCheckMessage(b *testing.B) {
	m := grantAnswer(map[string]string{"endpoint": "http://127.0.0.1:9000", "region": "eu", "accessKeyID": "AKIAIOSFODNN7EXAMPLE", "accessSecretKey": "wJalrXUtnFEMI"})
	for b.Loop() {
		if err := plugin.CheckMessage(m, someRules); err != nil {
			b.Fatal(err)
		}
	}
}
