package cosi

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

var created = always(&cosipb.DriverCreateBucketResponse{BucketId: "id-1"})

// Req: COSI-028, COSI-115, COSI-137, COSI-138, COSI-145, COSI-152, COSI-154
func TestDialAsksTheNameFirst(t *testing.T) {
	path := scriptedSocket(t)
	p := play(t, path, named("driver.example.com", nil))
	c := dialScript(t, path)
	if c.Name() != "driver.example.com" || c.Protocol() != ProtocolV1Alpha1 {
		t.Errorf("got %q %q", c.Name(), c.Protocol())
	}
	if p.count("DriverGetInfo") != 1 || len(p.calls) != 1 {
		t.Errorf("calls: %v", p.calls)
	}
}

// Req: COSI-142, COSI-145, COSI-169
func TestDialTakesOnlyUNIXSockets(t *testing.T) {
	for _, endpoint := range []string{
		"", "tcp://127.0.0.1:1", "dns:///x", "/run/x.sock", "unix://rel.sock", "unix:///run/x", "unix:///x\x00.sock",
		"unix:///" + strings.Repeat("a", 200) + ".sock",
	} {
		_, err := Dial(t.Context(), endpoint)
		if status.Code(err) != codes.InvalidArgument || !Terminal(err) {
			t.Errorf("Dial(%q) = %v, want INVALID_ARGUMENT", endpoint, err)
		}
	}
}

