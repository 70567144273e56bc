package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/keeper"
)

// maxBody bounds a request, in bytes; templates are the largest part of one.
const maxBody = 1 << 20

// Server answers the API.
type Server struct {
	keeper *keeper.Keeper
	log    *slog.Logger
	status func() Status
	http   *http.Server
}

// NewServer makes a server over a keeper. status tells what the daemon knows
// of itself.
func NewServer(k *keeper.Keeper, log *slog.Logger, status func() Status) *Server {
	s := &Server{keeper: k, log: log, status: status}
	s.http = &http.Server{
		Handler:           s.guard(s.routes()),
		ConnContext:       withPeer,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	return s
}

// Serve answers on the listener until Close.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close waits for the calls under way, as long as ctx lives, and stops.
func (s *Server) Close(ctx context.Context) error { return s.http.Shutdown(ctx) }

// peer is the process at the other end, as the kernel names it.
type peer struct{ pid, uid int }

// nobody is a peer that the kernel does not name; no user has that number.
var nobody = peer{pid: -1, uid: -1}

type peerKey struct{}

// withPeer asks the kernel who has connected. Where it cannot tell, nobody has.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	p := nobody
	if u, ok := c.(*net.UnixConn); ok {
		if raw, err := u.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) {
				if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
					p = peer{pid: int(cred.Pid), uid: int(cred.Uid)}
				}
			})
		}
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// guard lets in root and the daemon's own user, whatever the socket's mode may
// have become, and bounds what they send.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, known := r.Context().Value(peerKey{}).(peer)
		if !known {
			p = nobody
		}
		if p.uid != 0 && p.uid != os.Getuid() {
			s.log.Warn("refused a caller", "uid", p.uid, "pid", p.pid)
			s.fail(w, claim.Errorf(claim.CodeDenied, "user %d may not use this daemon, which belongs to user %d", p.uid, os.Getuid()), nil)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// routes is the whole API; docs/reference/api.md describes it.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	k := s.keeper
	mux.HandleFunc("GET /v1/status", s.get(func(*http.Request) (any, error) { return s.status(), nil }))
	mux.HandleFunc("GET /v1/claims", s.get(func(*http.Request) (any, error) { return k.List(), nil }))
	mux.HandleFunc("POST /v1/claims", s.change(s.claim))
	mux.HandleFunc("GET /v1/claims/{claim}", s.get(func(r *http.Request) (any, error) { return k.Get(r.PathValue("claim")) }))
	mux.HandleFunc("GET /v1/claims/{claim}/events", s.get(func(r *http.Request) (any, error) { return k.Events(r.PathValue("claim")) }))
	mux.HandleFunc("POST /v1/claims/{claim}/release", s.change(s.release))
	mux.HandleFunc("POST /v1/claims/{claim}/leases", s.change(s.lease))
	mux.HandleFunc("POST /v1/claims/{claim}/accesses", s.change(s.addAccess))
	mux.HandleFunc("POST /v1/claims/{claim}/accesses/{access}/rotate", s.change(s.rotate))
	mux.HandleFunc("POST /v1/claims/{claim}/accesses/{access}/revoke", s.change(s.revoke))
	mux.HandleFunc("GET /v1/claims/{claim}/accesses/{access}/credentials", s.get(func(r *http.Request) (any, error) {
		return k.Credentials(r.PathValue("claim"), r.PathValue("access"))
	}))
	mux.HandleFunc("GET /v1/bucketclasses", s.get(func(*http.Request) (any, error) { return k.BucketClasses(), nil }))
	mux.HandleFunc("PUT /v1/bucketclasses/{name}", s.get(putClass(k.PutBucketClass, func(c claim.BucketClass) string { return c.Name })))
	mux.HandleFunc("DELETE /v1/bucketclasses/{name}", s.get(func(r *http.Request) (any, error) { return nil, k.DeleteBucketClass(r.PathValue("name")) }))
	mux.HandleFunc("GET /v1/accessclasses", s.get(func(*http.Request) (any, error) { return k.AccessClasses(), nil }))
	mux.HandleFunc("PUT /v1/accessclasses/{name}", s.get(putClass(k.PutAccessClass, func(c claim.AccessClass) string { return c.Name })))
	mux.HandleFunc("DELETE /v1/accessclasses/{name}", s.get(func(r *http.Request) (any, error) { return nil, k.DeleteAccessClass(r.PathValue("name")) }))
	mux.HandleFunc("GET /v1/drivers", s.get(func(*http.Request) (any, error) { return k.Drivers(), nil }))
	mux.HandleFunc("POST /v1/drivers", s.get(s.addDriver))
	mux.HandleFunc("DELETE /v1/drivers/{name}", s.get(func(r *http.Request) (any, error) { return nil, k.RemoveDriver(r.PathValue("name")) }))
	mux.HandleFunc("GET /v1/drivers/{name}/log", s.get(func(r *http.Request) (any, error) { return k.DriverLog(r.PathValue("name")) }))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, claim.Errorf(claim.CodeNotFound, "the API has no %s %s", r.Method, r.URL.Path).
			WithHint("the program and the daemon may be of different versions: fairlead version"), nil)
	})
	return mux
}

