package cosi_test

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/cosi/cosipb"
)

// Req: COSI-008, COSI-013, COSI-015, COSI-027, COSI-034, COSI-046, COSI-056, COSI-116, COSI-139, COSI-141, COSI-143, COSI-145, COSI-170
func TestServeLifeOfABucket(t *testing.T) {
	s := serve(t, &store{})
	ctx := within(t, 10*time.Second)
	info := must(s.DriverGetInfo(ctx, &cosipb.DriverGetInfoRequest{}))(t)
	if info.GetName() != driverName {
		t.Errorf("name %q", info.GetName())
	}
	b := must(s.DriverCreateBucket(ctx, createRequest("photos", "region", "eu")))(t)
	if b.GetBucketInfo().GetS3().GetRegion() != "eu" {
		t.Errorf("bucket info %v", b.GetBucketInfo())
	}
	g := must(s.DriverGrantBucketAccess(ctx, grantRequest(b.GetBucketId(), "app")))(t)
	if g.GetCredentials()["s3"].GetSecrets()["accessSecretKey"] != secretKey {
		t.Errorf("credentials %v", g.GetCredentials())
	}
	must(s.DriverRevokeBucketAccess(ctx, &cosipb.DriverRevokeBucketAccessRequest{BucketId: b.GetBucketId(), AccountId: g.GetAccountId()}))(t)
	must(s.DriverDeleteBucket(ctx, &cosipb.DriverDeleteBucketRequest{BucketId: b.GetBucketId()}))(t)
	if err := s.stop(); err != nil {
		t.Errorf("Serve returned %v", err)
	}
	if _, err := os.Lstat(s.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket stays behind: %v", err)
	}
}

// Req: COSI-046, COSI-047, COSI-049, COSI-179
func TestServeNames(t *testing.T) {
	for name, fine := range map[string]bool{
		"objects.fairlead.dev": true, "a": true, "A-1.b": true, "3com.example": true, strings.Repeat("a", 63): true,
		"": false, strings.Repeat("a", 64): false, "a_b": false, ".a": false, "a.": false, "a..b": false,
		"-a": false, "a-": false, "a.-b": false, "a b": false, "ü.example": false, "a/b": false, "a\n": false,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := cosi.Serve(ctx, name, &store{}, cosi.WithEndpoint("unix://"+socket(t)), cosi.WithLogger(slog.New(slog.DiscardHandler)))
		if fine && err != nil {
			t.Errorf("name %q: %v", name, err)
		}
		if !fine && (err == nil || cosi.ExitCode(err) != 78) {
			t.Errorf("name %q: error %v, exit code %d", name, err, cosi.ExitCode(err))
		}
	}
}

// Req: COSI-051, COSI-058, COSI-063, COSI-064, COSI-065, COSI-072, COSI-073, COSI-084, COSI-087, COSI-096, COSI-098, COSI-100
func TestServeRequiredFields(t *testing.T) {
	d := &store{}
	s := serve(t, d)
	ctx := within(t, 10*time.Second)
	create := func(r *cosipb.DriverCreateBucketRequest) error { _, err := s.DriverCreateBucket(ctx, r); return err }
	remove := func(r *cosipb.DriverDeleteBucketRequest) error { _, err := s.DriverDeleteBucket(ctx, r); return err }
	grant := func(r *cosipb.DriverGrantBucketAccessRequest) error {
		_, err := s.DriverGrantBucketAccess(ctx, r)
		return err
	}
	revoke := func(r *cosipb.DriverRevokeBucketAccessRequest) error {
		_, err := s.DriverRevokeBucketAccess(ctx, r)
		return err
	}
	key := cosipb.AuthenticationType_Key
	for want, err := range map[string]error{
		"field name is required":                             create(&cosipb.DriverCreateBucketRequest{}),
		"field bucket_id is required":                        remove(&cosipb.DriverDeleteBucketRequest{}),
		"field bucket_id is required ":                       grant(&cosipb.DriverGrantBucketAccessRequest{Name: "a", AuthenticationType: key}),
		"field name is required ":                            grant(&cosipb.DriverGrantBucketAccessRequest{BucketId: "b", AuthenticationType: key}),
		"field authentication_type is required":              grant(&cosipb.DriverGrantBucketAccessRequest{BucketId: "b", Name: "a"}),
		"field authentication_type has the unknown value 3":  grant(&cosipb.DriverGrantBucketAccessRequest{BucketId: "b", Name: "a", AuthenticationType: 3}),
		"field authentication_type has the unknown value -1": grant(&cosipb.DriverGrantBucketAccessRequest{BucketId: "b", Name: "a", AuthenticationType: -1}),
		"field bucket_id is required  ":                      revoke(&cosipb.DriverRevokeBucketAccessRequest{AccountId: "a"}),
		"field account_id is required":                       revoke(&cosipb.DriverRevokeBucketAccessRequest{BucketId: "b"}),
	} {
		wantStatus(t, err, codes.InvalidArgument, strings.TrimSpace(want))
	}
	if d.count() != 0 {
		t.Errorf("the driver has seen %d incomplete requests", d.count())
	}
}

