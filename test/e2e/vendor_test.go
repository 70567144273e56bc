package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/cosi/draftpb"
)

// vendorArg makes the test program a vendor's COSI driver: vendorArg KIND DIR.
const vendorArg = "vendor-driver"

// vendorMain is the driver. Its kinds: "scripted" does what the parameters of a
// call say; "raw" answers with bytes of its own; "draft" knows the older draft
// only; "teller" grants once and then tells the secret in errors; "broken" prints
// why and ends.
func vendorMain(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var err error
	switch kind, dir := args[0], args[1]; kind {
	case "scripted":
		err = cosi.Serve(ctx, "vendor.example.com", vendor{dir})
	case "raw":
		err = serveRaw(ctx, rawAnswers)
	case "draft":
		err = serveRaw(ctx, draftAnswers)
	case "teller":
		err = serveRaw(ctx, tellerAnswers(vendor{dir}))
	case "broken":
		fmt.Println("vendor: starting")
		fmt.Fprintln(os.Stderr, "vendor: the back end's certificate has expired")
		return 3
	default:
		err = fmt.Errorf("unknown kind %q", kind)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return cosi.ExitCode(err)
}

// vendor is the scripted kind. It keeps nothing: what it makes has names that
// follow from the request.
type vendor struct{ dir string }

func (v vendor) DriverCreateBucket(ctx context.Context, r *cosipb.DriverCreateBucketRequest) (*cosipb.DriverCreateBucketResponse, error) {
	if err := v.follow(r.GetName(), r.GetParameters()); err != nil {
		return nil, err
	}
	return &cosipb.DriverCreateBucketResponse{BucketId: "id-" + r.GetName(), BucketInfo: s3Region("far")}, nil
}

func s3Region(region string) *cosipb.Protocol {
	return &cosipb.Protocol{Type: &cosipb.Protocol_S3{S3: &cosipb.S3{Region: region, SignatureVersion: cosipb.S3SignatureVersion_S3V4}}}
}

func (v vendor) DriverDeleteBucket(context.Context, *cosipb.DriverDeleteBucketRequest) (*cosipb.DriverDeleteBucketResponse, error) {
	return &cosipb.DriverDeleteBucketResponse{}, nil
}

func (v vendor) DriverGrantBucketAccess(_ context.Context, r *cosipb.DriverGrantBucketAccessRequest) (*cosipb.DriverGrantBucketAccessResponse, error) {
	return granted(r.GetName()), v.follow(r.GetName(), r.GetParameters())
}

func granted(account string) *cosipb.DriverGrantBucketAccessResponse {
	return &cosipb.DriverGrantBucketAccessResponse{AccountId: "acc-" + account, Credentials: map[string]*cosipb.CredentialDetails{"s3": {Secrets: map[string]string{
		"endpoint": "https://s3.example.com", "region": "far", "accessKeyID": "acc-" + account, "accessSecretKey": vendorSecret(account),
	}}}}
}

func (v vendor) DriverRevokeBucketAccess(_ context.Context, r *cosipb.DriverRevokeBucketAccessRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
	return &cosipb.DriverRevokeBucketAccessResponse{}, v.note("revoked-" + r.GetAccountId())
}

func vendorSecret(account string) string { return "vendors-own-secret-" + account }

// follow does what the parameters say.
func (v vendor) follow(name string, parameters map[string]string) error {
	if text := parameters["code"]; text != "" {
		var code codes.Code
		if err := json.Unmarshal([]byte(`"`+text+`"`), &code); err != nil {
			return err
		}
		if v.has("mended") {
			return nil
		}
		return status.Errorf(code, "the vendor says %s of %q", text, name)
	}
	switch parameters["do"] {
	case "hang": // whatever the caller does
		if err := v.note("hangs-" + name); err != nil {
			return err
		}
		select {}
	case "crash-once":
		if !v.has("crashed-" + name) {
			if err := v.note("crashed-" + name); err != nil {
				return err
			}
			os.Exit(9)
		}
	case "panic":
		panic("the vendor has a defect")
	case "tell-secret": // as drivers in the wild do
		return status.Errorf(codes.Internal, "the policy of key %s is wrong", vendorSecret(name))
	}
	return nil
}

// note makes a file that tests look at.
func (v vendor) note(name string) error { return os.WriteFile(filepath.Join(v.dir, name), nil, 0o600) }

func (v vendor) has(name string) bool {
	_, err := os.Stat(filepath.Join(v.dir, name))
	return err == nil
}

// serveRaw serves COSI without any of its rules: an answer by the last part of
// a method's name; others are UNIMPLEMENTED.
func serveRaw(ctx context.Context, answers map[string]func(request []byte) ([]byte, error)) error {
	l, err := net.Listen("unix", strings.TrimPrefix(os.Getenv(cosi.EndpointEnv), "unix://"))
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		answer := answers[method[strings.LastIndexByte(method, '/')+1:]]
		if answer == nil {
			return status.Errorf(codes.Unimplemented, "no %s here", method)
		}
		var request []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		b, err := answer(request)
		if err != nil {
			return err
		}
		return stream.SendMsg(b)
	}))
	context.AfterFunc(ctx, s.Stop)
	return s.Serve(l)
}

