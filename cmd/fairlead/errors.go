package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/internal/claim"
)

// exitCodes is the one table of exit codes; "fairlead help exit-codes" prints
// it and claim.Code decides it.
var exitCodes = []struct {
	status int
	code   claim.Code
	text   string
}{
	{0, "", "done"},
	{1, claim.CodeInternal, "failure: a defect, a failing disk, or a check of doctor that failed"},
	{2, claim.CodeInvalid, "usage: what was asked cannot be understood"},
	{3, claim.CodeNotFound, "no such object"},
	{4, claim.CodeConflict, "it exists already, with other arguments; of cdi: a conflict, or something would be lost"},
	{5, claim.CodeInUse, "it is in use: leased, or not empty"},
	{6, claim.CodeDenied, "you may not do that"},
	{7, claim.CodeUnavailable, "the daemon or a driver cannot be reached"},
	{8, claim.CodeTimeout, "not ready in the time given; the daemon goes on working on it"},
	{9, claim.CodeDriver, "the driver refused"},
	{10, codeSpec, "a CDI spec is invalid"},
}

// statusError carries an exit status that is not in the table: a driver's
// (sysexits), or that of a command that could not be started (126, 127).
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// errReported says that what failed has been told already.
type errReported struct{ error }

func (e errReported) Unwrap() error { return e.error }

// report tells a person what went wrong, on stderr, and returns the exit status.
func (a *app) report(err error) int {
	if err == nil {
		return 0
	}
	if _, told := errors.AsType[errReported](err); !told {
		a.tell(err)
	}
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.status
	}
	return exitStatus(err)
}

// tell prints one error and its hint.
func (a *app) tell(err error) {
	message := strings.TrimSpace(err.Error())
	_, _ = fmt.Fprintf(a.err, "fairlead: %s\n", message)
	if e, ok := errors.AsType[*claim.Error](err); ok && e.Hint != "" {
		_, _ = fmt.Fprintf(a.err, "hint: %s\n", e.Hint)
	}
}

func exitStatus(err error) int {
	code := claim.CodeOf(err)
	for _, e := range exitCodes {
		if e.code == code {
			return e.status
		}
	}
	return 1
}

// usage is an error about the command line itself.
func usage(cmd *cobra.Command, format string, args ...any) error {
	return claim.Errorf(claim.CodeInvalid, format, args...).
		WithHint("usage: %s (more: %s --help)", cmd.UseLine(), cmd.CommandPath())
}

// args checks the number of positional arguments; what names them.
func args(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		switch {
		case len(given) < least:
			return usage(cmd, "%s needs %s", cmd.CommandPath(), what)
		case most >= 0 && len(given) > most:
			return usage(cmd, "%s: unexpected argument %q", cmd.CommandPath(), given[most])
		}
		return nil
	}
}

// group makes cmd a verb that only holds others: alone it explains itself, and
// a misspelt child is answered with the nearest ones.
func group(cmd *cobra.Command, children ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(children...)
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if len(given) == 0 {
			return nil
		}
		err := claim.Errorf(claim.CodeInvalid, "unknown command %q for %q", given[0], cmd.CommandPath())
		if near := cmd.SuggestionsFor(given[0]); len(near) > 0 {
			return err.WithHint("did you mean: %s %s", cmd.CommandPath(), strings.Join(near, ", "))
		}
		return err.WithHint("see: %s --help", cmd.CommandPath())
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}