// Req: COSI-052, COSI-059, COSI-066, COSI-074, COSI-079, COSI-081, COSI-082
func TestServeLimitsOfRequests(t *testing.T) {
	d := &store{}
	s := serve(t, d)
	ctx := within(t, 10*time.Second)
	big := map[string]string{"k": long(4096)}
	_, err := s.DriverCreateBucket(ctx, createRequest(long(129)))
	wantStatus(t, err, codes.InvalidArgument, "field name has 129 bytes, more than the limit of 128")
	_, err = s.DriverCreateBucket(ctx, &cosipb.DriverCreateBucketRequest{Name: "b", Parameters: big})
	wantStatus(t, err, codes.InvalidArgument, "field parameters has 4097 bytes")
	_, err = s.DriverDeleteBucket(ctx, &cosipb.DriverDeleteBucketRequest{BucketId: "b", DeleteContext: big})
	wantStatus(t, err, codes.InvalidArgument, "field delete_context has 4097 bytes")
	_, err = s.DriverGrantBucketAccess(ctx, &cosipb.DriverGrantBucketAccessRequest{BucketId: "b", Name: "a", AuthenticationType: 1, Parameters: big})
	wantStatus(t, err, codes.InvalidArgument, "field parameters has 4097 bytes")
	_, err = s.DriverRevokeBucketAccess(ctx, &cosipb.DriverRevokeBucketAccessRequest{BucketId: "b", AccountId: "a", RevokeAccessContext: big})
	wantStatus(t, err, codes.InvalidArgument, "field revoke_access_context has 4097 bytes")
	if d.count() != 0 {
		t.Errorf("the driver has seen %d oversized requests", d.count())
	}
	if _, err := s.DriverDeleteBucket(ctx, &cosipb.DriverDeleteBucketRequest{BucketId: long(128), DeleteContext: map[string]string{"k": long(4095)}}); err != nil {
		t.Errorf("the limits themselves are refused: %v", err)
	}
}

// Req: COSI-055, COSI-069, COSI-070, COSI-079, COSI-081, COSI-082, COSI-085
func TestServeInvalidAnswers(t *testing.T) {
	var answer proto.Message
	d := &store{}
	d.after = func(_, _ proto.Message, _ error) (proto.Message, error) { return answer, nil }
	s := serve(t, d)
	ctx := within(t, 10*time.Second)
	secrets := func(m map[string]string) map[string]*cosipb.CredentialDetails {
		return map[string]*cosipb.CredentialDetails{"s3": {Secrets: m}}
	}
	for want, m := range map[string]proto.Message{
		"neither an answer nor an error":                      (*cosipb.DriverCreateBucketResponse)(nil),
		"field bucket_id is required":                         &cosipb.DriverCreateBucketResponse{},
		"field bucket_id has 129 bytes":                       &cosipb.DriverCreateBucketResponse{BucketId: long(129)},
		"field bucket_id is no valid UTF-8":                   &cosipb.DriverCreateBucketResponse{BucketId: "\xff"},
		"field bucket_info.gcs.project_id has 129":            &cosipb.DriverCreateBucketResponse{BucketId: "b", BucketInfo: &cosipb.Protocol{Type: &cosipb.Protocol_Gcs{Gcs: &cosipb.GCS{ProjectId: long(129)}}}},
		"field account_id is required":                        &cosipb.DriverGrantBucketAccessResponse{Credentials: secrets(nil)},
		"field credentials is required":                       &cosipb.DriverGrantBucketAccessResponse{AccountId: "a"},
		"field credentials[s3].secrets has 4097 bytes":        &cosipb.DriverGrantBucketAccessResponse{AccountId: "a", Credentials: secrets(map[string]string{"k": long(4096)})},
		"field credentials[s3].secrets holds text that is no": &cosipb.DriverGrantBucketAccessResponse{AccountId: "a", Credentials: secrets(map[string]string{"k": "\xff"})},
	} {
		answer = m
		var err error
		if _, ok := m.(*cosipb.DriverCreateBucketResponse); ok {
			_, err = s.DriverCreateBucket(ctx, createRequest("b"))
		} else {
			_, err = s.DriverGrantBucketAccess(ctx, grantRequest("b", "a"))
		}
		wantStatus(t, err, codes.Internal, "the driver gave", want)
	}
}

