package proxy

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/cosi/cosipb"
)

// Req: COSI-147
func TestCOSIThroughBothEnds(t *testing.T) {
	ca, behind, front := newAuthority(t), socket(t), socket(t)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- cosi.Serve(ctx, "remote.example.com", noDriver{}, cosi.WithEndpoint(behind))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	far, _ := farEnd(t, ca.write(t.TempDir(), leaf{}), behind, "")
	f := ca.write(t.TempDir(), leaf{})
	run(t, Config{Listen: front, Forward: "tcp://" + far, Cert: f.cert, Key: f.key, CA: f.ca})
	c, err := cosi.Dial(within(t, 30*time.Second), front, cosi.DialBackoff(time.Millisecond, 20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if c.Name() != "remote.example.com" {
		t.Errorf("driver %q answered", c.Name())
	}
	_, err = c.CreateBucket(within(t, 30*time.Second), "b", map[string]string{"region": "moon"})
	if s := status.Convert(err); s.Code() != codes.OutOfRange || !strings.Contains(s.Message(), "moon") {
		t.Errorf("got %v", err)
	}
	if left, err := filepath.Glob(filepath.Dir(strings.TrimPrefix(front, "unix://")) + "/*"); err != nil || len(left) != 1 {
		t.Errorf("beside the socket: %v %v", left, err)
	}
}

// noDriver serves no region at all.
type noDriver struct{ cosi.Driver }

func (noDriver) DriverCreateBucket(_ context.Context, r *cosipb.DriverCreateBucketRequest) (*cosipb.DriverCreateBucketResponse, error) {
	return nil, status.Errorf(codes.OutOfRange, "no region %q", r.GetParameters()["region"])
}
