package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/codes"
)

// Metrics counts calls under the names that gRPC servers commonly use:
// grpc_server_handled_total and grpc_server_handling_seconds, by service,
// method and code. A nil *Metrics counts nothing.
type Metrics struct {
	registry *prometheus.Registry
	handled  *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// NewMetrics returns empty metrics with a registry of their own.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grpc_server_handled_total", Help: "Calls answered, by status code.",
		}, []string{"grpc_service", "grpc_method", "grpc_code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grpc_server_handling_seconds", Help: "Time from a call's arrival to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9), // 0.5 ms to 33 s
		}, []string{"grpc_service", "grpc_method"}),
	}
	m.registry.MustRegister(m.handled, m.seconds,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *Metrics) observe(fullMethod string, code codes.Code, took time.Duration) {
	if m == nil {
		return
	}
	service, method := strings.TrimPrefix(path.Dir(fullMethod), "/"), path.Base(fullMethod)
	m.handled.WithLabelValues(service, method, CodeName(code)).Inc()
	m.seconds.WithLabelValues(service, method).Observe(took.Seconds())
}

// serve answers GET /metrics on a TCP address, such as 127.0.0.1:9090, until
// the returned function is called.
func (m *Metrics) serve(address string, log *slog.Logger) (stop func(), err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %s=%q: %w", ErrConfig, MetricsEnv, address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics end", "error", err)
		}
	}()
	log.Info("metrics listen", "address", l.Addr().String())
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
		<-done
	}, nil
}
