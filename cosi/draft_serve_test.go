package cosi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/cosi/draftpb"
)

func draftGrant(bucket, principal string) *draftpb.ProvisionerGrantBucketAccessRequest {
	return &draftpb.ProvisionerGrantBucketAccessRequest{BucketName: bucket, Principal: principal}
}

// draft calls a method of the draft by the service's one name.
func draft[Resp any](t testing.TB, s *served, method string, req proto.Message) (*Resp, error) {
	t.Helper()
	resp := new(Resp)
	err := s.conn.Invoke(within(t, 10*time.Second), "/cosi.v1alpha1.Provisioner/"+method, req, resp)
	return resp, err
}

// idStore is a store whose ids are no names, and that finds them again.
type idStore struct{ *store }

func (s idStore) BucketID(_ context.Context, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.buckets[s.prefix+name]; !ok {
		return "", status.Errorf(codes.NotFound, "there is no bucket %q", name)
	}
	return s.prefix + name, nil
}

// Req: COSI-032, DRAFT-004, DRAFT-015, DRAFT-020, DRAFT-025, DRAFT-032, DRAFT-038, COSI-143
func TestDraftLifeOfABucket(t *testing.T) {
	plain := &store{}
	ids := idStore{&store{prefix: "id-of-"}}
	for name, s := range map[string]*served{"id is name": serve(t, plain), "id is found": serve(t, ids)} {
		t.Run(name, func(t *testing.T) {
			d := plain
			if name == "id is found" {
				d = ids.store
			}
			info := must(draft[draftpb.ProvisionerGetInfoResponse](t, s, "ProvisionerGetInfo", &draftpb.ProvisionerGetInfoRequest{}))(t)
			if info.GetProvisionerIdentity() != driverName {
				t.Errorf("identity %q", info.GetProvisionerIdentity())
			}
			create := &draftpb.ProvisionerCreateBucketRequest{
				BucketName: "b", Region: "eu", BucketContext: map[string]string{"quota": "1"},
				AnonymousBucketAccessMode: draftpb.ProvisionerCreateBucketRequest_BUCKET_READ_ONLY,
			}
			for range 2 {
				must(draft[draftpb.ProvisionerCreateBucketResponse](t, s, "ProvisionerCreateBucket", create))(t)
			}
			// The same bucket by v1alpha1's words.
			same := must(s.DriverCreateBucket(within(t, 10*time.Second), createRequest("b", "region", "eu", "quota", "1", "anonymousAccess", "ReadOnly")))(t)
			if same.GetBucketId() != d.prefix+"b" {
				t.Errorf("id %q", same.GetBucketId())
			}
			create.BucketContext["quota"] = "2"
			_, err := draft[draftpb.ProvisionerCreateBucketResponse](t, s, "ProvisionerCreateBucket", create)
			wantStatus(t, err, codes.AlreadyExists)

			grant := draftGrant("b", "app")
			grant.AccessPolicy, grant.BucketContext = "ReadOnly", map[string]string{"prefix": "x/"}
			g := must(draft[draftpb.ProvisionerGrantBucketAccessResponse](t, s, "ProvisionerGrantBucketAccess", grant))(t)
			wantFile := "[default]\naws_access_key_id=AKIAIOSFODNN7EXAMPLE\naws_secret_access_key=" + secretKey + "\n"
			if g.GetPrincipal() != "acct-app" || g.GetCredentialsFileContents() != wantFile {
				t.Errorf("grant %v", g)
			}
			got := d.accounts["acct-app"]
			want := &cosipb.DriverGrantBucketAccessRequest{
				BucketId: d.prefix + "b", Name: "app", AuthenticationType: cosipb.AuthenticationType_Key,
				Parameters: map[string]string{"mode": "ReadOnly", "prefix": "x/"},
			}
			if !proto.Equal(got, want) {
				t.Errorf("the driver was asked %v, want %v", got, want)
			}
			revoke := &draftpb.ProvisionerRevokeBucketAccessRequest{BucketName: "b", Principal: g.GetPrincipal()}
			must(draft[draftpb.ProvisionerRevokeBucketAccessResponse](t, s, "ProvisionerRevokeBucketAccess", revoke))(t)
			if len(d.accounts) != 0 {
				t.Error("not revoked")
			}
			for range 2 {
				must(draft[draftpb.ProvisionerDeleteBucketResponse](t, s, "ProvisionerDeleteBucket", &draftpb.ProvisionerDeleteBucketRequest{BucketName: "b"}))(t)
			}
			if len(d.buckets) != 0 {
				t.Error("not deleted")
			}
			must(draft[draftpb.ProvisionerRevokeBucketAccessResponse](t, s, "ProvisionerRevokeBucketAccess", revoke))(t)
			_, err = draft[draftpb.ProvisionerGrantBucketAccessResponse](t, s, "ProvisionerGrantBucketAccess", grant)
			wantStatus(t, err, codes.NotFound, "no bucket")
		})
	}
}

