package control

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/keeper"
	"github.com/fairlead/fairlead/internal/ledger"
	"github.com/fairlead/fairlead/internal/seal"
)

// serve starts the API on a real socket, over a keeper whose one driver never
// answers.
func serve(t *testing.T) (client *Client, socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "fl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	led, err := ledger.Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	key, err := seal.Open(filepath.Join(dir, "host.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := led.PutDriver(claim.Driver{Name: claim.ObjectsDriver, Endpoint: "unix://" + dir + "/nobody.sock"}); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	k, err := keeper.Open(keeper.Config{Ledger: led, Key: key, Log: log, CredsDir: dir, SocketDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "api.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(k, log, func() Status { return Status{Version: "v", Claims: k.Count()} })
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		k.Close()
		if err := led.Close(); err != nil {
			t.Error(err)
		}
	})
	return NewClient(socket), socket
}

func TestClientAndServerAgree(t *testing.T) {
	c, _ := serve(t)
	ctx := t.Context()
	got, err := c.Claim(ctx, ClaimRequest{Name: "photos"}, time.Millisecond)
	if claim.CodeOf(err) != claim.CodeTimeout || got.Claim.Name != "photos" || got.Result != keeper.Created {
		t.Fatalf("%+v, %v: want the claim beside a timeout", got, err)
	}
	if got, err := c.Claim(ctx, ClaimRequest{Name: "photos"}, 0); err != nil || got.Result != keeper.Exists {
		t.Errorf("again: %+v %v", got, err)
	}
	if list, err := c.Claims(ctx); err != nil || len(list) != 1 {
		t.Errorf("%v %v", list, err)
	}
	if events, err := c.Events(ctx, "photos"); err != nil || len(events) == 0 {
		t.Errorf("%v %v", events, err)
	}
	if s, err := c.Status(ctx); err != nil || s.Version != "v" || s.Claims["Pending"] != 1 {
		t.Errorf("%+v %v", s, err)
	}
	if result, err := c.PutBucketClass(ctx, claim.BucketClass{Name: "fast", Driver: "x"}); err != nil || result != keeper.Created {
		t.Errorf("%s %v", result, err)
	}
	if result, err := c.PutAccessClass(ctx, claim.AccessClass{Name: "key"}); err != nil || result != keeper.Created {
		t.Errorf("%s %v", result, err)
	}
	if classes, err := c.BucketClasses(ctx); err != nil || len(classes) != 2 {
		t.Errorf("%v %v", classes, err)
	}
	if classes, err := c.AccessClasses(ctx); err != nil || len(classes) != 1 {
		t.Errorf("%v %v", classes, err)
	}
	_, leaseErr := c.Lease(ctx, "photos", LeaseRequest{Holder: "test"})
	for what, err := range map[string]error{
		"bucket class": c.DeleteBucketClass(ctx, "fast"), "access class": c.DeleteAccessClass(ctx, "key"), "lease": leaseErr,
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if drivers, err := c.Drivers(ctx); err != nil || len(drivers) != 1 {
		t.Errorf("%v %v", drivers, err)
	}
}

func TestEveryErrorHasItsCode(t *testing.T) {
	c, _ := serve(t)
	ctx := t.Context()
	if _, err := c.Claim(ctx, ClaimRequest{Name: "photos"}, 0); err != nil {
		t.Fatal(err)
	}
	_, conflict := c.Claim(ctx, ClaimRequest{Name: "photos", Existing: "x"}, 0)
	_, missing := c.Get(ctx, "nothing")
	_, invalid := c.Get(ctx, "../etc")
	_, notReady := c.Credentials(ctx, "photos", "default")
	_, noAccess := c.RotateAccess(ctx, "photos", "nobody", RotateRequest{}, 0)
	_, badDriver := c.AddDriver(ctx, DriverRequest{Name: "x", Endpoint: "tcp://1.2.3.4"}, 0)
	if _, err := c.Lease(ctx, "photos", LeaseRequest{Holder: "test"}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name string
		err  error
		want claim.Code
	}{
		{"conflict", conflict, claim.CodeConflict},
		{"missing", missing, claim.CodeNotFound},
		{"invalid", invalid, claim.CodeInvalid},
		{"not ready", notReady, claim.CodeTimeout},
		{"no access", noAccess, claim.CodeNotFound},
		{"bad driver", badDriver, claim.CodeInvalid},
		{"leased by this process", c.Release(ctx, "photos", ReleaseRequest{}, 0), claim.CodeInUse},
		{"driver in use", c.RemoveDriver(ctx, claim.ObjectsDriver), claim.CodeInUse},
		{"default class", c.DeleteBucketClass(ctx, claim.DefaultName), claim.CodeInvalid},
	} {
		if claim.CodeOf(x.err) != x.want {
			t.Errorf("%s: %v (%s), want %s", x.name, x.err, claim.CodeOf(x.err), x.want)
		}
	}
	if _, err := NewClient("/nonexistent/api.sock").Status(ctx); claim.CodeOf(err) != claim.CodeUnavailable || !strings.Contains(err.(*claim.Error).Hint, "fairlead up") {
		t.Errorf("no daemon: %v", err)
	}
}

func TestHostileRequests(t *testing.T) {
	c, _ := serve(t)
	for _, x := range []struct{ name, method, path, body, want string }{
		{"malformed", "POST", "/v1/claims", "{\n  \"name\": photos\n}", "line 2, column 12"},
		{"unknown field", "POST", "/v1/claims", `{"nmae":"photos"}`, `unknown field \"nmae\"`},
		{"wrong type", "POST", "/v1/claims", `{"name":7}`, "line 1, column"},
		{"something follows", "POST", "/v1/claims", `{"name":"a"} {"name":"b"}`, "something follows"},
		{"too large", "POST", "/v1/claims", `{"name":"` + strings.Repeat("a", maxBody) + `"}`, "too large"},
		{"empty", "POST", "/v1/claims", "", "line 1"},
		{"bad wait", "POST", "/v1/claims?wait=soon", `{"name":"a"}`, "wait=soon"},
		{"negative wait", "POST", "/v1/claims?wait=-1s", `{"name":"a"}`, "wait=-1s"},
		{"unknown path", "GET", "/v2/claims", "", "/v2/claims"},
		{"unknown method", "DELETE", "/v1/status", "", "DELETE /v1/status"},
		{"two names", "PUT", "/v1/bucketclasses/a", `{"name":"b","driverName":"x"}`, "named otherwise"},
	} {
		req, err := http.NewRequest(x.method, "http://fairlead"+x.path, strings.NewReader(x.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.http.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode/100 != 4 || !bytes.Contains(b, []byte(x.want)) {
			t.Errorf("%s: %s %.300s (%v), want %q", x.name, resp.Status, b, err, x.want)
		}
	}
	if list, err := c.Claims(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("something was claimed: %v %v", list, err)
	}
}

// Who the kernel does not name is nobody, whatever the connection is.
//
// Req: COSI-146
func TestACallerWithoutCredentialsIsRefused(t *testing.T) {
	s := NewServer(nil, slog.New(slog.DiscardHandler), func() Status { return Status{} })
	remote := httptest.NewUnstartedServer(s.http.Handler)
	remote.Config.ConnContext = withPeer
	remote.Start() // TCP: no peer credentials
	defer remote.Close()
	resp, err := http.Get(remote.URL + "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("status %s", resp.Status)
	}
}

// A connection of which nothing was asked of the kernel is nobody's too.
func TestAnUnknownConnectionIsRefused(t *testing.T) {
	s := NewServer(nil, slog.New(slog.DiscardHandler), func() Status { return Status{} })
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/status", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("status %d", w.Code)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"name":"photos"}`, `{"name":`, `[]`, "\x00", `{"access":{"expiry":"x"}}`, `{"access":{"gid":1e99}}`, `{"name":"a"}{}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/v1/claims", bytes.NewReader(body))
		req, err := decode[ClaimRequest](r)
		if err != nil {
			if claim.CodeOf(err) != claim.CodeInvalid {
				t.Errorf("%v", err)
			}
			return
		}
		_ = req.Check(time.Unix(0, 0))
	})
}
