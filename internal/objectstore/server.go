package objectstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"
	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/kv"
)

// What one host's endpoint takes at a time. Beyond maxRequests clients are told
// to slow down, which they do.
const (
	maxConnections = 4096
	maxRequests    = 512
	maxParts       = 10_000
	copyBuffer     = 256 << 10 // per upload in flight
	maxCopySize    = 5 << 30   // S3's own limit for copying in one request
	lingerTime     = time.Second
)

// server is the listening S3 endpoint.
type server struct {
	api      *s3api.S3ApiServer
	requests gate // those under way
	gateway  *gateway
	endpoint string
	failed   chan error
	done     chan struct{}
}

// listen starts the S3 endpoint and returns once it accepts connections. A port
// that is taken is tried again for a while: the process before this one may
// still be dying.
func (s *Store) listen(ctx context.Context) (_ *server, err error) {
	g, err := s.newGateway()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			g.Shutdown()
		}
	}()
	deadline := time.Now().Add(patience)
	for {
		address, chosen, err := s.address(ctx)
		if err != nil {
			return nil, err
		}
		srv := &server{gateway: g, failed: make(chan error, 1)}
		if srv.endpoint, err = s.publicEndpoint(address); err != nil {
			return nil, err
		}
		err = srv.start(s, address)
		if err == nil && chosen {
			err = s.keepPort(address)
		}
		if err == nil {
			return srv, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) || time.Now().After(deadline) {
			return nil, fmt.Errorf("serve S3 on %s: %w", address, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// newGateway opens the backend. Opening it changes the working directory.
func (s *Store) newGateway() (*gateway, error) {
	opts := posix.PosixOpts{
		VersioningDir:       s.versionsDir(),
		CopyObjectThreshold: maxCopySize,
		IOBufferSize:        copyBuffer,
		// Named temporary files keep names of the full 255 bytes possible,
		// and what a crash leaves of them is out of sight in .sgwtmp.
		ForceNoTmpFile: true,
		// One process serves a store: see ErrLocked.
		ForceNoObjLockFile:  true,
		ValidateBucketNames: true,
	}
	opts.SetNewDirPerm(0o700)
	opts.SetNewFilePerm(0o600)
	p, err := quietly(func() (*posix.Posix, error) {
		return posix.New(s.bucketsDir(), attributes{s: s}, opts)
	})
	if err != nil {
		return nil, fmt.Errorf("open S3 backend: %w", err)
	}
	return &gateway{posix: p, s: s, owner: "FLROOT" + rand.Text()[:14]}, nil
}

// quietly keeps the backend's greeting off standard output, which belongs to
// whoever runs this process.
func quietly[T any](f func() (T, error)) (v T, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return v, err
	}
	defer null.Close()
	stdout := os.Stdout
	os.Stdout = null
	defer func() { os.Stdout = stdout }()
	return f()
}

// start binds and serves once; it returns when the endpoint accepts
// connections, or with the reason why it does not.
func (srv *server) start(s *Store, address string) error {
	var once sync.Once
	ready := make(chan struct{})
	opts := []s3api.Option{
		s3api.WithQuiet(),
		s3api.WithKeepAlive(),
		s3api.WithDisableACL(),
		s3api.WithConcurrencyLimiter(maxConnections, maxRequests),
		s3api.WithMpMaxParts(maxParts),
		s3api.WithMiddleware("/", srv.guard),
		s3api.WithOnListen(func() { once.Do(func() { close(ready) }) }),
	}
	root := middlewares.RootUserConfig{Access: srv.gateway.owner, Secret: rand.Text() + rand.Text()}
	api, err := s3api.New(srv.gateway, root, s.cfg.Region, iam{s}, nil, nil, nil, nil, opts...)
	if err != nil {
		return err
	}
	if s.cfg.CertFile != "" {
		api.CertStorage = newLike(api.CertStorage)
		if err := api.CertStorage.SetCertificate(s.cfg.CertFile, s.cfg.KeyFile); err != nil {
			return err
		}
	}
	ended := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		ended <- api.ServeMultiPort([]string{address})
		close(done)
	}()
	select {
	case err := <-ended:
		if err == nil {
			err = errors.New("the S3 server ended at once")
		}
		return err
	case <-ready:
	}
	srv.api, srv.done = api, done
	go func() {
		if err := <-ended; err != nil {
			srv.failed <- fmt.Errorf("serve S3: %w", err)
		}
	}()
	return nil
}

// newLike makes a zero value of a type that has no name outside its module.
func newLike[T any](*T) *T { return new(T) }

// close stops serving: requests under way are finished, for up to drainTime,
// and new ones turned away. Connections that never carried a request would keep
// the server for ten seconds; they get lingerTime.
func (srv *server) close() error {
	drained := srv.requests.close()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			// The server says that it is ready a moment before it can be
			// stopped, and takes no notice of being told in that moment.
			srv.api.ShutDown()
			select {
			case <-srv.done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	defer srv.gateway.Shutdown()
	select {
	case <-drained:
	case <-time.After(drainTime):
		return errors.New("stop the S3 endpoint: requests are still under way")
	}
	select {
	case <-stopped:
	case <-time.After(lingerTime):
	}
	return nil
}

// address is where to listen. For port 0 it is the port that was kept, or else
// a free one, chosen now: credentials name it, so it has to stay.
func (s *Store) address(ctx context.Context) (address string, chosen bool, err error) {
	host, port, err := net.SplitHostPort(s.cfg.Listen)
	if err != nil {
		return "", false, fail(ErrInvalid, "S3 listen address %q: must be HOST:PORT", s.cfg.Listen)
	}
	if (s.cfg.CertFile == "") != (s.cfg.KeyFile == "") {
		return "", false, fail(ErrInvalid, "an S3 certificate and its key are given together or not at all")
	}
	if port != "0" {
		return s.cfg.Listen, false, nil
	}
	var kept []byte
	err = s.db.View(func(tx *kv.Tx) error {
		kept = tx.Bucket(serverTable).Get("port " + host)
		return nil
	})
	if err != nil {
		return "", false, fmt.Errorf("read the S3 port: %w", err)
	}
	if kept != nil {
		return net.JoinHostPort(host, string(kept)), false, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", false, fmt.Errorf("find a free S3 port: %w", err)
	}
	defer l.Close()
	return net.JoinHostPort(host, strconv.Itoa(l.Addr().(*net.TCPAddr).Port)), true, nil
}

func (s *Store) keepPort(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	err = s.db.Update(func(tx *kv.Tx) error {
		return tx.Bucket(serverTable).Put("port "+host, []byte(port))
	})
	return spaceOr(err)
}

// publicEndpoint is the URL that credentials name.
func (s *Store) publicEndpoint(address string) (string, error) {
	if p := s.cfg.PublicEndpoint; p != "" {
		u, err := url.Parse(p)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "", fail(ErrInvalid, "public S3 endpoint %q: must be a URL such as https://s3.example.com", p)
		}
		return strings.TrimSuffix(p, "/"), nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = ownAddress(ip)
	}
	scheme := "http"
	if s.cfg.CertFile != "" {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port), nil
}

// ownAddress is the host's first address that others can reach, for a listener
// on all of them.
func ownAddress(listen net.IP) string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	onlyV4 := listen != nil && listen.To4() != nil
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || !n.IP.IsGlobalUnicast() || onlyV4 && n.IP.To4() == nil {
			continue
		}
		return n.IP.String()
	}
	return "127.0.0.1"
}