// Req: DRAFT-034, DRAFT-035, DRAFT-036
func TestDraftOutOfRange(t *testing.T) {
	s := serve(t, &store{})
	create := func(region, zone string, context map[string]string) error {
		_, err := draft[draftpb.ProvisionerCreateBucketResponse](t, s, "ProvisionerCreateBucket",
			&draftpb.ProvisionerCreateBucketRequest{BucketName: "b", Region: region, Zone: zone, BucketContext: context})
		return err
	}
	wantStatus(t, create("mars", "", nil), codes.OutOfRange, "mars")
	wantStatus(t, create("", "z1", nil), codes.OutOfRange, `zone "z1"`)
	wantStatus(t, create("eu", "z1", nil), codes.OutOfRange, `zone "z1"`)
	// A parameter that is no place stays what it is, though the driver lists region.
	wantStatus(t, create("eu", "", map[string]string{"colour": "red"}), codes.InvalidArgument, "colour")
	wantStatus(t, create("eu", "", map[string]string{"region": "us"}), codes.InvalidArgument, "region")
	wantStatus(t, create("", "", map[string]string{"zone": "z1"}), codes.InvalidArgument, "zone")
	wantStatus(t, create("eu", "", map[string]string{"region": "eu"}), codes.OK)
	wantStatus(t, create("", "", nil), codes.AlreadyExists)
}

// Req: DRAFT-019, DRAFT-023, DRAFT-024, DRAFT-029, DRAFT-033, COSI-081, COSI-082
func TestDraftFields(t *testing.T) {
	d := &store{}
	s := serve(t, d)
	full := map[string]string{"k": long(4095)}
	for _, test := range []struct {
		method, want string
		req          proto.Message
	}{
		{"ProvisionerCreateBucket", "field bucket_name is required", &draftpb.ProvisionerCreateBucketRequest{}},
		{"ProvisionerCreateBucket", "field region has 129 bytes", &draftpb.ProvisionerCreateBucketRequest{BucketName: "b", Region: long(129)}},
		{"ProvisionerCreateBucket", "field anonymous_bucket_access_mode has the unknown value 4", &draftpb.ProvisionerCreateBucketRequest{BucketName: "b", AnonymousBucketAccessMode: 4}},
		{"ProvisionerCreateBucket", "field parameters has 4103 bytes", &draftpb.ProvisionerCreateBucketRequest{BucketName: "b", Zone: "abc", BucketContext: full}},
		{"ProvisionerDeleteBucket", "field bucket_name is required", &draftpb.ProvisionerDeleteBucketRequest{}},
		{"ProvisionerGrantBucketAccess", "field bucket_name is required", draftGrant("", "a")},
		{"ProvisionerGrantBucketAccess", "field principal is required", draftGrant("b", "")},
		{"ProvisionerGrantBucketAccess", "field access_policy has 129 bytes", &draftpb.ProvisionerGrantBucketAccessRequest{BucketName: "b", Principal: "p", AccessPolicy: long(129)}},
		{"ProvisionerRevokeBucketAccess", "field principal is required", &draftpb.ProvisionerRevokeBucketAccessRequest{BucketName: "b"}},
	} {
		_, err := draft[draftpb.ProvisionerGetInfoResponse](t, s, test.method, test.req)
		wantStatus(t, err, codes.InvalidArgument, test.want)
	}
	if d.count() != 0 {
		t.Errorf("the driver has seen %d bad requests", d.count())
	}
}

// Req: DRAFT-024
func TestDraftCredentials(t *testing.T) {
	var secrets map[string]string
	d := &store{}
	d.after = func(_, resp proto.Message, err error) (proto.Message, error) {
		if g, ok := resp.(*cosipb.DriverGrantBucketAccessResponse); ok && err == nil {
			g.Credentials["s3"].Secrets = secrets
		}
		return resp, err
	}
	s := serve(t, d)
	must(s.DriverCreateBucket(within(t, 10*time.Second), createRequest("b")))(t)
	for _, test := range []struct{ id, secret, want string }{
		{long(36), long(40), "[default]\naws_access_key_id=" + long(36) + "\naws_secret_access_key=" + long(40) + "\n"},
		{long(37), long(40), `{"accessKeyID":"` + long(37) + `","accessSecretKey":"` + long(40) + `"}`},
		{long(49), long(40), `{"accessKeyID":"` + long(49) + `","accessSecretKey":"` + long(40) + `"}`},
		{long(50), long(40), "!does not fit"},
		{"", long(40), "!no S3 access key"},
		{"a\nb", "c", "!line break"},
	} {
		secrets = map[string]string{"accessKeyID": test.id, "accessSecretKey": test.secret}
		g, err := draft[draftpb.ProvisionerGrantBucketAccessResponse](t, s, "ProvisionerGrantBucketAccess", draftGrant("b", "app"))
		if why, fails := strings.CutPrefix(test.want, "!"); fails {
			wantStatus(t, err, codes.Internal, why, "acct-app")
		} else if err != nil || g.GetCredentialsFileContents() != test.want {
			t.Errorf("key of %d: %q, %v", len(test.id), g.GetCredentialsFileContents(), err)
		}
	}
}

// Req: COSI-055
func TestDraftInvalidAnswers(t *testing.T) {
	d := &store{after: func(proto.Message, proto.Message, error) (proto.Message, error) { return nil, nil }}
	s := serve(t, d)
	_, err := draft[draftpb.ProvisionerCreateBucketResponse](t, s, "ProvisionerCreateBucket", &draftpb.ProvisionerCreateBucketRequest{BucketName: "b"})
	wantStatus(t, err, codes.Internal, "neither an answer nor an error")
	d.after = func(proto.Message, proto.Message, error) (proto.Message, error) {
		return &cosipb.DriverCreateBucketResponse{}, nil
	}
	_, err = draft[draftpb.ProvisionerCreateBucketResponse](t, s, "ProvisionerCreateBucket", &draftpb.ProvisionerCreateBucketRequest{BucketName: "b"})
	wantStatus(t, err, codes.Internal, "field bucket_id is required")
}
