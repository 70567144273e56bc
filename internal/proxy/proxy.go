// Package proxy carries a plugin's gRPC endpoint over an IP network: the
// component that the specification wants wherever a plugin cannot share a UNIX
// socket with its caller (COSI-147), and that has to secure the way (COSI-148).
//
// It runs at both ends. The near end, beside the caller, serves a socket and
// forwards to the far end by TCP; the far end, beside the plugin, listens on
// TCP and forwards to the plugin's socket. Between them is mutual TLS 1.3 and
// nothing less. Calls pass through as they are, of any service: messages,
// metadata, deadlines, cancellation, streams and the plugin's own status.
package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/fairlead/fairlead/internal/plugin"
)

// Config describes one end. Of Listen and Forward exactly one is a UNIX socket,
// unix:///path.sock, and the other tcp://host:port.
type Config struct {
	Listen  string
	Forward string

	// PEM files: this end's certificate with its chain, the certificate's key,
	// and the authorities that the other end's certificate must come from. They
	// are read again for every connection when they have changed; files that
	// cannot be used, as in the middle of a change, leave the old ones in force.
	Cert, Key, CA string

	// PeerName is a DNS name or IP address that the other end's certificate must
	// be for. Where this end forwards to TCP, empty means Forward's host; where
	// it listens on TCP, empty means any certificate from CA.
	PeerName string

	Log *slog.Logger // nil logs nothing
	// Ready, if not nil, is called with the address once calls are taken.
	Ready func(net.Addr)
}

const (
	// stopTimeout is how long calls in flight may go on when Run's context ends.
	stopTimeout = 5 * time.Second
	// maxMessage bounds what one message can hold in memory, in bytes. It is far
	// above gRPC's default of 4 MiB, which the ends themselves keep.
	maxMessage = 64 << 20
	// connectionAge is how long a connection between the ends lives before it is
	// replaced without loss, so that a certificate's expiry takes effect.
	connectionAge = time.Hour
)

// Run proxies until ctx ends; then it lets the calls in flight end, for 5
// seconds at most, and returns nil. It fails at once for what only a person can
// mend: an error that is [plugin.ErrConfig], or of the listening itself. That
// the other end is away is no failure: calls get UNAVAILABLE meanwhile.
func Run(ctx context.Context, c Config) error {
	e, err := c.end()
	if err != nil {
		return fmt.Errorf("%w: proxy: %w", plugin.ErrConfig, err)
	}
	conn, err := e.dial()
	if err != nil {
		return fmt.Errorf("proxy: forward to %s: %w", c.Forward, err)
	}
	defer func() { _ = conn.Close() }()
	l, err := e.listen()
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	b := &bridge{conn: conn, to: c.Forward}
	server := grpc.NewServer(append(e.serverOptions(),
		grpc.UnknownServiceHandler(b.handle),
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.WaitForHandlers(true))...)
	e.log.Info("proxy is ready", "listen", l.Addr().String(), "forward", c.Forward)
	if c.Ready != nil {
		c.Ready(l.Addr())
	}
	return serve(ctx, server, l)
}

func serve(ctx context.Context, server *grpc.Server, l net.Listener) error {
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("proxy: serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	late := time.AfterFunc(stopTimeout, server.Stop)
	defer late.Stop()
	server.GracefulStop()
	<-done
	return nil
}

// end is a Config made ready.
type end struct {
	Config
	unix     string // path of the socket side
	tcp      string // host:port of the other
	listens  bool   // on TCP: this is the far end
	peerName string
	identity *identity
	log      *slog.Logger
}

func (c Config) end() (*end, error) {
	e := &end{Config: c, peerName: c.PeerName, log: c.Log}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	network := c.Forward
	if e.listens = strings.HasPrefix(c.Listen, "tcp:"); e.listens {
		network = c.Listen
	}
	socket := c.Listen
	if e.listens {
		socket = c.Forward
	}
	var err error
	if e.tcp, err = parseTCP(network); err != nil {
		return nil, err
	}
	if e.unix, err = plugin.ParseEndpoint(socket); err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(e.tcp)
	if !e.listens && (host == "" || port == "0") {
		return nil, fmt.Errorf("%q: a host and a port to forward to are needed", network)
	}
	if e.peerName == "" && !e.listens {
		e.peerName = host
	}
	e.identity, err = newIdentity(c.Cert, c.Key, c.CA, e.log)
	return e, err
}

// parseTCP returns the host:port of tcp://host:port.
func parseTCP(endpoint string) (string, error) {
	address, ok := strings.CutPrefix(endpoint, "tcp://")
	if !ok {
		return "", fmt.Errorf("%q: one of listen and forward must be tcp://host:port, the other unix:///path.sock", endpoint)
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || port == "" {
		return "", fmt.Errorf("%q: want tcp://host:port", endpoint)
	}
	return address, nil
}

func (e *end) listen() (net.Listener, error) {
	if !e.listens {
		return plugin.Listen(e.Listen, 0)
	}
	l, err := net.Listen("tcp", e.tcp)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", e.Listen, err)
	}
	return l, nil
}

func (e *end) serverOptions() []grpc.ServerOption {
	if !e.listens {
		return nil
	}
	return []grpc.ServerOption{
		grpc.Creds(&mutualTLS{e}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: connectionAge, Time: 30 * time.Second, Timeout: 10 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	}
}

// dial prepares the connection; it is made, and made again, as calls need it.
func (e *end) dial() (*grpc.ClientConn, error) {
	network, address, longest := "unix", e.unix, 500*time.Millisecond
	creds := insecure.NewCredentials() // for the socket: its file's mode guards it
	if !e.listens {
		network, address, longest = "tcp", e.tcp, 5*time.Second
		creds = &mutualTLS{e}
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}),
		grpc.WithAuthority("localhost"),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: longest},
			MinConnectTimeout: 5 * time.Second,
		}),
	}
	if !e.listens { // a far end that lost power says no goodbye
		opts = append(opts, grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 30 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true,
		}))
	}
	return grpc.NewClient("passthrough:///plugin", opts...)
}

// mutualTLS is TLS 1.3 with certificates of both ends, for either role. Each
// handshake takes the files as they are then.
type mutualTLS struct{ end *end }

func (m *mutualTLS) config() *tls.Config {
	cert, authorities := m.end.identity.current()
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		RootCAs:      authorities,
		ClientCAs:    authorities,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ServerName:   m.end.peerName,
		// A resumed session would not look at the certificates again.
		SessionTicketsDisabled: true,
	}
}

// ClientHandshake ignores gRPC's authority: the name to verify is ours.
func (m *mutualTLS) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(m.config()).ClientHandshake(ctx, m.end.peerName, raw)
}

func (m *mutualTLS) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config := m.config()
	if name := m.end.peerName; name != "" {
		config.VerifyConnection = func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return errors.New("the other end gave no certificate")
			}
			return s.PeerCertificates[0].VerifyHostname(name)
		}
	}
	conn, info, err := credentials.NewTLS(config).ServerHandshake(raw)
	if err != nil {
		m.end.log.Warn("refused a connection", "from", raw.RemoteAddr().String(), "cause", err)
	}
	return conn, info, err
}

func (m *mutualTLS) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (m *mutualTLS) Clone() credentials.TransportCredentials { return m }

// OverrideServerName is gRPC's, deprecated, and must not weaken the check.
func (m *mutualTLS) OverrideServerName(string) error {
	return errors.New("the name of the other end is fixed")
}