// raw is a codec of bytes.
type raw struct{}

func (raw) Name() string                  { return "proto" }
func (raw) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

// rawAnswers are right but for what the parameter "answer" asks for.
var rawAnswers = map[string]func([]byte) ([]byte, error){
	"DriverGetInfo": always(&cosipb.DriverGetInfoResponse{Name: "raw.example.com"}),
	"DriverCreateBucket": func(request []byte) ([]byte, error) {
		var r cosipb.DriverCreateBucketRequest
		if err := proto.Unmarshal(request, &r); err != nil {
			return nil, err
		}
		switch r.GetParameters()["answer"] {
		case "empty":
			return nil, nil
		case "noise":
			return []byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3}, nil
		case "long-id":
			return wire(&cosipb.DriverCreateBucketResponse{BucketId: strings.Repeat("i", 129), BucketInfo: s3Region("r")})
		case "huge":
			return wire(&cosipb.DriverCreateBucketResponse{BucketId: strings.Repeat("i", 2<<20), BucketInfo: s3Region("r")})
		}
		return wire(&cosipb.DriverCreateBucketResponse{BucketId: r.GetName(), BucketInfo: s3Region("r")})
	},
	"DriverDeleteBucket": nothing,
}

// draftAnswers are those of a driver from before v1alpha1.
var draftAnswers = map[string]func([]byte) ([]byte, error){
	"ProvisionerGetInfo":      always(&draftpb.ProvisionerGetInfoResponse{ProvisionerIdentity: "old.example.com"}),
	"ProvisionerCreateBucket": nothing,
	"ProvisionerDeleteBucket": nothing,
	"ProvisionerGrantBucketAccess": func(request []byte) ([]byte, error) {
		var r draftpb.ProvisionerGrantBucketAccessRequest
		if err := proto.Unmarshal(request, &r); err != nil {
			return nil, err
		}
		return wire(&draftpb.ProvisionerGrantBucketAccessResponse{
			Principal:               "p-" + r.GetPrincipal(),
			CredentialsFileContents: "[default]\naws_access_key_id = OLDKEY\naws_secret_access_key = " + vendorSecret(r.GetPrincipal()) + "\n",
		})
	},
	"ProvisionerRevokeBucketAccess": nothing,
}

// tellerAnswers grant an account once. Asked again it is an error that tells
// the secret, as of drivers in the wild.
func tellerAnswers(v vendor) map[string]func([]byte) ([]byte, error) {
	answers := maps.Clone(rawAnswers)
	answers["DriverGrantBucketAccess"] = func(request []byte) ([]byte, error) {
		var r cosipb.DriverGrantBucketAccessRequest
		if err := proto.Unmarshal(request, &r); err != nil {
			return nil, err
		}
		if v.has("told-" + r.GetName()) {
			return nil, status.Errorf(codes.Internal, "account %s exists with key %s", r.GetName(), vendorSecret(r.GetName()))
		}
		if err := v.note("told-" + r.GetName()); err != nil {
			return nil, err
		}
		return wire(granted(r.GetName()))
	}
	answers["DriverRevokeBucketAccess"] = nothing
	return answers
}

func wire(m proto.Message) ([]byte, error) { return proto.Marshal(m) }

func always(m proto.Message) func([]byte) ([]byte, error) {
	return func([]byte) ([]byte, error) { return wire(m) }
}

func nothing([]byte) ([]byte, error) { return nil, nil }
