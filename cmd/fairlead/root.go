package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/internal/claim"
)

const rootLong = `Fairlead gives any container its buckets. State a claim; Fairlead provisions
the bucket through a COSI driver and hands it over through whichever door the
runtime has: a CDI device, files, or environment variables.

Start the daemon, claim a bucket, use it:

  fairlead up &
  fairlead claim bucket photos
  podman run --rm --device fairlead.dev/bucket=photos --network=host IMAGE
  fairlead exec photos -- aws s3 ls

Data is printed on stdout, talk on stderr. See "fairlead help exit-codes" for
the exit codes and "fairlead help environment" for the environment variables.`

// newRoot wires every verb.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "fairlead",
		Short:         "Buckets for any container",
		Long:          rootLong,
		Version:       readVersion().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("fairlead {{.Version}}\n")
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.PersistentFlags().StringVar(&a.socket, "socket", a.socket, "the daemon's socket (env "+envSocket+")")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return claim.Errorf(claim.CodeInvalid, "%v", err).WithHint("see: %s --help", cmd.CommandPath())
	})
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	root.AddGroup(
		&cobra.Group{ID: "use", Title: "Buckets:"},
		&cobra.Group{ID: "host", Title: "This host:"},
		&cobra.Group{ID: "cosi", Title: "COSI drivers:"},
	)
	in := func(id string, cmds ...*cobra.Command) []*cobra.Command {
		for _, c := range cmds {
			c.GroupID = id
		}
		return cmds
	}
	group(root, in("use", newClaim(a), newAccess(a), newGet(a), newDescribe(a), newRelease(a), newEnv(a), newExec(a), newApply(a))...)
	root.AddCommand(in("host", newUp(a), newCDI(a), newDoctor(a), newInstall(a))...)
	root.AddCommand(in("cosi", newDriver(a), newCall(a), newServe(a), newProxy())...)
	root.AddCommand(newVersion(a), newMan(), exitCodesTopic(), environmentTopic())
	return root
}

// exitCodesTopic is a help topic: a command without anything to run.
func exitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Every verb ends with one of these:\n\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "  %3d  %-13s %s\n", e.status, e.code, e.text)
	}
	b.WriteString(`
The word is what the daemon's API calls it. Besides, "exec" ends as its command
does, or with 127 when there is no such command and 126 when it cannot be
started; "serve" and "proxy" end with a status of sysexits(3), such as 64
(usage), 69 (unavailable) or 78 (configuration).`)
	return &cobra.Command{Use: "exit-codes", Short: "The exit codes", Long: b.String()}
}

// environmentTopic is a help topic.
func environmentTopic() *cobra.Command {
	return &cobra.Command{Use: "environment", Short: "The environment variables", Long: `A flag stands above its variable; a variable stands above the default.

  FAIRLEAD_SOCKET          the daemon's socket, for every verb
  FAIRLEAD_STATE_DIR       up: ledger, keys and data
  FAIRLEAD_RUN_DIR         up: socket and credential files, on a tmpfs
  FAIRLEAD_CDI_DIR         up: where CDI specs are written
  FAIRLEAD_CDI_SPEC_DIRS   cdi: directories of specs, with colons between
  FAIRLEAD_S3_LISTEN       up: address of the embedded S3 endpoint
  FAIRLEAD_S3_CERT         up: its TLS certificate, a PEM file
  FAIRLEAD_S3_KEY          up: the certificate's key, a PEM file
  FAIRLEAD_LOG             up: debug, info, warn or error
  FAIRLEAD_METRICS_LISTEN  up: address of the Prometheus metrics; off unless set
  OTEL_EXPORTER_OTLP_ENDPOINT  where traces go; off unless set
  COSI_ENDPOINT            serve cosi: the socket to serve, unix:///path.sock
  NO_COLOR                 no colour, whatever its value
  XDG_STATE_HOME, XDG_RUNTIME_DIR, XDG_CACHE_HOME  the defaults of a user other than root`}
}
