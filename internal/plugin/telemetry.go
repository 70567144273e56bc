package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
)

// Environment variables that switch on what a server does beside serving.
// None begins with COSI_ (COSI-164) or CSI_. Traces follow OpenTelemetry's own.
const (
	LogEnv     = "FAIRLEAD_LOG"            // debug, info, warn or error; info unless set
	MetricsEnv = "FAIRLEAD_METRICS_LISTEN" // host:port for Prometheus; no metrics unless set
)

// Logger writes structured lines to standard error, the one place for a
// driver's logs (COSI-172), from the level that FAIRLEAD_LOG names.
func Logger() (*slog.Logger, error) {
	var level slog.Level
	if name := os.Getenv(LogEnv); name != "" {
		if err := level.UnmarshalText([]byte(name)); err != nil {
			return nil, fmt.Errorf("%w: %s=%q: want debug, info, warn or error", ErrConfig, LogEnv, name)
		}
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})), nil
}

// tracesWanted follows the OpenTelemetry specification's variables, but for
// the default: with no endpoint named, nothing is sent anywhere.
func tracesWanted() (bool, error) {
	first := func(names ...string) string {
		for _, name := range names {
			if v := os.Getenv(name); v != "" {
				return v
			}
		}
		return ""
	}
	endpoint := first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	off := strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none"
	if endpoint == "" || off {
		return false, nil
	}
	if p := first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); p != "" && p != "grpc" {
		return false, fmt.Errorf("%w: traces are sent by the OTLP protocol grpc, not by %q", ErrConfig, p)
	}
	return true, nil
}

// traces returns the server option that records a span per call, and the
// function that sends what is left; both are empty if no endpoint is named.
func traces(ctx context.Context, name string, log *slog.Logger) ([]grpc.ServerOption, func(), error) {
	wanted, err := tracesWanted()
	if err != nil || !wanted {
		return nil, func() {}, err
	}
	exporter, err := otlptracegrpc.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: set up traces: %w", ErrConfig, err)
	}
	// Later attributes win: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES do.
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", name)), resource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("%w: set up traces: %w", ErrConfig, err)
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about))
	// The exporter's own complaints would else be plain lines (COSI-172).
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are lost", "error", err) }))
	handler := otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(provider), otelgrpc.WithPropagators(propagation.TraceContext{}))
	stop := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("traces are lost", "error", err)
		}
	}
	return []grpc.ServerOption{grpc.StatsHandler(handler)}, stop, nil
}