func (s *Server) claim(ctx context.Context, r *http.Request) (c claim.Claim, result string, err error) {
	req, err := decode[ClaimRequest](r)
	if err != nil {
		return c, "", err
	}
	if result, err = s.keeper.Claim(req); err != nil {
		return c, "", err
	}
	access := ""
	if !req.NoAccess && req.Kind != claim.KindDevice {
		access = claim.DefaultName
		if req.Access != nil && req.Access.Name != "" {
			access = req.Access.Name
		}
	}
	c, err = s.wait(ctx, req.Name, func() (claim.Claim, error) { return s.keeper.Wait(ctx, req.Name, access) })
	return c, result, err
}

func (s *Server) addAccess(ctx context.Context, r *http.Request) (c claim.Claim, result string, err error) {
	name := r.PathValue("claim")
	spec, err := decode[claim.AccessSpec](r)
	if err != nil {
		return c, "", err
	}
	if result, err = s.keeper.AddAccess(name, spec); err != nil {
		return c, "", err
	}
	c, err = s.wait(ctx, name, func() (claim.Claim, error) { return s.keeper.Wait(ctx, name, spec.Name) })
	return c, result, err
}

func (s *Server) rotate(ctx context.Context, r *http.Request) (c claim.Claim, result string, err error) {
	name, access := r.PathValue("claim"), r.PathValue("access")
	req, err := decode[RotateRequest](r)
	if err != nil {
		return c, "", err
	}
	generation, err := s.keeper.RotateAccess(name, access, time.Duration(req.Grace))
	if err != nil {
		return c, "", err
	}
	c, err = s.wait(ctx, name, func() (claim.Claim, error) { return s.keeper.WaitRotated(ctx, name, access, generation) })
	return c, keeper.Changed, err
}

func (s *Server) revoke(ctx context.Context, r *http.Request) (c claim.Claim, result string, err error) {
	name, access := r.PathValue("claim"), r.PathValue("access")
	if err := s.keeper.RevokeAccess(name, access); err != nil {
		return c, "", err
	}
	c, err = s.wait(ctx, name, func() (claim.Claim, error) { return s.keeper.WaitRevoked(ctx, name, access) })
	return c, keeper.Changed, err
}

func (s *Server) release(ctx context.Context, r *http.Request) (c claim.Claim, result string, err error) {
	name := r.PathValue("claim")
	req, err := decode[ReleaseRequest](r)
	if err != nil {
		return c, "", err
	}
	if err := s.keeper.Release(name, req); err != nil {
		return c, "", err
	}
	if _, waits := ctx.Deadline(); waits {
		c, err = s.keeper.WaitGone(ctx, name)
	}
	return c, keeper.Changed, err
}

func (s *Server) lease(ctx context.Context, r *http.Request) (c claim.Claim, result string, err error) {
	name := r.PathValue("claim")
	req, err := decode[LeaseRequest](r)
	if err != nil {
		return c, "", err
	}
	p, _ := ctx.Value(peerKey{}).(peer)
	if err := s.keeper.Lease(name, req.Holder, p.pid); err != nil {
		return c, "", err
	}
	c, err = s.keeper.Get(name)
	return c, keeper.Changed, err
}

