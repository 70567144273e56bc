package objects

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/internal/objectstore"
)

var _ cosi.Driver = (*Driver)(nil)

func open(t *testing.T) (*Driver, string) {
	t.Helper()
	root := t.TempDir()
	t.Cleanup(func() { os.Chdir("/") }) // the store moves there; leave before it goes
	store, err := objectstore.Open(t.Context(), objectstore.Config{Root: root, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(store), root
}

func bucketOf(t *testing.T, d *Driver, name string, parameters map[string]string) *cosipb.DriverCreateBucketResponse {
	t.Helper()
	out, err := d.DriverCreateBucket(t.Context(), &cosipb.DriverCreateBucketRequest{Name: name, Parameters: parameters})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wantCode checks the code, and that a person is told something.
func wantCode(t *testing.T, what string, err error, want codes.Code, parts ...string) {
	t.Helper()
	s := grpcstatus.Convert(err)
	if s.Code() != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
	if want != codes.OK && s.Message() == "" || len(s.Details()) > 0 {
		t.Errorf("%s: message %q, details %v", what, s.Message(), s.Details())
	}
	for _, p := range parts {
		if !strings.Contains(s.Message(), p) {
			t.Errorf("%s: %q does not say %q", what, s.Message(), p)
		}
	}
}

// Req: COSI-030, COSI-031, COSI-053, COSI-055, COSI-056, COSI-117, COSI-121, COSI-124, COSI-126, DRAFT-005
func TestCreate(t *testing.T) {
	d, _ := open(t)
	all := map[string]string{"versioning": "true", "objectLock": "true", "quota": "10Gi", "anonymousAccess": "ReadOnly", "region": "us-east-1"}
	first := bucketOf(t, d, "photos", all)
	if first.GetBucketId() != "photos" || first.GetBucketInfo().GetS3().GetRegion() != "us-east-1" {
		t.Errorf("answer %v", first)
	}
	all["quota"] = "10737418240" // the same, in bytes
	if again := bucketOf(t, d, "photos", all); !proto.Equal(first, again) {
		t.Errorf("created again: %v, want %v", again, first)
	}
	for what, c := range map[string]struct {
		name       string
		parameters map[string]string
		code       codes.Code
		says       []string
	}{
		"other quota":       {"photos", map[string]string{"quota": "1Gi"}, codes.AlreadyExists, nil},
		"no parameters":     {"photos", nil, codes.AlreadyExists, nil},
		"unknown key":       {"new", map[string]string{"colour": "red"}, codes.InvalidArgument, []string{"colour", "quota", "region", "versioning", "objectLock", "anonymousAccess"}},
		"other region":      {"new", map[string]string{"region": "mars"}, codes.OutOfRange, []string{"mars", "us-east-1"}},
		"any zone":          {"new", map[string]string{"zone": "a"}, codes.OutOfRange, nil},
		"access":            {"new", map[string]string{"anonymousAccess": "Some"}, codes.OutOfRange, []string{"ReadOnly"}},
		"no boolean":        {"new", map[string]string{"versioning": "maybe"}, codes.InvalidArgument, nil},
		"lock, unversioned": {"new", map[string]string{"objectLock": "true", "versioning": "false"}, codes.OutOfRange, nil},
		"no number":         {"new", map[string]string{"quota": "much"}, codes.InvalidArgument, nil},
		"negative quota":    {"new", map[string]string{"quota": "-1"}, codes.InvalidArgument, nil},
		"no quota at all":   {"new", map[string]string{"quota": "0"}, codes.OutOfRange, nil},
		"huge quota":        {"new", map[string]string{"quota": "99999999Pi"}, codes.OutOfRange, nil},
		"upper case":        {"Photos", nil, codes.InvalidArgument, []string{"lower-case"}},
		"a path":            {"../photos", nil, codes.InvalidArgument, nil},
		"empty":             {"", nil, codes.InvalidArgument, nil},
	} {
		_, err := d.DriverCreateBucket(t.Context(), &cosipb.DriverCreateBucketRequest{Name: c.name, Parameters: c.parameters})
		wantCode(t, what, err, c.code, c.says...)
	}
}

// Req: COSI-032, COSI-060
func TestDelete(t *testing.T) {
	d, root := open(t)
	bucketOf(t, d, "photos", map[string]string{"anonymousAccess": "WriteOnly"})
	put, err := http.NewRequestWithContext(t.Context(), http.MethodPut, d.store.Endpoint()+"/photos/object", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(put)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("put an object: %v, %v", res, err)
	}
	res.Body.Close()
	if err := os.Mkdir(filepath.Join(root, "buckets", "archive"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, id string
		context  map[string]string
		code     codes.Code
		says     string
	}{
		{"absent", "absent", nil, codes.OK, ""},
		{"no id", "", nil, codes.InvalidArgument, "bucket_id"},
		{"unknown key", "photos", map[string]string{"forced": "true"}, codes.InvalidArgument, "force"},
		{"no boolean", "photos", map[string]string{"force": "yes"}, codes.InvalidArgument, "true or false"},
		{"not empty", "photos", map[string]string{"force": "false"}, codes.FailedPrecondition, "1 object"},
		{"brownfield", "archive", map[string]string{"force": "true"}, codes.FailedPrecondition, "archive"},
		{"by force", "photos", map[string]string{"force": "true"}, codes.OK, ""},
		{"again", "photos", nil, codes.OK, ""},
	} {
		_, err := d.DriverDeleteBucket(t.Context(), &cosipb.DriverDeleteBucketRequest{BucketId: c.id, DeleteContext: c.context})
		wantCode(t, c.what, err, c.code, c.says)
	}
}

// Req: COSI-033, COSI-034, COSI-035, COSI-038, COSI-067, COSI-069, COSI-070, COSI-075
func TestGrantAndRevoke(t *testing.T) {
	d, root := open(t)
	ctx := t.Context()
	bucketOf(t, d, "photos", nil)
	if err := os.Mkdir(filepath.Join(root, "buckets", "archive"), 0o700); err != nil {
		t.Fatal(err)
	}
	request := func(bucket, name string, parameters map[string]string) *cosipb.DriverGrantBucketAccessRequest {
		return &cosipb.DriverGrantBucketAccessRequest{BucketId: bucket, Name: name,
			AuthenticationType: cosipb.AuthenticationType_Key, Parameters: parameters}
	}
	first, err := d.DriverGrantBucketAccess(ctx, request("photos", "ba-1", map[string]string{"mode": "ReadOnly", "prefix": "a/", "expiry": "24h"}))
	if err != nil {
		t.Fatal(err)
	}
	if len(first.GetAccountId()) == 0 || len(first.GetAccountId()) > 128 {
		t.Errorf("account id %q", first.GetAccountId())
	}
	for _, k := range []string{"endpoint", "region", "accessKeyID", "accessSecretKey"} {
		if first.GetCredentials()["s3"].GetSecrets()[k] == "" {
			t.Errorf("no %s", k)
		}
	}
	again, err := d.DriverGrantBucketAccess(ctx, request("photos", "ba-1", map[string]string{"mode": "ReadOnly", "prefix": "a/", "expiry": "24h"}))
	if err != nil || !proto.Equal(first, again) {
		t.Errorf("granted again: another answer, %v", err)
	}
	iam := request("photos", "ba-2", nil)
	iam.AuthenticationType = cosipb.AuthenticationType_IAM
	unset := request("photos", "ba-2", nil)
	unset.AuthenticationType = cosipb.AuthenticationType_UnknownAuthenticationType
	for what, c := range map[string]struct {
		in   *cosipb.DriverGrantBucketAccessRequest
		code codes.Code
		says string
	}{
		"other arguments":   {request("photos", "ba-1", nil), codes.AlreadyExists, "ba-1"},
		"on another bucket": {request("archive", "ba-1", nil), codes.AlreadyExists, "ba-1"},
		"brownfield":        {request("archive", "ba-3", nil), codes.OK, ""},
		"absent bucket":     {request("absent", "ba-2", nil), codes.NotFound, "absent"},
		"no name":           {request("photos", "", nil), codes.InvalidArgument, "name"},
		"no bucket":         {request("", "ba-2", nil), codes.InvalidArgument, "bucket_id"},
		"unknown key":       {request("photos", "ba-2", map[string]string{"role": "x"}), codes.InvalidArgument, "expiry, mode, prefix"},
		"mode":              {request("photos", "ba-2", map[string]string{"mode": "Private"}), codes.InvalidArgument, "WriteOnly"},
		"empty expiry":      {request("photos", "ba-2", map[string]string{"expiry": ""}), codes.InvalidArgument, "expiry"},
		"past expiry":       {request("photos", "ba-2", map[string]string{"expiry": "1999-01-01T00:00:00Z"}), codes.OutOfRange, "future"},
		"pattern":           {request("photos", "ba-2", map[string]string{"prefix": "*"}), codes.InvalidArgument, "prefix"},
		"IAM":               {iam, codes.InvalidArgument, "IAM"},
		"no type":           {unset, codes.InvalidArgument, "authentication_type"},
	} {
		_, err := d.DriverGrantBucketAccess(ctx, c.in)
		wantCode(t, what, err, c.code, c.says)
	}
	for _, c := range []struct {
		what, bucket, account string
		context               map[string]string
		code                  codes.Code
		says                  string
	}{
		{"no bucket", "", "x", nil, codes.InvalidArgument, "bucket_id"},
		{"no account", "photos", "", nil, codes.InvalidArgument, "account_id"},
		{"unknown key", "photos", "x", map[string]string{"now": "true"}, codes.InvalidArgument, "now"},
		{"absent", "photos", "x", nil, codes.OK, ""},
		{"of another bucket", "archive", first.GetAccountId(), nil, codes.InvalidArgument, "another bucket"},
		{"revoke", "photos", first.GetAccountId(), nil, codes.OK, ""},
		{"again", "photos", first.GetAccountId(), nil, codes.OK, ""},
	} {
		_, err := d.DriverRevokeBucketAccess(ctx, &cosipb.DriverRevokeBucketAccessRequest{BucketId: c.bucket, AccountId: c.account, RevokeAccessContext: c.context})
		wantCode(t, c.what, err, c.code, c.says)
	}
	second, err := d.DriverGrantBucketAccess(ctx, request("photos", "ba-1", nil))
	if err != nil || second.GetAccountId() == first.GetAccountId() {
		t.Errorf("granted after a revoke: the account that was revoked came back, %v", err)
	}
}

func FuzzQuota(f *testing.F) {
	for _, q := range []string{"1", "10Gi", "500M", "0", "-1", "1e3", "9223372036854775807", "9223372036854775808", "8192Pi", "Gi", " 1"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, q string) {
		if n, err := parseQuota(q); err == nil && n <= 0 {
			t.Errorf("quota %q is %d bytes", q, n)
		}
	})
}
