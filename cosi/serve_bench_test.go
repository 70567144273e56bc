package cosi_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/cosi/cosipb"
)

func serveQuietly(b *testing.B, d cosi.Driver) *served {
	return serve(b, d, cosi.WithLogger(slog.New(slog.DiscardHandler)))
}

// BenchmarkEmptyCall is the unit that other times are measured by: a call of
// DriverGetInfo through everything that Serve does for a call.
func BenchmarkEmptyCall(b *testing.B) {
	s := serveQuietly(b, &store{})
	for b.Loop() {
		if _, err := s.DriverGetInfo(context.Background(), &cosipb.DriverGetInfoRequest{}); err != nil {
			b.Fatal(err)
		}
	}
}

// bare answers like Serve, but without anything that Serve does.
type bare struct {
	cosipb.UnimplementedIdentityServer
}

func (bare) DriverGetInfo(context.Context, *cosipb.DriverGetInfoRequest) (*cosipb.DriverGetInfoResponse, error) {
	return &cosipb.DriverGetInfoResponse{Name: driverName}, nil
}

// BenchmarkBareCall is the same call to gRPC alone: the difference is our cost.
func BenchmarkBareCall(b *testing.B) {
	path := socket(b)
	l, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer()
	cosipb.RegisterIdentityServer(server, bare{})
	go server.Serve(l)
	defer server.Stop()
	client := cosipb.NewIdentityClient(connect(b, path))
	for b.Loop() {
		if _, err := client.DriverGetInfo(context.Background(), &cosipb.DriverGetInfoRequest{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRepeatedCreate adds a lock, limits, a goroutine and a driver in memory.
func BenchmarkRepeatedCreate(b *testing.B) {
	s := serveQuietly(b, &store{})
	req := createRequest("photos", "region", "eu", "anonymousAccess", "Private")
	for b.Loop() {
		if _, err := s.DriverCreateBucket(context.Background(), req); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParallelCreate(b *testing.B) {
	s := serveQuietly(b, &store{})
	var callers atomic.Int64
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		req := createRequest(fmt.Sprint("b", callers.Add(1)))
		for pb.Next() {
			if _, err := s.DriverCreateBucket(context.Background(), req); err != nil {
				b.Error(err)
			}
		}
	})
}