// Req: COSI-030, COSI-031, COSI-092, COSI-093, COSI-095, COSI-101, COSI-110, COSI-112, COSI-114, COSI-119, COSI-124, COSI-126
func TestServeStatuses(t *testing.T) {
	detailed := must(status.New(codes.PermissionDenied, "not with this key").WithDetails(&cosipb.S3{}))(t).Err()
	for name, test := range map[string]struct {
		err  error
		code codes.Code
		text string
	}{
		"details are dropped":  {detailed, codes.PermissionDenied, "not with this key"},
		"the message is given": {status.Error(codes.AlreadyExists, ""), codes.AlreadyExists, "the driver answered ALREADY_EXISTS"},
		"not authenticated":    {status.Error(codes.Unauthenticated, "key expired"), codes.Unauthenticated, "key expired"},
		"no code":              {errors.New("disk on fire"), codes.Internal, "disk on fire"},
		"odd code":             {status.Error(99, "odd"), codes.Unknown, "odd"},
		"deadline":             {context.DeadlineExceeded, codes.DeadlineExceeded, "deadline"},
		"cancelled":            {context.Canceled, codes.Canceled, "canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &store{before: func(context.Context, proto.Message) error { return test.err }})
			_, err := s.DriverCreateBucket(within(t, 10*time.Second), createRequest("b"))
			wantStatus(t, err, test.code, test.text)
		})
	}
	s := serve(t, &store{})
	ctx := within(t, 10*time.Second)
	first := must(s.DriverCreateBucket(ctx, createRequest("b", "region", "eu")))(t)
	if again := must(s.DriverCreateBucket(ctx, createRequest("b", "region", "eu")))(t); !proto.Equal(first, again) {
		t.Errorf("a repeat gives %v", again)
	}
	_, err := s.DriverCreateBucket(ctx, createRequest("b"))
	wantStatus(t, err, codes.AlreadyExists, "other parameters")
	_, err = s.DriverCreateBucket(ctx, createRequest("c", "region", "mars"))
	wantStatus(t, err, codes.OutOfRange, "mars")
}

// Req: COSI-014, COSI-107, COSI-112, DRAFT-005
func TestServeUnknownMethods(t *testing.T) {
	s := serve(t, &store{})
	ctx := within(t, 10*time.Second)
	for _, method := range []string{
		"/cosi.v1alpha1.Provisioner/DriverFlyBucket", "/cosi.v1alpha1.Identity/ProbeBucket", "/cosi.v1alpha2.Provisioner/DriverCreateBucket",
	} {
		err := s.conn.Invoke(ctx, method, &cosipb.DriverGetInfoRequest{}, &cosipb.DriverGetInfoResponse{})
		wantStatus(t, err, codes.Unimplemented, "unknown")
	}
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }
func (rawCodec) Name() string                         { return "proto" }

var _ encoding.CodecV2 = rawCodec{}

// Req: COSI-098, COSI-130, DRAFT-031
func TestServeGarbage(t *testing.T) {
	d := &store{}
	s := serve(t, d)
	ctx := within(t, 10*time.Second)
	for _, method := range []string{
		"/cosi.v1alpha1.Identity/DriverGetInfo", "/cosi.v1alpha1.Provisioner/DriverCreateBucket", "/cosi.v1alpha1.Provisioner/ProvisionerCreateBucket",
		"/cosi.v1alpha1.Provisioner/ProvisionerGetInfo",
	} {
		err := s.conn.Invoke(ctx, method, []byte("\x0a\x02\xff\xff\xff"), nil, grpc.ForceCodecV2(rawCodec{}))
		wantStatus(t, err, codes.InvalidArgument, "the request cannot be read")
	}
	noUTF8 := []byte("\x0a\x01\xff")
	err := s.conn.Invoke(ctx, "/cosi.v1alpha1.Provisioner/DriverCreateBucket", noUTF8, nil, grpc.ForceCodecV2(rawCodec{}))
	wantStatus(t, err, codes.InvalidArgument, "UTF-8")
	if d.count() != 0 {
		t.Error("garbage came through to the driver")
	}
}

// Req: COSI-020, COSI-149, COSI-172, COSI-175
func TestServeKeepsSecrets(t *testing.T) {
	d := &store{}
	s := serve(t, d)
	ctx := within(t, 10*time.Second)
	must(s.DriverCreateBucket(ctx, createRequest("b")))(t)
	must(s.DriverGrantBucketAccess(ctx, grantRequest("b", "app")))(t)
	err := s.conn.Invoke(ctx, "/cosi.v1alpha1.Provisioner/ProvisionerGrantBucketAccess", draftGrant("b", "app"), &cosipb.DriverGetInfoResponse{})
	if err != nil {
		t.Fatal(err)
	}
	d.after = func(_, resp proto.Message, _ error) (proto.Message, error) {
		return resp, errors.New("store refused " + secretKey + " and " + base64.StdEncoding.EncodeToString([]byte(secretKey)))
	}
	_, err = s.DriverGrantBucketAccess(ctx, grantRequest("b", "app"))
	wantStatus(t, err, codes.Internal, "store refused *** and ***")
	err = s.conn.Invoke(ctx, "/cosi.v1alpha1.Provisioner/ProvisionerGrantBucketAccess", draftGrant("b", "app"), &cosipb.DriverGetInfoResponse{})
	wantStatus(t, err, codes.Internal, "store refused *** and ***")
	s.log.await(t, "DriverGrantBucketAccess", "code=OK", "account_id", "***")
	if log := s.log.String(); strings.Contains(log, secretKey) || strings.Contains(log, "AKIAIOSFODNN7EXAMPLE") {
		t.Errorf("the log tells a secret:\n%s", log)
	}
}
