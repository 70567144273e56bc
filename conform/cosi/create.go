package cosi

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	clauseCreateSame  = "If a bucket that matches both name and parameters already exists, then OK (success) must be returned."
	clauseCreateOther = "If a bucket by same name, but different parameters is provided, then the appropriate error code ALREADY_EXISTS must be returned."
)

var createCases = []Case{
	{
		Name: "create/new", Req: "COSI-008 COSI-055 COSI-056 COSI-116", Level: Must,
		Clause: "A Controller Plugin MUST implement this RPC call. bucket_id is expected to be the globally unique identifier; bucket_info stores the data required to connect to the bucket.",
		Run:    createNew,
	},
	{
		Name: "create/again", Req: "COSI-030 COSI-117 COSI-118", Level: Must,
		Clause: clauseCreateSame,
		Run:    createAgain,
	},
	{
		Name: "create/other-parameters", Req: "COSI-031 COSI-124 COSI-125", Level: Must,
		Clause: clauseCreateOther,
		Run:    createOther,
	},
	{
		Name: "create/distinct", Req: "COSI-055", Level: Must,
		Clause: "bucket_id returned here is expected to be the globally unique identifier for the bucket.",
		Run: func(t *T) {
			if a, b := t.bucket(), t.bucket(); a.ID == b.ID {
				t.Errorf("buckets %s and %s have one id, %q", a.Name, b.Name, a.ID)
			}
		},
	},
	{
		Name: "create/no-name", Req: "COSI-084 COSI-096 COSI-097 COSI-119", Level: Must,
		Clause: clauseMissing,
		Run:    invalid(func(bucket) proto.Message { return &createRequest{} }),
	},
	{
		Name: "create/bad-names", Req: "COSI-121", Level: Must,
		Clause: "Bucket Name invalid: 3 INVALID_ARGUMENT. This code MUST also be used to indicate when plugin cannot create a bucket due to parameter check on the backend.",
		Run:    createBadNames,
	},
	{
		Name: "create/hostile-names", Req: "COSI-095 COSI-119", Level: Must,
		Clause: "If the plugin is unable to complete the CreateBucket call successfully, it MUST return a non-ok gRPC code; for a bad name, INVALID_ARGUMENT.",
		Run:    createHostileNames,
	},
	{
		Name: "create/unknown-parameter", Req: "COSI-053 COSI-098", Level: Must,
		Clause: clauseInvalid + " " + clauseParsing,
		Run:    invalid(func(b bucket) proto.Message { return &createRequest{Name: "fl-check-unknown", Parameters: unknownMap} }),
	},
	{
		Name: "create/unknown-parameter-named", Req: "COSI-122", Level: Should,
		Clause: "More human-readable information SHOULD be provided in the gRPC `status.message` field for the problem.",
		Run:    createNamesTheParameter,
	},
	{
		Name: "create/malformed-value", Req: "COSI-053 COSI-098 COSI-099 COSI-123", Level: Must,
		Clause: clauseInvalid + " " + clauseParsing,
		Run: func(t *T) {
			t.createWith("MalformedBucketParameters", t.cfg.MalformedBucketParameters, codes.InvalidArgument)
		},
	},
	{
		Name: "create/unsupported-value", Req: "COSI-126 COSI-127", Level: Must,
		Clause: "Unsupported value: 11 OUT_OF_RANGE. Indicates that the value requested cannot be used to provision the bucket.",
		Run: func(t *T) {
			t.createWith("UnsupportedBucketParameters", t.cfg.UnsupportedBucketParameters, codes.OutOfRange)
		},
	},
	{
		Name: "create/long-name", Req: "COSI-079 COSI-081", Level: Should,
		Clause: clauseString,
		Run:    invalid(func(bucket) proto.Message { return &createRequest{Name: longString} }),
	},
	{
		Name: "create/large-parameters", Req: "COSI-079 COSI-082", Level: Should,
		Clause: clauseMap,
		Run:    invalid(func(bucket) proto.Message { return &createRequest{Name: "fl-check-large", Parameters: largeMap} }),
	},
}

func createNew(t *T) {
	b := t.bucket()
	if b.ID == "" {
		t.Errorf("bucket_id is empty, so no later call can name the bucket")
	}
	if b.Info.GetType() == nil {
		t.Errorf("bucket_info holds none of s3, azureBlob and gcs")
	}
}

func createAgain(t *T) {
	b := t.bucket()
	resp, err := t.create(b.Name, t.cfg.BucketParameters)
	if err != nil {
		t.Fatalf("second create of bucket %s: answered %s, want OK", b.Name, describe(err))
	}
	if resp.GetBucketId() != b.ID {
		t.Errorf("bucket_id is %q, then %q", b.ID, resp.GetBucketId())
	}
	if !proto.Equal(resp.GetBucketInfo(), b.Info) {
		t.Errorf("bucket_info is {%v}, then {%v}", b.Info, resp.GetBucketInfo())
	}
}

func createOther(t *T) {
	if t.cfg.OtherBucketParameters == nil {
		t.Skipf("no OtherBucketParameters are configured")
	}
	b := t.bucket()
	_, err := t.create(b.Name, t.cfg.OtherBucketParameters)
	t.wantCode("create with other parameters", err, codes.AlreadyExists)
	resp, err := t.create(b.Name, t.cfg.BucketParameters)
	t.wantCode("create with the first parameters once more", err, codes.OK)
	if err == nil && resp.GetBucketId() != b.ID {
		t.Errorf("bucket_id is %q, then %q", b.ID, resp.GetBucketId())
	}
}

func createBadNames(t *T) {
	if len(t.cfg.BadBucketNames) == 0 {
		t.Skipf("no BadBucketNames are configured")
	}
	for _, name := range t.cfg.BadBucketNames {
		_, err := t.create(name, t.cfg.BucketParameters)
		t.wantCode("create bucket "+quote(name), err, codes.InvalidArgument)
	}
}

// createHostileNames does not know which names the back end can take; but no
// name may do harm or bring about another code than the table's.
func createHostileNames(t *T) {
	for _, name := range []string{
		"../" + t.name(), "/" + t.name(), t.name() + "/../x", "..", ".", " ", "\x00", t.name() + "\x00",
		"\n", "%2e%2e", strings.ToUpper(t.name()), "bücket-" + t.name(), "日本語", strings.Repeat("a", maxString), strings.Repeat("é", maxString/2), "-", "a", "xn--a", "192.168.0.1",
	} {
		_, err := t.create(name, t.cfg.BucketParameters)
		// ALREADY_EXISTS: a short name may belong to somebody.
		t.wantCode("create bucket "+quote(name), err, codes.OK, codes.InvalidArgument, codes.AlreadyExists)
	}
	t.alive("hostile names")
}

func createNamesTheParameter(t *T) {
	_, err := t.create(t.name(), unknownMap)
	if err == nil {
		t.Errorf("the unknown parameter %q is accepted", unknownKey)
	} else if !strings.Contains(status.Convert(err).Message(), unknownKey) {
		t.Errorf("answered %s, which does not name the parameter %q", describe(err), unknownKey)
	}
}

// createWith expects a refusal of the configured parameters.
func (t *T) createWith(what string, parameters map[string]string, want codes.Code) {
	if parameters == nil {
		t.Skipf("no %s are configured", what)
	}
	_, err := t.create(t.name(), parameters)
	t.wantCode("create bucket", err, want)
}
