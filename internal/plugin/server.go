package plugin

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc"
)

// DefaultStopTimeout is how long a stopping server waits for calls in flight.
const DefaultStopTimeout = 5 * time.Second

// Server serves a driver's services on one UNIX socket.
type Server struct {
	Name        string                      // of the driver, for traces and logs
	Endpoint    string                      // see ParseEndpoint
	SocketMode  fs.FileMode                 // 0 means DefaultSocketMode
	StopTimeout time.Duration               // 0 means DefaultStopTimeout
	Log         *slog.Logger                // nil means Logger
	Guard       *Guard                      // gets Log and Metrics from here
	Services    func(grpc.ServiceRegistrar) // registers what BlameCaller returns
}

// Run listens and serves until ctx ends. Then it removes the socket, lets calls
// in flight end for at most StopTimeout, cancels the rest and returns nil. An
// error is returned only for what keeps it from serving; see [ExitCode].
func (s Server) Run(ctx context.Context) (err error) {
	if s.Log == nil {
		if s.Log, err = Logger(); err != nil {
			return err
		}
	}
	if s.StopTimeout == 0 {
		s.StopTimeout = DefaultStopTimeout
	}
	s.Guard.Log = s.Log
	if address := os.Getenv(MetricsEnv); address != "" {
		s.Guard.Metrics = NewMetrics()
		stop, err := s.Guard.Metrics.serve(address, s.Log)
		if err != nil {
			return err
		}
		defer stop()
	}
	options, flush, err := traces(ctx, s.Name, s.Log)
	if err != nil {
		return err
	}
	defer flush()
	l, err := Listen(s.Endpoint, s.SocketMode)
	if err != nil {
		return err
	}
	server := grpc.NewServer(append(options,
		grpc.UnaryInterceptor(s.Guard.Unary), grpc.ForceServerCodecV2(newPatientCodec()))...)
	s.Services(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	s.Log.Info("driver serves", "driver", s.Name, "endpoint", s.Endpoint)
	select {
	case err := <-ended:
		return fmt.Errorf("serve on %s: %w", s.Endpoint, err)
	case <-ctx.Done():
		s.stop(server)
		<-ended
		return nil
	}
}

// stop lets calls in flight end, for a bounded time.
func (s Server) stop(server *grpc.Server) {
	s.Log.Info("driver stops", "driver", s.Name)
	late, cancel := context.WithTimeout(context.Background(), s.StopTimeout)
	defer cancel()
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		server.GracefulStop()
	}()
	select {
	case <-graceful:
	case <-late.Done():
		server.Stop() // cancels the calls, and ends GracefulStop
		<-graceful
	}
	// Calls whose deadline has passed, or that were cancelled just now, may
	// still be at work; a driver that heeds its context ends them at once.
	last, cancel := context.WithTimeout(context.Background(), max(time.Second, s.StopTimeout/5))
	defer cancel()
	if s.Guard.Drain(last) != nil {
		s.Log.Warn("calls of the driver did not end; they are cut off", "driver", s.Name)
	}
}
