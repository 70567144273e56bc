// Command fairlead gives any container its buckets. Each verb is one file
// here; what a verb does is decided elsewhere, by the daemon.
package main

//go:generate go run . man ../../docs/man

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is stamped by the linker: -ldflags "-X main.version=v1.2.3". Empty
// means that the build says it, if anything does.
var version string

func main() { os.Exit(run()) }

// run is the whole program but for the exit.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends what does not stop by itself.
	context.AfterFunc(ctx, stop)
	a := newApp(os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	return a.report(newRoot(a).ExecuteContext(ctx))
}
