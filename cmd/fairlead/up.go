package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/daemon"
)

const upLong = `Run the daemon in the foreground until it is interrupted. It keeps the claims in
its ledger, runs our own driver with the embedded S3 store, and answers on a UNIX
socket. Stopping it harms nothing: buckets, keys and files stay as they are, only
the embedded store is away until it runs again.

As root it uses /var/lib/fairlead, /run/fairlead and the CDI specs in
/var/run/cdi. As another user it uses the XDG directories and hands buckets over
as files and environment only: container runtimes read CDI specs from root's
directories, unless told otherwise with --cdi-dir on both sides.

Every flag has an environment variable; see "fairlead help environment".`

// upOptions are the flags of "up".
type upOptions struct {
	state, run, cdi, log, metrics string
	store                         storeOptions
}

func newUp(a *app) *cobra.Command {
	p := a.places
	o := upOptions{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run the daemon",
		Long:  upLong,
		Example: `  fairlead up
  fairlead up --s3-listen 0.0.0.0:9820 --s3-cert tls.crt --s3-key tls.key
  fairlead up --state /srv/fairlead --log debug`,
		Args: args(0, 0, "nothing"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			// --run-dir moves the socket with it, unless that is named itself.
			if cmd.Flags().Changed("run-dir") && !cmd.Flags().Changed("socket") && a.getenv(envSocket) == "" {
				a.socket = filepath.Join(o.run, socketName)
			}
			return a.up(cmd, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.state, "state", p.State, "ledger, keys and data (env "+envState+")")
	f.StringVar(&o.run, "run-dir", p.Run, "socket and credential files, on a tmpfs (env "+envRun+")")
	f.StringVar(&o.cdi, "cdi-dir", p.CDI, "where CDI specs are written; empty for none (env "+envCDI+")")
	f.StringVar(&o.log, "log", or(a.getenv(envLog), "info"), "debug, info, warn or error (env "+envLog+")")
	f.StringVar(&o.metrics, "metrics-listen", a.getenv(envMetricsListen), "address of the driver's Prometheus metrics; off if empty (env "+envMetricsListen+")")
	o.store.addTo(f, a.getenv)
	return cmd
}

func (a *app) up(cmd *cobra.Command, o *upOptions) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.log)); err != nil {
		return claim.Errorf(claim.CodeInvalid, "--log: %q is none of debug, info, warn, error", o.log)
	}
	if err := absolute(&o.state, &o.run, &o.cdi, &a.socket, &o.store.cert, &o.store.key); err != nil {
		return err
	}
	if err := o.store.check(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if o.cdi == "" {
		a.say("fairlead: buckets and files only: no CDI outside root unless --cdi-dir")
	}
	env := append(o.store.environ(), envLog+"="+o.log, envMetricsListen+"="+o.metrics)
	return daemon.Run(cmd.Context(), daemon.Config{
		StateDir: o.state, RunDir: o.run, CDIDir: o.cdi, Socket: a.socket,
		Self: []string{self, "serve", "cosi"}, DriverEnv: env,
		Hook:    findHook(hookDirs()),
		Version: readVersion().Version,
		Log:     slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level})),
	})
}

// absolute makes the paths that are not empty absolute: the daemon and its
// driver have other working directories.
func absolute(paths ...*string) error {
	for _, p := range paths {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return fmt.Errorf("resolve %q: %w", *p, err)
		}
		*p = abs
	}
	return nil
}
