package cosi

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/internal/plugin"
)

// EndpointEnv names the variable that tells a plugin where to listen (COSI-140).
const EndpointEnv = "COSI_ENDPOINT"

// Driver is what a vendor writes; [Serve] does the rest of the specification.
//
// The methods are called only with requests whose required fields are set and
// whose sizes are within the limits, and never twice at a time for one bucket;
// for different buckets they are called concurrently. Each must be idempotent
// (COSI-090) and should end soon after its context does. Errors are statuses
// made with google.golang.org/grpc/status, whose text is shown to people; an
// error without a code is answered as INTERNAL.
type Driver interface {
	// DriverCreateBucket: the same name and parameters give the same answer,
	// other parameters ALREADY_EXISTS (COSI-030, COSI-031).
	DriverCreateBucket(context.Context, *cosipb.DriverCreateBucketRequest) (*cosipb.DriverCreateBucketResponse, error)
	// DriverDeleteBucket of what is gone is no error (COSI-032).
	DriverDeleteBucket(context.Context, *cosipb.DriverDeleteBucketRequest) (*cosipb.DriverDeleteBucketResponse, error)
	// DriverGrantBucketAccess makes one account per name (COSI-033).
	DriverGrantBucketAccess(context.Context, *cosipb.DriverGrantBucketAccessRequest) (*cosipb.DriverGrantBucketAccessResponse, error)
	// DriverRevokeBucketAccess of what is gone is no error (COSI-035).
	DriverRevokeBucketAccess(context.Context, *cosipb.DriverRevokeBucketAccessRequest) (*cosipb.DriverRevokeBucketAccessResponse, error)
}

// BucketIDer is implemented by a [Driver] whose bucket ids are not the names
// that the buckets were created by. The draft knows buckets by name only, and
// its calls must find the id again after a restart. For a name without a
// bucket BucketID returns NOT_FOUND.
type BucketIDer interface {
	BucketID(ctx context.Context, name string) (id string, err error)
}

// Option changes how [Serve] serves.
type Option func(*plugin.Server)

// WithEndpoint serves at endpoint rather than at what COSI_ENDPOINT says.
func WithEndpoint(endpoint string) Option {
	return func(s *plugin.Server) { s.Endpoint = endpoint }
}

// WithSocketMode sets the permissions of the socket; the default is 0660.
func WithSocketMode(mode fs.FileMode) Option {
	return func(s *plugin.Server) { s.SocketMode = mode }
}

// WithLogger sends logs elsewhere than to standard error. A vendor who does so
// must document where they go (COSI-174).
func WithLogger(log *slog.Logger) Option {
	return func(s *plugin.Server) { s.Log = log }
}

// WithStopTimeout sets how long a stopping plugin waits for calls in flight;
// the default is 5 s.
func WithStopTimeout(d time.Duration) Option {
	return func(s *plugin.Server) { s.StopTimeout = d }
}

// Serve makes a COSI plugin of d: Identity and Provisioner of v1alpha1, and
// the methods of the older draft under the same service name, on the one UNIX
// socket that COSI_ENDPOINT names (COSI-141, COSI-143). name is what
// DriverGetInfo answers; it must be a domain name of at most 63 characters,
// such as objects.example.com (COSI-046 to COSI-049).
//
// Serve blocks until ctx ends, then stops gracefully and returns nil. It
// returns an error at once if it cannot serve; [ExitCode] turns that into an
// exit code. FAIRLEAD_LOG sets the level of the logs on standard error,
// FAIRLEAD_METRICS_LISTEN (host:port) switches on Prometheus metrics, and
// OTEL_EXPORTER_OTLP_ENDPOINT OpenTelemetry traces.
func Serve(ctx context.Context, name string, d Driver, opts ...Option) error {
	if err := checkDriverName(name); err != nil {
		return err
	}
	s := plugin.Server{
		Name:     name,
		Endpoint: os.Getenv(EndpointEnv),
		Guard:    &plugin.Guard{Rules: serveRules},
	}
	for _, o := range opts {
		o(&s)
	}
	if s.Endpoint == "" {
		return fmt.Errorf("%w: %s is not set; want unix:///absolute/path.sock", plugin.ErrConfig, EndpointEnv)
	}
	p := newProvisioner(name, d)
	s.Guard.Object = p.object
	s.Services = p.register
	return s.Run(ctx)
}

// ExitCode is the exit code for the error that [Serve] ended with, by the
// names of sysexits.h (COSI-179): 0 for nil, 78 (EX_CONFIG) for a wrong
// endpoint, name or variable, 69 (EX_UNAVAILABLE) if another process serves
// the endpoint, 77 (EX_NOPERM) if the system refuses, else 70 (EX_SOFTWARE).
func ExitCode(err error) int { return plugin.ExitCode(err) }

// serveRules add to the caller's what only a plugin has to hold to.
var serveRules = callerRules.With(plugin.Tables{
	MaxBytes: map[protoreflect.FullName]int{
		"cosi.v1alpha1.DriverGetInfoResponse.name": maxDriverName, // COSI-049
	},
	Closed: []protoreflect.FullName{
		"fairlead.cosi.draft.ProvisionerCreateBucketRequest.anonymous_bucket_access_mode", // DRAFT-019
	},
})

const maxDriverName = 63

// checkDriverName holds the name of a driver to domain name notation
// (COSI-047). Its labels may begin with a digit, which the specification's own
// rule allows (COSI-049).
func checkDriverName(name string) error {
	fail := func(why string) error {
		return fmt.Errorf("%w: driver name %q %s; want a domain name such as objects.example.com", plugin.ErrConfig, name, why)
	}
	if name == "" {
		return fail("is empty")
	}
	if len(name) > maxDriverName {
		return fail(fmt.Sprintf("has %d characters, more than %d", len(name), maxDriverName))
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" {
			return fail("has an empty part between dots")
		}
		if label[0] == '-' || label[len(label)-1] == '-' {
			return fail("has a part that begins or ends with a dash")
		}
		for _, c := range label {
			if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
				return fail("holds something other than letters, digits, dashes and dots")
			}
		}
	}
	return nil
}
