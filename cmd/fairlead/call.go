package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/internal/claim"
)

// maxCall bounds the JSON of one call, in bytes.
const maxCall = 1 << 20

func newCall(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "call",
		Short: "Call a driver by hand",
		Long:  "Call one method of a driver, without a daemon.",
	}, newCallCOSI(a))
}

func newCallCOSI(a *app) *cobra.Command {
	timeout := 30 * time.Second
	cmd := &cobra.Command{
		Use:   "cosi ENDPOINT RPC [JSON|-]",
		Short: "Call one method of a COSI driver",
		Long: `Call one method of a COSI driver and print its answer as JSON. The request is
JSON in the names of the specification, {} if it is left out, or read from stdin
for "-": that keeps secrets off the command line. The answer of a grant holds
the secret key.

Methods: ` + strings.Join(cosi.RPCs(), ", ") + ".",
		Example: `  fairlead call cosi unix:///run/vendor/cosi.sock DriverGetInfo
  fairlead call cosi unix:///run/vendor/cosi.sock DriverCreateBucket '{"name":"photos"}'
  fairlead call cosi unix:///run/vendor/cosi.sock DriverDeleteBucket - < request.json`,
		Args: args(2, 3, "an ENDPOINT and an RPC"),
		ValidArgsFunction: func(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(given) == 1 {
				return cosi.RPCs(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			request := "{}"
			if len(args) == 3 {
				request = args[2]
			}
			return a.callCOSI(ctx, args[0], args[1], request)
		},
	}
	cmd.Flags().Var(span{&timeout}, "timeout", "how long the call may take")
	return cmd
}

func (a *app) callCOSI(ctx context.Context, endpoint, rpc, request string) error {
	in := []byte(request)
	if request == "-" {
		var err error
		if in, err = io.ReadAll(io.LimitReader(a.in, maxCall+1)); err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		if len(in) > maxCall {
			return claim.Errorf(claim.CodeInvalid, "the request is larger than %d KiB", maxCall>>10)
		}
	}
	out, err := cosi.CallJSON(ctx, endpoint, rpc, in)
	if err != nil {
		return callError(rpc, err)
	}
	return a.print("%s", out)
}

// callError puts the driver's status among our codes, and keeps its words.
func callError(rpc string, err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return fmt.Errorf("call %s: %w", rpc, err)
	}
	code := claim.CodeDriver
	switch s.Code() {
	case codes.InvalidArgument:
		code = claim.CodeInvalid
	case codes.Unavailable:
		code = claim.CodeUnavailable
	case codes.DeadlineExceeded, codes.Canceled:
		code = claim.CodeTimeout
	}
	return claim.Errorf(code, "call %s: %s: %s", rpc, s.Code(), s.Message())
}
