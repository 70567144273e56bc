package cosi_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/fairlead/fairlead/cosi"
)

// A whole plugin: the driver's four methods are in store.
func ExampleServe() {
	main := func() int {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
		defer stop()
		err := cosi.Serve(ctx, "objects.example.com", &store{})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return cosi.ExitCode(err)
	}
	_ = main // os.Exit(main())
}
