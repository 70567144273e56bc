package main

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/control"
)

// measureIdle starts daemons on fresh directories, and weighs the last one.
func measureIdle(ctx context.Context, b *bench) error {
	var first, again samples
	for n := range 10 {
		h := b.newHome(fmt.Sprintf("idle%d", n))
		for _, into := range []*samples{&first, &again} {
			d, took, err := b.up(ctx, h, 0)
			if err != nil {
				return err
			}
			*into = append(*into, time.Duration(took*float64(time.Millisecond)))
			d.end(syscall.SIGTERM)
		}
	}
	b.table.add("daemon ready, first start", first.p50(), "ms", atMost(250))
	b.table.add("daemon ready, second start", again.p50(), "ms", atMost(250))
	d, _, err := b.up(ctx, b.newHome("idle"), 0)
	if err != nil {
		return err
	}
	defer d.end(syscall.SIGTERM)
	pss, rss, err := d.settledFootprint(ctx)
	if err != nil {
		return err
	}
	b.table.add("idle memory, all processes, PSS", pss, "MiB", atMost(90))
	b.table.add("idle memory, all processes, RSS", rss, "MiB")
	return nil
}

// settledFootprint weighs the processes after a moment of rest.
func (d *daemon) settledFootprint(ctx context.Context) (pss, rss float64, err error) {
	select {
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	case <-time.After(2 * time.Second):
	}
	return d.footprint()
}

// measureCLI times whole commands, from exec to exit.
func measureCLI(ctx context.Context, b *bench) error {
	d, _, err := b.up(ctx, b.newHome("cli"), 0)
	if err != nil {
		return err
	}
	defer d.end(syscall.SIGTERM)
	env := []string{"FAIRLEAD_SOCKET=" + d.socket}
	var nothing, version, claimed samples
	steps := []struct {
		into *samples
		do   func(n int) error
	}{
		{&nothing, func(int) error { return exec.CommandContext(ctx, "true").Run() }},
		{&version, func(int) error { return b.command(ctx, nil, "version") }},
		{&claimed, func(n int) error { return b.command(ctx, env, "claim", "bucket", fmt.Sprintf("photos-%d", n)) }},
	}
	const warmUp, rounds = 3, 53
	for n := range rounds {
		for _, s := range steps {
			if err := s.into.time(func() error { return s.do(n) }); err != nil {
				return err
			}
			if n < warmUp {
				*s.into = nil
			}
		}
	}
	b.table.add("true(1)", nothing.p50(), "ms")
	b.table.add("fairlead version", version.p50(), "ms", atMost(20))
	b.table.add("fairlead claim bucket, to ready", claimed.p50(), "ms", atMost(30))
	return nil
}

// measureScale makes many claims, then restarts the daemon, killed and stopped
// in turn.
func measureScale(ctx context.Context, b *bench) error {
	h := b.newHome("scale")
	d, _, err := b.up(ctx, h, 0)
	if err != nil {
		return err
	}
	defer func() { d.end(syscall.SIGKILL) }()
	begin := time.Now()
	if err := claimMany(ctx, d.client, b.claims); err != nil {
		return err
	}
	many := fmt.Sprintf("%d claims", b.claims)
	b.table.add(many+", made", time.Since(begin).Seconds(), "s", atMost(60))
	if err := b.weigh(ctx, d, many+", after making them"); err != nil {
		return err
	}
	for _, end := range []struct {
		name   string
		signal syscall.Signal
	}{{"kill -9", syscall.SIGKILL}, {"stop", syscall.SIGTERM}} {
		var restart samples
		worked := 0.0
		const times = 5
		for range times {
			d.end(end.signal)
			next, took, err := b.up(ctx, h, b.claims)
			if err != nil {
				return err
			}
			d = next
			restart = append(restart, time.Duration(took*float64(time.Millisecond)))
			worked += d.processor() / times
		}
		b.table.add(many+", "+end.name+" and start to all true", restart.p50()/1000, "s", atMost(1))
		b.table.add(many+", "+end.name+" and start, processor time", worked, "s")
	}
	return b.weigh(ctx, d, many+", after a restart")
}

func (b *bench) weigh(ctx context.Context, d *daemon, when string) error {
	pss, rss, err := d.settledFootprint(ctx)
	if err != nil {
		return err
	}
	b.table.add(when+", PSS", pss, "MiB", atMost(150))
	b.table.add(when+", RSS", rss, "MiB")
	b.table.add(when+", peak RSS", d.peak(), "MiB")
	return nil
}

// claimMany states claims, a bounded number at a time, and waits until each is
// ready.
func claimMany(ctx context.Context, client *control.Client, claims int) error {
	const atOnce = 32
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	names := make(chan string)
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for name := range names {
				if _, err := client.Claim(ctx, control.ClaimRequest{Kind: claim.KindBucket, Name: name}, time.Minute); err != nil {
					cancel(fmt.Errorf("claim %s: %w", name, err))
				}
			}
		})
	}
	for n := range claims {
		names <- fmt.Sprintf("claim-%05d", n)
	}
	close(names)
	wg.Wait()
	return context.Cause(ctx)
}
