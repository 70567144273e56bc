package cosi

import (
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

const clauseAccount = "The account_name in the request shall be used as a unique identifier to create credentials."

var grantCases = []Case{
	{
		Name: "grant/new", Req: "COSI-008 COSI-069 COSI-070 COSI-085", Level: Must,
		Clause: "account_id and credentials are REQUIRED. A `repeated` or `map` field listed as `REQUIRED` MUST contain at least 1 element.",
		Run:    grantNew,
	},
	{
		Name: "grant/secret-keys", Req: "COSI-129 COSI-130", Level: Must,
		Clause: "Each key MUST consist of alphanumeric characters, '-', '_' or '.'. Each value MUST contain a valid string.",
		Run:    grantSecretKeys,
	},
	{
		Name: "grant/again", Req: "COSI-033 COSI-090", Level: Must,
		Clause: clauseAccount + " Idempotency requirements ensure that a retried call with the same fields continues where it left off.",
		Run:    grantAgain,
	},
	{
		Name: "grant/distinct", Req: "COSI-033 COSI-069", Level: Must,
		Clause: clauseAccount,
		Run:    grantDistinct,
	},
	{
		Name: "grant/other-parameters", Req: "COSI-033 COSI-067 COSI-078", Level: Must,
		Clause: clauseAccount + " What exists with other arguments is ALREADY_EXISTS.",
		Run:    grantOther,
	},
	{
		Name: "grant/other-authentication", Req: "COSI-033 COSI-098", Level: Must,
		Clause: clauseAccount + " What exists with other arguments is ALREADY_EXISTS, and what is not supported INVALID_ARGUMENT or UNIMPLEMENTED.",
		Run:    grantOtherAuthentication,
	},
	{
		Name: "grant/absent-bucket", Req: "COSI-095 COSI-098", Level: Must,
		Clause: clauseInvalid,
		Run:    grantAbsentBucket,
	},
	{
		Name: "grant/no-bucket", Req: "COSI-084 COSI-096", Level: Must,
		Clause: clauseMissing,
		Run:    invalid(func(bucket) proto.Message { return &grantRequest{Name: "fl-check", AuthenticationType: key} }),
	},
	{
		Name: "grant/no-name", Req: "COSI-084 COSI-096", Level: Must,
		Clause: clauseMissing,
		Run:    invalid(func(b bucket) proto.Message { return &grantRequest{BucketId: b.ID, AuthenticationType: key} }),
	},
	{
		Name: "grant/no-authentication", Req: "COSI-065 COSI-096", Level: Must,
		Clause: clauseMissing + " authentication_type is REQUIRED; its zero value cannot be told from a missing one.",
		Run:    invalid(func(b bucket) proto.Message { return &grantRequest{BucketId: b.ID, Name: "fl-check"} }),
	},
	{
		Name: "grant/unknown-authentication", Req: "COSI-098", Level: Must,
		Clause: clauseInvalid + " Supported authentication types are KEY or IAM.",
		Run: invalid(func(b bucket) proto.Message {
			return &grantRequest{BucketId: b.ID, Name: "fl-check", AuthenticationType: 7}
		}),
	},
	{
		Name: "grant/iam", Req: "COSI-014 COSI-107", Level: Should,
		Clause: "Unsupported RPCs SHOULD return an appropriate error code that indicates such; a field that is not allowed by the Plugin, INVALID_ARGUMENT.",
		Run:    grantIAM,
	},
	{
		Name: "grant/unknown-parameter", Req: "COSI-067 COSI-098", Level: Must,
		Clause: clauseInvalid + " " + clauseParsing,
		Run: invalid(func(b bucket) proto.Message {
			return &grantRequest{BucketId: b.ID, Name: "fl-check", AuthenticationType: key, Parameters: unknownMap}
		}),
	},
	{
		Name: "grant/long-name", Req: "COSI-079 COSI-081", Level: Should,
		Clause: clauseString,
		Run: invalid(func(b bucket) proto.Message {
			return &grantRequest{BucketId: b.ID, Name: longString, AuthenticationType: key}
		}),
	},
	{
		Name: "grant/long-bucket", Req: "COSI-079 COSI-081", Level: Should,
		Clause: clauseString,
		Run: invalid(func(bucket) proto.Message {
			return &grantRequest{BucketId: longString, Name: "fl-check", AuthenticationType: key}
		}),
	},
	{
		Name: "grant/large-parameters", Req: "COSI-079 COSI-082", Level: Should,
		Clause: clauseMap,
		Run: invalid(func(b bucket) proto.Message {
			return &grantRequest{BucketId: b.ID, Name: "fl-check", AuthenticationType: key, Parameters: largeMap}
		}),
	},
	{
		Name: "grant/longest-names", Req: "COSI-081 COSI-083", Level: Must,
		Clause: clauseString + " Names of just 128 bytes do not, nor may what is derived from them.",
		Run:    grantLongestNames,
	},
}

func grantNew(t *T) {
	a := t.access(t.bucket(), t.name())
	if a.AccountID == "" {
		t.Errorf("account_id is empty, so the access can never be revoked")
	}
	if len(a.Credentials) == 0 {
		t.Errorf("credentials are empty")
	}
	for protocol, secrets := range a.Credentials {
		if len(secrets) == 0 {
			t.Errorf("credentials for %q hold no secret", protocol)
		}
	}
}

var secretKey = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

func grantSecretKeys(t *T) {
	for protocol, secrets := range t.access(t.bucket(), t.name()).Credentials {
		for key, value := range secrets {
			if !secretKey.MatchString(key) {
				t.Errorf("credentials[%q] have the key %q", protocol, key)
			}
			if strings.ContainsRune(value, 0) {
				t.Errorf("credentials[%q]: the value of %q holds a NUL", protocol, key)
			}
		}
	}
}

// regrant grants once more and fails unless the answer is the first one.
func (t *T) regrant(what string, first Access, name string) {
	second, err := t.grant(first.BucketID, name, t.cfg.AccessParameters)
	switch {
	case err != nil:
		t.Errorf("%s: answered %s, want OK", what, describe(err))
	case second.AccountID != first.AccountID:
		t.Errorf("%s: account_id was %q, is %q", what, first.AccountID, second.AccountID)
	case !second.same(first):
		t.Errorf("%s: account %q has other credentials than before", what, first.AccountID)
	}
}

func grantAgain(t *T) {
	b, name := t.bucket(), t.name()
	t.regrant("second grant", t.access(b, name), name)
}

func grantDistinct(t *T) {
	b := t.bucket()
	one, two := t.access(b, t.name()), t.access(b, t.name())
	if one.AccountID == two.AccountID {
		t.Errorf("two names have one account, %q", one.AccountID)
	}
}

func grantOther(t *T) {
	if t.cfg.OtherAccessParameters == nil {
		t.Skipf("no OtherAccessParameters are configured")
	}
	b, name := t.bucket(), t.name()
	first := t.access(b, name)
	_, err := t.grant(b.ID, name, t.cfg.OtherAccessParameters)
	t.wantCode("grant with other parameters", err, codes.AlreadyExists)
	t.regrant("grant with the first parameters once more", first, name)
}

func grantOtherAuthentication(t *T) {
	b, name := t.bucket(), t.name()
	first := t.access(b, name)
	_, err := t.grantWith(&grantRequest{BucketId: b.ID, Name: name, AuthenticationType: cosipb.AuthenticationType_IAM, Parameters: t.cfg.AccessParameters})
	t.wantCode("grant with IAM where KEY was granted", err, codes.AlreadyExists, codes.InvalidArgument, codes.Unimplemented)
	t.regrant("grant with KEY once more", first, name)
}

func grantAbsentBucket(t *T) {
	id, _ := t.absentID()
	_, err := t.grant(id, t.name(), t.cfg.AccessParameters)
	t.wantCode("grant on a bucket that never was", err, refusals...)
}

func grantIAM(t *T) {
	_, err := t.grantWith(&grantRequest{BucketId: t.bucket().ID, Name: t.name(), AuthenticationType: cosipb.AuthenticationType_IAM, Parameters: t.cfg.AccessParameters})
	t.wantCode("grant with IAM", err, codes.OK, codes.InvalidArgument, codes.Unimplemented)
}

// grantLongestNames leaves it to the driver whether it takes such names; the
// answers' lengths are looked at by status/strings.
func grantLongestNames(t *T) {
	b := t.bucket()
	unique := t.name()
	for _, fill := range []string{"a", "é", "€"} {
		room := maxString - len(unique)
		name := unique + strings.Repeat(fill, room/len(fill)) + strings.Repeat("z", room%len(fill))
		a, err := t.grant(b.ID, name, t.cfg.AccessParameters)
		t.wantCode("grant to "+quote(name), err, codes.OK, codes.InvalidArgument)
		if err == nil {
			if n := len(a.AccountID); n > maxString {
				t.Errorf("the account of a name of %d bytes has %d", maxString, n)
			}
			t.regrant("second grant to "+quote(name), a, name)
		}
	}
}
