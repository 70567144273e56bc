package cosi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

// suite is one check of one driver.
type suite struct {
	cfg    Config
	conn   *grpc.ClientConn
	seen   watcher
	socket string
	runID  string // names of this check differ from those of any other
	serial atomic.Int64
}

// open connects and waits until the driver answers anything at all.
func open(ctx context.Context, cfg Config) (*suite, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = "fl-check"
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	socket, ok := strings.CutPrefix(cfg.Endpoint, "unix://")
	if !ok || !filepath.IsAbs(socket) {
		return nil, fmt.Errorf("endpoint %q is not of the form unix:///path/to/socket.sock", cfg.Endpoint)
	}
	id := make([]byte, 4)
	_, _ = rand.Read(id) // never fails
	s := &suite{cfg: cfg, socket: socket, runID: hex.EncodeToString(id)}
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(s.limitTime, s.seen.intercept),
		// A restarted driver is noticed at once.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return nil, fmt.Errorf("connect to driver: %w", err)
	}
	s.conn = conn
	if err := s.await(ctx); err != nil {
		s.close()
		return nil, fmt.Errorf("connect to driver at %s: %w", cfg.Endpoint, err)
	}
	return s, nil
}

func (s *suite) close() { _ = s.conn.Close() }

// await returns when the driver answers; what it answers is no matter, unless
// that is UNAVAILABLE, which is also how a connection breaks.
func (s *suite) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	for {
		if _, err := os.Stat(s.socket); err != nil && s.cfg.Restart == nil {
			return err
		}
		_, err := cosipb.NewIdentityClient(s.conn).DriverGetInfo(ctx, &cosipb.DriverGetInfoRequest{}, grpc.WaitForReady(true))
		if ctx.Err() != nil {
			return fmt.Errorf("nobody answers: %w", err)
		}
		if status.Code(err) != codes.Unavailable {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// limitTime gives each call a deadline, unless the case gave it one.
func (s *suite) limitTime(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if _, ok := ctx.Deadline(); !ok {
		limited, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
		defer cancel()
		ctx = limited
	}
	return next(ctx, method, req, reply, cc, opts...)
}

// name is a name that nobody has used; it follows the rules of S3 buckets.
func (s *suite) name() string {
	return fmt.Sprintf("%s-%s-%d", s.cfg.Prefix, s.runID, s.serial.Add(1))
}

// run runs one case, with what it made removed afterwards.
func (s *suite) run(ctx context.Context, c Case) Result {
	start := time.Now()
	t := &T{
		suite: s, ctx: ctx,
		Identity:    cosipb.NewIdentityClient(s.conn),
		Provisioner: cosipb.NewProvisionerClient(s.conn),
	}
	t.protect(func() { c.Run(t) })
	t.cleanUp()
	res := Result{Case: c, Outcome: Passed, Messages: t.messages, Took: time.Since(start)}
	switch {
	case t.failed:
		res.Outcome = Failed
	case t.skipped:
		res.Outcome = Skipped
	}
	return res
}
