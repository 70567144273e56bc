package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/control"
)

// The outcomes of a check.
const (
	checkOK   = "ok"
	checkWarn = "warn" // it works, but not all of it or not for long
	checkFail = "fail"
)

// check is one line of doctor's report. In JSON it is a stable contract.
type check struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func ok(name, format string, args ...any) check {
	return check{Name: name, State: checkOK, Message: fmt.Sprintf(format, args...)}
}

func warn(name, hint, format string, args ...any) check {
	return check{name, checkWarn, fmt.Sprintf(format, args...), hint}
}

func fail(name, hint, format string, args ...any) check {
	return check{name, checkFail, fmt.Sprintf(format, args...), hint}
}

// doctorTime bounds each question that doctor asks of somebody else.
const doctorTime = 3 * time.Second

func newDoctor(a *app) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this host, the daemon and the container runtimes",
		Long: `Check what Fairlead needs: the daemon and its socket, the directories and their
file systems, the container runtimes and whether they know CDI, the clock, the
S3 endpoint. Each line is ok, warn or fail, with a hint. The exit code is 1 if a
check failed. Nothing is changed; two small files are written and removed again
to try the file system.`,
		Example: "  fairlead doctor\n  fairlead doctor -o json",
		Args:    args(0, 0, "nothing"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := a.doctor(cmd.Context())
			if o.format == "text" {
				a.printChecks(checks)
			} else if err := a.value(o.format, checks); err != nil {
				return err
			}
			return verdict(checks)
		},
	}
	o.addTo(cmd, "text", "json", "yaml")
	return cmd
}

// verdict is the error that makes the exit code; the report has told it.
func verdict(checks []check) error {
	for _, c := range checks {
		if c.State == checkFail {
			return errReported{errors.New("a check failed")}
		}
	}
	return nil
}

// doctor makes all checks. Without a daemon it looks where one would be.
func (a *app) doctor(ctx context.Context) []check {
	ask, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	status, err := a.client().Status(ask)
	places := a.places
	if err == nil {
		places = placesOf(status, places)
	}
	checks := []check{a.checkDaemon(status, err)}
	if err == nil {
		checks = append(checks, checkSocket(a.socket))
		checks = append(checks, checkDrivers(status.Drivers)...)
		for _, w := range status.Warnings {
			checks = append(checks, warn("daemon", "", "%s", w))
		}
	}
	checks = append(checks, checkRunDir(filepath.Join(places.Run, "creds")))
	checks = append(checks, checkState(places.State)...)
	checks = append(checks, checkCDI(places.CDI))
	checks = append(checks, checkRuntimes(ctx)...)
	checks = append(checks, checkClock(a.now()))
	if err == nil {
		checks = append(checks, a.checkEndpoint(ctx))
	}
	return checks
}

// placesOf are the running daemon's own.
func placesOf(s control.Status, p places) places {
	p.State, p.Run, p.CDI = or(s.StateDir, p.State), or(s.RunDir, p.Run), s.CDIDir
	return p
}

func (a *app) checkDaemon(s control.Status, err error) check {
	if err != nil {
		hint := ""
		if e, ok := errors.AsType[*claim.Error](err); ok {
			hint = e.Hint
		}
		return fail("daemon", hint, "%v", err)
	}
	if own := readVersion().Version; s.Version != own {
		return warn("daemon", "restart the daemon", "the daemon is %s, this program %s", dash(s.Version), own)
	}
	if !s.Ready {
		return warn("daemon", "look again in a moment, or at the daemon's log", "running as process %d, not ready yet", s.PID)
	}
	return ok("daemon", "running as process %d, %s", s.PID, s.Version)
}

func checkDrivers(drivers []claim.Driver) (checks []check) {
	for _, d := range drivers {
		name := "driver " + d.Name
		switch d.State {
		case "Ready":
			checks = append(checks, ok(name, "%s, %s", d.Identity, d.Protocol))
		case "Starting":
			checks = append(checks, warn(name, "look again in a moment", "starting"))
		default:
			hint := "see: fairlead driver log " + d.Name
			if d.Endpoint != "" {
				hint = "is it running, and does it serve " + d.Endpoint + "?"
			}
			checks = append(checks, fail(name, hint, "%s", strings.TrimSpace(d.State+" "+d.Message)))
		}
	}
	return checks
}

// printChecks prints the report for a person.
func (a *app) printChecks(checks []check) {
	colours := map[string]string{checkOK: "\x1b[32m", checkWarn: "\x1b[33m", checkFail: "\x1b[31m"}
	coloured := a.colour(a.out)
	for _, c := range checks {
		state := fmt.Sprintf("%-4s", c.State)
		if coloured {
			state = colours[c.State] + state + "\x1b[0m"
		}
		_, _ = fmt.Fprintf(a.out, "%s  %-16s %s\n", state, c.Name, c.Message)
		if c.Hint != "" && c.State != checkOK {
			_, _ = fmt.Fprintf(a.out, "      %-16s hint: %s\n", "", c.Hint)
		}
	}
}
