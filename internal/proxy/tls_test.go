package proxy

import (
	"crypto/tls"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// shake makes a TLS connection to the far end and waits for its first byte: in
// TLS 1.3 a client hears of its refusal only then.
func shake(t *testing.T, address string, c *tls.Config) error {
	t.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", address, c)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// Req: COSI-148
func TestFarEndRefuses(t *testing.T) {
	ca, stranger, behind := newAuthority(t), newAuthority(t), socket(t)
	servePeer(t, behind)
	far, _ := farEnd(t, ca.write(t.TempDir(), leaf{}), behind, "near.example.com")
	good := leaf{name: "near.example.com"}
	if err := shake(t, far, ca.client(good)); err != nil {
		t.Fatalf("a good client is refused: %v", err)
	}
	none, old, foreign := ca.client(good), ca.client(good), stranger.client(good)
	none.Certificates = nil
	old.MaxVersion = tls.VersionTLS12
	foreign.RootCAs = ca.pool()
	for name, c := range map[string]*tls.Config{
		"no client certificate": none,
		"TLS 1.2":               old,
		"another CA":            foreign,
		"expired":               ca.client(leaf{name: "near.example.com", expired: true}),
		"another name":          ca.client(leaf{name: "else.example.com"}),
	} {
		if err := shake(t, far, c); err == nil {
			t.Errorf("%s: was let in", name)
		} else if !strings.Contains(err.Error(), "remote error: tls:") {
			t.Errorf("%s: refused otherwise than by TLS: %v", name, err)
		}
	}
	conn, err := net.Dial("tcp", far)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	answer := make([]byte, 64)
	if n, _ := conn.Read(answer); n > 0 && answer[0] != 21 { // 21: a TLS alert
		t.Errorf("plain text was answered with %q", answer[:n])
	}
}

// Req: COSI-148
func TestNearEndRefuses(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	mine := ca.write(t.TempDir(), leaf{})
	for name, tt := range map[string]struct {
		server   *tls.Config
		peerName string
		want     string
	}{
		"another CA":   {server: stranger.client(leaf{}), want: "unknown authority"},
		"expired":      {server: ca.client(leaf{expired: true}), want: "expired"},
		"another name": {server: ca.client(leaf{name: "else.example.com"}), want: "127.0.0.1"},
		"PeerName":     {server: ca.client(leaf{}), peerName: "far.example.com", want: "far.example.com"},
		"TLS 1.2":      {server: func() *tls.Config { c := ca.client(leaf{}); c.MaxVersion = tls.VersionTLS12; return c }(), want: "protocol version"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := tls.Listen("tcp", "127.0.0.1:0", tt.server)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_ = c.(*tls.Conn).Handshake()
					_ = c.Close()
				}
			}()
			t.Cleanup(func() { _ = l.Close(); <-done })
			conn := nearEnd(t, mine, l.Addr().String(), tt.peerName)
			_, err = echo(within(t, 30*time.Second), conn, nil)
			if s := status.Convert(err); s.Code() != codes.Unavailable || !strings.Contains(s.Message(), tt.want) {
				t.Errorf("got %v, want UNAVAILABLE with %q", err, tt.want)
			}
		})
	}
}

// Req: COSI-148
func TestRotationIsPickedUp(t *testing.T) {
	old, next, behind := newAuthority(t), newAuthority(t), socket(t)
	servePeer(t, behind)
	farDir, nearDir := t.TempDir(), t.TempDir()
	farFiles := old.write(farDir, leaf{})
	far, stop := farEnd(t, farFiles, behind, "")
	conn := nearEnd(t, old.write(nearDir, leaf{}), far, "")
	eventually(t, conn)

	oldClient, newClient := old.client(leaf{}), next.client(leaf{})
	if shake(t, far, oldClient) != nil || shake(t, far, newClient) == nil {
		t.Fatal("before the rotation")
	}
	next.write(farDir, leaf{})
	if err := shake(t, far, newClient); err != nil {
		t.Errorf("the new CA is refused: %v", err)
	}
	oldClient.RootCAs = next.pool()
	if shake(t, far, oldClient) == nil {
		t.Error("the old CA is still accepted")
	}
	t.Run("half a rotation changes nothing", func(t *testing.T) {
		key, err := os.ReadFile(farFiles.key)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(farFiles.key, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := shake(t, far, newClient); err != nil {
			t.Errorf("refused: %v", err)
		}
		if err := os.WriteFile(farFiles.key, key, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("near end", func(t *testing.T) {
		// The connection that stands lives on; one that is new takes the new files.
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		run(t, Config{Listen: "tcp://" + far, Forward: behind, Cert: farFiles.cert, Key: farFiles.key, CA: farFiles.ca})
		if _, err := echo(within(t, 30*time.Second), conn, nil); status.Code(err) != codes.Unavailable {
			t.Errorf("with the old files: %v", err)
		}
		next.write(nearDir, leaf{})
		eventually(t, conn)
	})
}
