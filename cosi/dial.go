package cosi

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/fairlead/fairlead/internal/plugin"
)

// The protocols that a [Client] can speak.
const (
	ProtocolV1Alpha1 = "v1alpha1"
	ProtocolDraft    = "draft" // the older draft: ProvisionerCreateBucket and so on
)

// Client calls one COSI plugin over its UNIX socket (COSI-137, COSI-145). It
// follows the socket: when the plugin restarts, calls wait for it, connect
// again and ask its name first.
//
// Its calls retry by themselves, with exponential back-off, where the
// specification's tables allow it (see [Retryable]) and as long as their
// context lives; give each a deadline. It keeps one call in flight per bucket:
// a second one for the same bucket waits its turn, others never wait (COSI-077,
// DRAFT-028). Errors are gRPC status errors with the plugin's own message.
//
// A Client is safe for concurrent use.
type Client struct {
	path    string
	options dialOptions
	closed  context.Context // ends with Close
	close   context.CancelFunc
	queue   bucketQueue

	connecting chan struct{} // holds one token while a call connects for all

	mu       sync.Mutex
	name     string // of the driver, once known; never changes then
	protocol string
	current  *session // nil while not connected
	lastErr  error    // why the last try to connect failed
}

// DialOption changes how [Dial]'s client behaves.
type DialOption func(*dialOptions)

type dialOptions struct {
	attemptTimeout time.Duration
	backoff        backoff
	log            *slog.Logger
	grpc           []grpc.DialOption
}

// DialAttemptTimeout limits each attempt of a call (COSI-089); an attempt that
// takes longer is retried while the call's own context lives. The default is
// 30 seconds; 0 means no limit but the context's.
func DialAttemptTimeout(d time.Duration) DialOption {
	return func(o *dialOptions) { o.attemptTimeout = d }
}

// DialBackoff sets the pause after the first failed attempt, and the longest
// pause (COSI-089). Each pause is twice the one before, less up to half of it
// by chance. The default is 100 ms, up to 10 s.
func DialBackoff(base, longest time.Duration) DialOption {
	return func(o *dialOptions) { o.backoff = backoff{base, longest} }
}

// DialLogger logs calls (debug) and retries (info) without secrets (COSI-136).
// The default logs nothing.
func DialLogger(log *slog.Logger) DialOption {
	return func(o *dialOptions) { o.log = log }
}

// DialGRPC adds gRPC options, such as interceptors or a stats handler for
// metrics and traces (COSI-150).
func DialGRPC(opts ...grpc.DialOption) DialOption {
	return func(o *dialOptions) { o.grpc = append(o.grpc, opts...) }
}

// Dial waits for the plugin's socket, connects and asks the driver's name
// (COSI-154). It waits until ctx ends; it fails at once if endpoint is not
// unix:///path.sock (COSI-142, COSI-169), if the plugin speaks neither protocol,
// or if the driver's name is not valid (an error that is [ErrAnswer]).
func Dial(ctx context.Context, endpoint string, opts ...DialOption) (*Client, error) {
	path, err := plugin.ParseEndpoint(endpoint)
	if err != nil {
		return nil, invalidArgument("dial COSI plugin: %w", err)
	}
	c := newClient(path, opts)
	s, err := c.acquire(ctx)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	c.release(s)
	return c, nil
}

func newClient(path string, opts []DialOption) *Client {
	c := &Client{path: path, connecting: make(chan struct{}, 1)}
	c.options = dialOptions{
		attemptTimeout: 30 * time.Second,
		backoff:        backoff{100 * time.Millisecond, 10 * time.Second},
		log:            slog.New(slog.DiscardHandler),
	}
	for _, o := range opts {
		o(&c.options)
	}
	c.closed, c.close = context.WithCancel(context.Background())
	return c
}

// Name is the driver's name, as it said in DriverGetInfo: the driverName of
// classes and claims (COSI-028).
func (c *Client) Name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name
}

// Protocol is [ProtocolV1Alpha1] or [ProtocolDraft]: what the plugin spoke when
// last connected.
func (c *Client) Protocol() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.protocol
}

// Close disconnects. Calls in flight end with CANCELLED, and so does every later one.
func (c *Client) Close() error {
	c.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		c.current.retire()
		c.current = nil
	}
	return nil
}
