package main

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/control"
)

func newDriver(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "driver",
		Short: "Add, list and remove COSI drivers",
		Long: `Any vendor's COSI driver can stand beside ours. A driver is reached through its
socket only; one that Fairlead runs itself is restarted when it ends.`,
	}, newDriverAdd(a), newDriverList(a), newDriverRemove(a), newDriverLog(a))
}

func newDriverAdd(a *app) *cobra.Command {
	var run bool
	var wait time.Duration
	var o output
	cmd := &cobra.Command{
		Use:   "add NAME (unix:///PATH.sock | --exec -- CMD [ARG...])",
		Short: "Add a driver",
		Long: `Add a driver by the socket that it serves, or with --exec by its command. A
command is supervised: it is given COSI_ENDPOINT, restarted with growing pauses
when it ends, and its output is kept for "fairlead driver log". The daemon
writes the command down: put no secret into it, but into a file of the driver's.`,
		Example: `  fairlead driver add vendor unix:///run/vendor/cosi.sock
  fairlead driver add vendor --exec -- /usr/local/bin/vendor-cosi --config /etc/vendor.yaml
  fairlead claim bucket photos --driver vendor`,
		Args: args(2, -1, "a NAME, and an endpoint or --exec -- CMD"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := control.DriverRequest{Name: args[0]}
			switch {
			case run:
				req.Exec = args[1:]
			case len(args) > 2:
				return usage(cmd, "unexpected argument %q", args[2])
			default:
				req.Endpoint = args[1]
			}
			return a.addDriver(cmd, req, wait, o)
		},
	}
	cmd.Flags().BoolVar(&run, "exec", false, "what follows NAME is a command to run")
	waitFlag(cmd, &wait)
	o.addTo(cmd, "name", "json", "yaml")
	return cmd
}

func (a *app) addDriver(cmd *cobra.Command, req control.DriverRequest, wait time.Duration, o output) error {
	if err := claim.CheckName("a driver", req.Name); err != nil {
		return err
	}
	if err := findCommand(req.Exec); err != nil {
		return err
	}
	done := a.waiting(cmd.Context(), "waiting for driver "+req.Name)
	d, err := a.client().AddDriver(cmd.Context(), req, wait)
	done()
	if err != nil {
		return err
	}
	if d.Identity != "" {
		a.say("driver %s is %s and speaks %s", d.Name, d.Identity, d.Protocol)
	} else {
		a.say("driver %s is %s", d.Name, or(strings.ToLower(d.State), "added"))
	}
	if o.format == "name" {
		return a.print("driver/%s", d.Name)
	}
	return a.value(o.format, d)
}

// findCommand makes a command absolute: the daemon has another PATH and another
// working directory than the person who names it.
func findCommand(command []string) error {
	if len(command) == 0 {
		return nil
	}
	file, err := exec.LookPath(command[0])
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err != nil {
		return claim.Errorf(claim.CodeInvalid, "find the driver's command: %v", err)
	}
	command[0] = file
	return nil
}

func newDriverList(a *app) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the drivers",
		Long:    "List the drivers, and how each fares.",
		Example: "  fairlead driver list\n  fairlead driver list -o wide",
		Args:    args(0, 0, "nothing"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.drivers(cmd.Context())
			if err != nil {
				return err
			}
			return a.list(o, l)
		},
	}
	o.addTo(cmd, listFormats()...)
	return cmd
}

func newDriverRemove(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "remove NAME",
		Aliases:           []string{"rm"},
		Short:             "Remove a driver that no claim uses",
		Long:              "Remove a driver. One that a claim uses is refused (exit code 5).",
		Example:           "  fairlead driver remove vendor",
		Args:              args(1, 1, "a NAME"),
		ValidArgsFunction: a.completeDrivers,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := driverName(args[0])
			if err != nil {
				return err
			}
			if err := a.client().RemoveDriver(cmd.Context(), name); err != nil {
				return err
			}
			a.say("driver %s is removed", name)
			return a.print("driver/%s", name)
		},
	}
}

func newDriverLog(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "log NAME",
		Short:             "Print the last output of a supervised driver",
		Long:              "Print the last output of a driver that Fairlead runs.",
		Example:           "  fairlead driver log objects",
		Args:              args(1, 1, "a NAME"),
		ValidArgsFunction: a.completeDrivers,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := driverName(args[0])
			if err != nil {
				return err
			}
			text, err := a.client().DriverLog(cmd.Context(), name)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(a.out, text); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			return nil
		},
	}
}

func driverName(text string) (string, error) {
	name := strings.TrimPrefix(text, "driver/")
	return name, claim.CheckName("a driver", name)
}
