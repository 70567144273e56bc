package cosi_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

// Req: COSI-150
func TestServeMetrics(t *testing.T) {
	t.Setenv("FAIRLEAD_METRICS_LISTEN", "127.0.0.1:0")
	s := serve(t, &store{})
	ctx := within(t, 10*time.Second)
	must(s.DriverGetInfo(ctx, &cosipb.DriverGetInfoRequest{}))(t)
	_, err := s.DriverCreateBucket(ctx, createRequest("b", "region", "mars"))
	wantStatus(t, err, codes.OutOfRange)
	address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(s.log.await(t, "metrics listen"))[1]
	page := fetch(t, "http://"+address+"/metrics")
	for _, want := range []string{
		`grpc_server_handled_total{grpc_code="OK",grpc_method="DriverGetInfo",grpc_service="cosi.v1alpha1.Identity"} 1`,
		`grpc_server_handled_total{grpc_code="OUT_OF_RANGE",grpc_method="DriverCreateBucket",grpc_service="cosi.v1alpha1.Provisioner"} 1`,
		`grpc_server_handling_seconds_count{grpc_method="DriverGetInfo",grpc_service="cosi.v1alpha1.Identity"} 1`,
		"go_goroutines ", "process_resident_memory_bytes ",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	s.stop()
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("metrics are served on after the end")
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	req := must(http.NewRequestWithContext(within(t, 10*time.Second), http.MethodGet, url, nil))(t)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp := must((&http.Client{Transport: transport}).Do(req))(t)
	defer resp.Body.Close()
	return string(must(io.ReadAll(resp.Body))(t))
}

// spans is an OTLP collector.
type spans struct {
	collector.UnimplementedTraceServiceServer
	got chan *collector.ExportTraceServiceRequest
}

func (s spans) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.got <- r
	return &collector.ExportTraceServiceResponse{}, nil
}

// Req: COSI-150, COSI-149
func TestServeTraces(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	backend := spans{got: make(chan *collector.ExportTraceServiceRequest, 10)}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, backend)
	go server.Serve(l)
	defer server.Stop()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment=test")

	s := serve(t, &store{})
	const parent = "0af7651916cd43dd8448eb211c80319c"
	ctx := metadata.AppendToOutgoingContext(within(t, 10*time.Second), "traceparent", "00-"+parent+"-b7ad6b7169203331-01")
	must(s.DriverCreateBucket(ctx, createRequest("b")))(t)
	must(s.DriverGrantBucketAccess(ctx, grantRequest("b", "app")))(t)
	s.stop() // sends what is left

	select {
	case r := <-backend.got:
		text := r.String()
		for _, want := range []string{"cosi.v1alpha1.Provisioner/DriverCreateBucket", driverName, "deployment"} {
			if !strings.Contains(text, want) {
				t.Errorf("the export lacks %s: %s", want, text)
			}
		}
		if strings.Contains(text, secretKey) {
			t.Errorf("the export tells a secret: %s", text)
		}
		id := trace.TraceID(r.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()[0].GetTraceId())
		if id.String() != parent {
			t.Errorf("trace %s is not the caller's", id)
		}
	default:
		t.Error("nothing was exported")
	}
}

func TestServeNoTracesUnlessAsked(t *testing.T) {
	for name, value := range map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "none"} {
		t.Run(name, func(t *testing.T) {
			l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
			t.Setenv(name, value)
			s := serve(t, &store{})
			must(s.DriverGetInfo(within(t, 10*time.Second), &cosipb.DriverGetInfoRequest{}))(t)
			s.stop()
			l.(*net.TCPListener).SetDeadline(time.Now())
			if c, err := l.Accept(); err == nil {
				c.Close()
				t.Error("something was sent")
			}
			l.Close()
		})
	}
}