func (s *Server) addDriver(r *http.Request) (any, error) {
	req, err := decode[DriverRequest](r)
	if err != nil {
		return nil, err
	}
	ctx, cancel, err := waitContext(r)
	if err != nil {
		return nil, err
	}
	defer cancel()
	return s.keeper.AddDriver(ctx, req.Name, req.Endpoint, req.Exec)
}

// wait waits if the caller asked for it, and else tells how things are.
func (s *Server) wait(ctx context.Context, name string, wait func() (claim.Claim, error)) (claim.Claim, error) {
	if _, waits := ctx.Deadline(); waits {
		return wait()
	}
	return s.keeper.Get(name)
}

func putClass[T any](put func(T) (string, error), name func(T) string) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		class, err := decode[T](r)
		if err != nil {
			return nil, err
		}
		if name(class) != r.PathValue("name") {
			return nil, claim.Errorf(claim.CodeInvalid, "the class is named otherwise in its body")
		}
		return put(class)
	}
}

// get answers with what fn returns; nil is an empty answer.
func (s *Server) get(fn func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := fn(r)
		if err != nil {
			s.fail(w, err, nil)
			return
		}
		if v == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		s.answer(w, http.StatusOK, v)
	}
}

// change answers with a claim, beside the error if there is one. ?wait= gives
// the context a deadline.
func (s *Server) change(fn func(context.Context, *http.Request) (claim.Claim, string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel, err := waitContext(r)
		if err != nil {
			s.fail(w, err, nil)
			return
		}
		defer cancel()
		c, result, err := fn(ctx, r)
		if err != nil && c.Name == "" {
			s.fail(w, err, nil)
			return
		}
		if err != nil {
			s.fail(w, err, &ClaimResponse{Claim: c, Result: result})
			return
		}
		s.answer(w, http.StatusOK, ClaimResponse{Claim: c, Result: result})
	}
}

func waitContext(r *http.Request) (context.Context, context.CancelFunc, error) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return r.Context(), func() {}, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 {
		return nil, nil, claim.Errorf(claim.CodeInvalid, "wait=%s is no duration", text)
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	return ctx, cancel, nil
}

// httpStatus of each code.
var httpStatus = map[claim.Code]int{
	claim.CodeInternal:    http.StatusInternalServerError,
	claim.CodeInvalid:     http.StatusBadRequest,
	claim.CodeNotFound:    http.StatusNotFound,
	claim.CodeConflict:    http.StatusConflict,
	claim.CodeInUse:       http.StatusLocked,
	claim.CodeDenied:      http.StatusForbidden,
	claim.CodeUnavailable: http.StatusServiceUnavailable,
	claim.CodeTimeout:     http.StatusGatewayTimeout,
	claim.CodeDriver:      http.StatusBadGateway,
}

// fail answers with an error, and with the claim that it is about if there is
// one.
func (s *Server) fail(w http.ResponseWriter, err error, about *ClaimResponse) {
	e, ok := errors.AsType[*claim.Error](err)
	if !ok {
		e = claim.Errorf(claim.CodeInternal, "%v", err)
		s.log.Error("a call failed", "error", err)
	}
	body := struct {
		*ClaimResponse
		errorBody
	}{about, errorBody{e}}
	s.answer(w, httpStatus[e.Code], body)
}

func (s *Server) answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.log.Debug("the caller left", "error", err)
	}
}

// decode reads a body strictly: one JSON value, no unknown fields. An error
// names the line and column.
func decode[T any](r *http.Request) (v T, err error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return v, claim.Errorf(claim.CodeInvalid, "read the request: %v", err)
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, claim.Errorf(claim.CodeInvalid, "the request at %s: %s", position(text, d.InputOffset(), err), strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return v, claim.Errorf(claim.CodeInvalid, "the request at %s: something follows the JSON value", position(text, d.InputOffset(), nil))
	}
	return v, nil
}

// position is where in a text an error is, for a person.
func position(text []byte, offset int64, err error) string {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = e.Offset
	} else if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = e.Offset
	}
	before := string(text[:min(int(offset), len(text))])
	return fmt.Sprintf("line %d, column %d", strings.Count(before, "\n")+1, len(before)-strings.LastIndexByte(before, '\n'))
}
