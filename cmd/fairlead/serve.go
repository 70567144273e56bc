package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/driver/objects"
	"github.com/fairlead/fairlead/internal/objectstore"
	"github.com/fairlead/fairlead/internal/plugin"
)

// The environment of our driver; the daemon sets it for its child.
const (
	envObjects    = "FAIRLEAD_OBJECTS_DIR"
	envS3Endpoint = "FAIRLEAD_S3_ENDPOINT"
	envS3Region   = "FAIRLEAD_S3_REGION"
)

// storeOptions are the flags of the embedded store, the same for the daemon,
// which hands them on, and for the driver.
type storeOptions struct {
	listen, cert, key, endpoint, region string
}

func (o *storeOptions) addTo(f *pflag.FlagSet, getenv func(string) string) {
	f.StringVar(&o.listen, "s3-listen", or(getenv(envS3Listen), objectstore.DefaultListen), "address of the S3 endpoint; port 0 takes a free one and keeps it (env "+envS3Listen+")")
	f.StringVar(&o.cert, "s3-cert", getenv(envS3Cert), "TLS certificate of the S3 endpoint, a PEM file (env "+envS3Cert+")")
	f.StringVar(&o.key, "s3-key", getenv(envS3Key), "the certificate's key, a PEM file (env "+envS3Key+")")
	f.StringVar(&o.endpoint, "s3-endpoint", getenv(envS3Endpoint), "URL of the S3 endpoint for applications, if not the address (env "+envS3Endpoint+")")
	f.StringVar(&o.region, "s3-region", or(getenv(envS3Region), objectstore.DefaultRegion), "the one region (env "+envS3Region+")")
}

func (o *storeOptions) check() error {
	if (o.cert == "") != (o.key == "") {
		return claim.Errorf(claim.CodeInvalid, "--s3-cert and --s3-key belong together")
	}
	for _, file := range []string{o.cert, o.key} {
		if file == "" {
			continue
		}
		if _, err := os.Stat(file); err != nil {
			return claim.Errorf(claim.CodeInvalid, "%v", err)
		}
	}
	return nil
}

// environ is the same for a child.
func (o *storeOptions) environ() []string {
	return []string{
		envS3Listen + "=" + o.listen, envS3Cert + "=" + o.cert, envS3Key + "=" + o.key,
		envS3Endpoint + "=" + o.endpoint, envS3Region + "=" + o.region,
	}
}

func newServe(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "serve",
		Short: "Serve a driver of ours",
		Long:  "Serve one of our drivers by itself, as a cluster or another orchestrator needs it.",
	}, newServeCOSI(a))
}

// serveOptions are the flags of "serve cosi".
type serveOptions struct {
	endpoint, name, dir string
	store               storeOptions
}

func newServeCOSI(a *app) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "cosi",
		Short: "Serve our COSI driver with its embedded S3 store",
		Long: `Serve our COSI driver on a UNIX socket, with the embedded S3 store beside it, until
interrupted. "fairlead up" runs this as a child; by itself it is a driver like
any other vendor's. The exit status is one of sysexits(3): 78 for a wrong
endpoint, name or certificate, 69 if another process serves the endpoint.`,
		Example: `  COSI_ENDPOINT=unix:///run/objects/cosi.sock fairlead serve cosi --dir /srv/objects
  fairlead driver add second --exec -- fairlead serve cosi --name second.example.com --dir /srv/second --s3-listen 127.0.0.1:0`,
		Args: args(0, 0, "nothing"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.serve(cmd.Context()); err != nil {
				return &statusError{cosi.ExitCode(err), err}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.endpoint, "endpoint", a.getenv("COSI_ENDPOINT"), "socket to serve, unix:///PATH.sock (env COSI_ENDPOINT)")
	f.StringVar(&o.name, "name", objects.Name, "what DriverGetInfo answers")
	f.StringVar(&o.dir, "dir", or(a.getenv(envObjects), filepath.Join(a.places.State, "objects")), "the store's directory (env "+envObjects+")")
	o.store.addTo(f, a.getenv)
	return cmd
}

// errStore ends a driver whose store has ended.
var errStore = errors.New("the S3 endpoint failed")

// serve fails on a wrong endpoint before it opens the store.
func (o *serveOptions) serve(ctx context.Context) (err error) {
	if _, err := plugin.ParseEndpoint(o.endpoint); err != nil {
		return err
	}
	if err := o.store.check(); err != nil {
		return fmt.Errorf("%w: %w", plugin.ErrConfig, err)
	}
	if err := absolute(&o.dir, &o.store.cert, &o.store.key); err != nil {
		return err
	}
	log, err := plugin.Logger()
	if err != nil {
		return err
	}
	store, err := objectstore.Open(ctx, objectstore.Config{
		Root: o.dir, Listen: o.store.listen, CertFile: o.store.cert, KeyFile: o.store.key,
		Region: o.store.region, PublicEndpoint: o.store.endpoint, Log: log,
	})
	if err != nil && ctx.Err() != nil {
		return nil // stopped while it started
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	// A driver without its store is of no use: end, and be started again.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-store.Failed():
			cancel(fmt.Errorf("%w: %w", errStore, err))
		case <-ctx.Done():
		}
	}()
	err = cosi.Serve(ctx, o.name, objects.New(store), cosi.WithEndpoint(o.endpoint), cosi.WithLogger(log))
	if cause := context.Cause(ctx); errors.Is(cause, errStore) {
		return errors.Join(cause, err)
	}
	return err
}