// Req: COSI-154
func TestDialWaitsForTheSocket(t *testing.T) {
	path := filepath.Join(filepath.Dir(scriptedSocket(t)), "later", "c.sock")
	result := make(chan error, 1)
	go func() {
		c, err := Dial(scriptedContext(t, 30*time.Second), "unix://"+path, DialBackoff(time.Millisecond, 5*time.Millisecond))
		if err == nil {
			err = c.Close()
		}
		result <- err
	}()
	// Every stage on the way: no directory, an empty one, a socket nobody listens at.
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	select {
	case err := <-result:
		t.Fatalf("Dial returned %v before there was a plugin", err)
	default:
	}
	play(t, path, named("d", nil))
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

// Req: COSI-154
func TestWatchSeesTheSocketAppear(t *testing.T) {
	path := scriptedSocket(t)
	w := watchSocket(path)
	defer w.close()
	if w.watcher == nil {
		t.Skip("inotify is not to be had here")
	}
	other := play(t, filepath.Join(filepath.Dir(path), "other.sock"), nil) // not ours: no event
	defer other.server.Stop()
	changed := make(chan bool, 1)
	go func() {
		ok, err := w.wait(scriptedContext(t, 30*time.Second), context.Background(), time.Hour)
		changed <- ok && err == nil
	}()
	play(t, path, nil)
	if !<-changed {
		t.Error("the watch did not report the new socket")
	}
}

// Without inotify, as where its instances are used up, the timer is the poll.
func TestWatchPollsWithoutInotify(t *testing.T) {
	w := &socketWatch{path: scriptedSocket(t)}
	defer w.close()
	if changed, err := w.wait(t.Context(), context.Background(), time.Millisecond); changed || err != nil {
		t.Errorf("got %v %v", changed, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.wait(over, context.Background(), time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("context ended: %v", err)
	}
	if _, err := w.wait(t.Context(), over, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("client closed: %v", err)
	}
}

func TestDialSaysWhatItWaitsFor(t *testing.T) {
	path := scriptedSocket(t)
	plain := filepath.Join(filepath.Dir(path), "plain.sock")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{path: "no socket at " + path + " yet", plain: plain + " is no socket"} {
		_, err := Dial(scriptedContext(t, 30*time.Millisecond), "unix://"+path, DialBackoff(time.Millisecond, time.Millisecond))
		if status.Code(err) != codes.DeadlineExceeded || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want DEADLINE_EXCEEDED with %q", err, want)
		}
	}
}

// A peer that talks no gRPC, or not at all, is waited for and named.
func TestDialGarbageAndSilence(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"garbage": func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.9\r\n")); _ = c.Close() },
		"silence": func(c net.Conn) { _, _ = c.Read(make([]byte, 1<<16)); _, _ = c.Read(make([]byte, 1<<16)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := scriptedSocket(t)
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			accepting := make(chan struct{})
			go func() {
				defer close(accepting)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					t.Cleanup(func() { _ = c.Close() })
					go serve(c)
				}
			}()
			t.Cleanup(func() { _ = l.Close(); <-accepting })
			_, err = Dial(scriptedContext(t, 60*time.Millisecond), "unix://"+path,
				DialBackoff(time.Millisecond, time.Millisecond), DialAttemptTimeout(20*time.Millisecond))
			if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Req: COSI-046, COSI-047, COSI-049, COSI-081, COSI-083
func TestDialRefusesInvalidNames(t *testing.T) {
	for _, name := range []string{"", "-a", "a-", ".a", "a_b", "a b", "ä", strings.Repeat("a", 64), strings.Repeat("a", 200)} {
		path := scriptedSocket(t)
		play(t, path, named(name, nil))
		_, err := Dial(scriptedContext(t, 30*time.Second), "unix://"+path)
		if !errors.Is(err, ErrAnswer) || !strings.Contains(err.Error(), "name") || Terminal(err) {
			t.Errorf("name %q: got %v", name, err)
		}
	}
	path := scriptedSocket(t)
	play(t, path, named(strings.Repeat("a", 63), nil))
	dialScript(t, path)
}

func TestDialNeitherProtocol(t *testing.T) {
	path := scriptedSocket(t)
	play(t, path, nil)
	_, err := Dial(scriptedContext(t, 30*time.Second), "unix://"+path)
	if status.Code(err) != codes.Unimplemented || !Terminal(err) {
		t.Errorf("got %v", err)
	}
}

func TestClientFollowsRestarts(t *testing.T) {
	path := scriptedSocket(t)
	first := play(t, path, named("d", nil))
	c := dialScript(t, path)
	create := func() error {
		_, err := c.CreateBucket(scriptedContext(t, 30*time.Second), "b", nil)
		return err
	}
	// Req: COSI-108
	t.Run("UNIMPLEMENTED is remembered", func(t *testing.T) {
		for range 3 {
			if err := create(); status.Code(err) != codes.Unimplemented {
				t.Fatalf("got %v", err)
			}
		}
		if n := first.count("DriverCreateBucket"); n != 1 {
			t.Errorf("%d calls on the wire", n)
		}
	})
	t.Run("until another process answers", func(t *testing.T) {
		first.server.Stop()
		second := play(t, path, named("d", answers{"DriverCreateBucket": created}))
		if err := create(); err != nil {
			t.Fatal(err)
		}
		if n := second.count("DriverGetInfo"); n != 1 {
			t.Errorf("the new process was asked its name %d times", n)
		}
	})
	t.Run("though the old process still answers", func(t *testing.T) {
		third := play(t, path, named("d", answers{"DriverCreateBucket": created}))
		if err := create(); err != nil {
			t.Fatal(err)
		}
		if third.count("DriverCreateBucket") != 1 {
			t.Error("the call went to the old process")
		}
	})
	t.Run("but not to another driver", func(t *testing.T) {
		fourth := play(t, path, named("e", answers{"DriverCreateBucket": created}))
		err := create()
		if !errors.Is(err, ErrDriverChanged) || Terminal(err) || Retryable(err) || !strings.Contains(err.Error(), `"e"`) {
			t.Errorf("got %v", err)
		}
		if fourth.count("DriverCreateBucket") != 0 {
			t.Error("the wrong driver was called")
		}
		if c.Name() != "d" {
			t.Errorf("name became %q", c.Name())
		}
	})
	t.Run("and back", func(t *testing.T) {
		play(t, path, named("d", answers{"DriverCreateBucket": created}))
		if err := create(); err != nil {
			t.Fatal(err)
		}
	})
}

// Req: COSI-088
func TestClientPluginDiesMidCall(t *testing.T) {
	path := scriptedSocket(t)
	inCall := make(chan struct{})
	first := play(t, path, named("d", answers{"DriverCreateBucket": func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		close(inCall)
		<-ctx.Done()
		return nil, ctx.Err()
	}}))
	c := dialScript(t, path)
	result := make(chan error, 1)
	go func() {
		_, err := c.CreateBucket(scriptedContext(t, 30*time.Second), "b", nil)
		result <- err
	}()
	<-inCall
	first.server.Stop()
	play(t, path, named("d", answers{"DriverCreateBucket": created}))
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

func TestClientClose(t *testing.T) {
	path := scriptedSocket(t)
	inCall := make(chan struct{})
	play(t, path, named("d", answers{"DriverDeleteBucket": func(ctx context.Context, _ proto.Message) (proto.Message, error) {
		close(inCall)
		<-ctx.Done()
		return nil, ctx.Err()
	}}))
	c := dialScript(t, path)
	result := make(chan error, 1)
	go func() { result <- c.DeleteBucket(context.Background(), "b", nil) }()
	<-inCall
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-result; status.Code(err) != codes.Canceled {
		t.Errorf("in flight: %v", err)
	}
	if err := c.DeleteBucket(context.Background(), "b", nil); status.Code(err) != codes.Canceled {
		t.Errorf("later: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}
