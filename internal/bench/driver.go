package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

// The references.
const (
	emptyCall = "empty call"
	oneFsync  = "fsync"
)

// driver is a "fairlead serve cosi" and a plain gRPC connection to it.
type driver struct {
	*process
	conn *grpc.ClientConn
	cosipb.IdentityClient
	cosipb.ProvisionerClient
	made int // buckets and accounts so far
}

func (b *bench) serve(ctx context.Context, name string) (*driver, error) {
	socket := filepath.Join(b.memory, name+".sock")
	p, err := b.start([]string{"FAIRLEAD_LOG=warn"}, "serve", "cosi", "--endpoint", "unix://"+socket,
		"--dir", filepath.Join(b.disk, name), "--s3-listen", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		p.end(syscall.SIGTERM)
		return nil, err
	}
	d := &driver{p, conn, cosipb.NewIdentityClient(conn), cosipb.NewProvisionerClient(conn), 0}
	err = p.until(ctx, "start the driver", func() (bool, error) {
		if _, err := os.Stat(socket); err != nil {
			return false, err // gRPC would back off
		}
		err := d.empty(ctx)
		return err == nil, err
	})
	if err != nil {
		d.stop()
		return nil, err
	}
	return d, nil
}

func (d *driver) stop() {
	_ = d.conn.Close()
	d.end(syscall.SIGTERM)
}

func (d *driver) empty(ctx context.Context) error {
	_, err := d.DriverGetInfo(ctx, &cosipb.DriverGetInfoRequest{})
	return err
}

func (d *driver) create(ctx context.Context, name string) error {
	_, err := d.DriverCreateBucket(ctx, &cosipb.DriverCreateBucketRequest{Name: name})
	return err
}

func (d *driver) grant(ctx context.Context, bucket, account string) error {
	_, err := d.DriverGrantBucketAccess(ctx, &cosipb.DriverGrantBucketAccessRequest{
		BucketId: bucket, Name: account, AuthenticationType: cosipb.AuthenticationType_Key,
	})
	return err
}

// next is a name that was never used.
func (d *driver) next() string {
	d.made++
	return fmt.Sprintf("new-%d", d.made)
}

// appender is the reference for durable work: 128 bytes appended and flushed.
type appender struct{ f *os.File }

func (b *bench) appender() (*appender, error) {
	f, err := os.CreateTemp(b.disk, "append-")
	return &appender{f}, err
}

func (a *appender) fsync() error {
	if _, err := a.f.Write(make([]byte, 128)); err != nil {
		return err
	}
	return unix.Fdatasync(int(a.f.Fd()))
}

// measureDriver times one caller's calls. What is compared is done in turn, so
// that what else the machine does meets all alike.
func measureDriver(ctx context.Context, b *bench) error {
	d, err := b.serve(ctx, "driver")
	if err != nil {
		return err
	}
	defer d.stop()
	disk, err := b.appender()
	if err != nil {
		return err
	}
	defer disk.f.Close()
	if err := d.create(ctx, "same"); err != nil {
		return err
	}
	var empty, repeated, regranted, fsync, created, granted samples
	steps := []struct {
		into  *samples
		times int
		do    func() error
	}{
		{&empty, 10, func() error { return d.empty(ctx) }},
		{&repeated, 10, func() error { return d.create(ctx, "same") }},
		{&regranted, 10, func() error { return d.grant(ctx, "same", "same") }},
		{&fsync, 4, disk.fsync},
		{&created, 4, func() error { return d.create(ctx, d.next()) }},
		{&granted, 4, func() error { return d.grant(ctx, "same", d.next()) }},
	}
	const warmUp, rounds = 20, 220
	for n := range rounds {
		for _, s := range steps {
			for range s.times {
				if err := s.into.time(s.do); err != nil {
					return err
				}
			}
			if n < warmUp {
				*s.into = nil
			}
		}
	}
	b.table.add(emptyCall, empty.p50(), "ms")
	b.table.add("repeated DriverCreateBucket", repeated.p50(), "ms", of(emptyCall), atMost(2))
	b.table.add("repeated DriverGrantBucketAccess", regranted.p50(), "ms", of(emptyCall))
	b.table.add(oneFsync, fsync.p50(), "ms")
	b.table.add("new DriverCreateBucket", created.p50(), "ms", of(oneFsync), atMost(5))
	b.table.add("new DriverGrantBucketAccess", granted.p50(), "ms", of(oneFsync), atMost(5))
	return nil
}

// callers is how many call at once in the section group.
const callers = 16

// measureGroup compares the durable throughput of one caller with that of 16 on
// 16 buckets, in turn.
func measureGroup(ctx context.Context, b *bench) error {
	d, err := b.serve(ctx, "group")
	if err != nil {
		return err
	}
	defer d.stop()
	for i := range callers {
		if err := d.create(ctx, bucketOf(i)); err != nil {
			return err
		}
	}
	grant := func(i int, name string) error { return d.grant(ctx, bucketOf(i), name) }
	create := func(_ int, name string) error { return d.create(ctx, name) }
	for _, what := range []struct {
		name, names string
		do          func(caller int, name string) error
	}{{"DriverGrantBucketAccess", "grant", grant}, {"DriverCreateBucket", "create", create}} {
		var one, many []float64
		const rounds = 9
		for n := range rounds + 1 {
			o, err := rate(1, fmt.Sprintf("%s-a%d", what.names, n), what.do)
			if err != nil {
				return err
			}
			m, err := rate(callers, fmt.Sprintf("%s-b%d", what.names, n), what.do)
			if err != nil {
				return err
			}
			if n > 0 { // the first round warms up
				one, many = append(one, o), append(many, m)
			}
		}
		single := "new " + what.name + ", 1 caller"
		b.table.add(single, median(one), "/s")
		b.table.add(fmt.Sprintf("new %s, %d callers", what.name, callers), median(many), "/s", of(single), atLeast(5))
	}
	return nil
}

func bucketOf(caller int) string { return fmt.Sprintf("bucket-%d", caller) }

// rate has that many callers call for a while, each with names of its own, and
// returns the calls per second.
func rate(callers int, names string, do func(caller int, name string) error) (float64, error) {
	const long = 300 * time.Millisecond
	var mu sync.Mutex
	var failed error
	calls := 0
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range callers {
		wg.Go(func() {
			n := 0
			var err error
			for ; err == nil && time.Since(begin) < long; n++ {
				err = do(i, fmt.Sprintf("%s-%d-%d", names, i, n))
			}
			mu.Lock()
			defer mu.Unlock()
			calls += n
			if err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	return float64(calls) / time.Since(begin).Seconds(), failed
}
