package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// defaultWait is how long a verb waits for the daemon to finish.
const defaultWait = 30 * time.Second

// waitFlag gives cmd the flag --wait.
func waitFlag(cmd *cobra.Command, d *time.Duration) {
	*d = defaultWait
	cmd.Flags().Var(span{d}, "wait", "how long to wait for it; 0s returns at once and the daemon goes on")
}

// waiting shows a progress line on stderr until the returned function is
// called, but only to a person, and only when it takes a while.
func (a *app) waiting(ctx context.Context, what string) (done func()) {
	if !terminal(a.err) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		a.spin(ctx, what)
	}()
	return func() {
		cancel()
		<-stopped
	}
}

// spin draws the progress line until ctx is done, and wipes it.
func (a *app) spin(ctx context.Context, what string) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	start, drawn := time.Now(), false
	for frame := 0; ; frame++ {
		select {
		case <-ctx.Done():
			if drawn {
				_, _ = fmt.Fprint(a.err, "\r\x1b[K")
			}
			return
		case <-tick.C:
			drawn = true
			_, _ = fmt.Fprintf(a.err, "\r\x1b[K%c %s (%s)", `|/-\`[frame%4], what, short(time.Since(start)))
		}
	}
}
