package cosi

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

const clauseDeleted = "If the bucket has already been deleted, then no error should be returned."

var deleteCases = []Case{
	{
		Name: "delete/made", Req: "COSI-008", Level: Must,
		Clause: "This call is made to delete the bucket in the backend.",
		Run: func(t *T) {
			t.wantCode("delete", t.delete(t.bucket().ID), codes.OK)
		},
	},
	{
		Name: "delete/whole-life", Req: "COSI-011 COSI-012", Level: Must,
		Clause: "The lifecycle of a dynamically provisioned bucket, from creation to deletion: CreateBucket, GrantBucketAccess, RevokeBucketAccess, DeleteBucket.",
		Run: func(t *T) {
			a := t.access(t.bucket(), t.name())
			t.wantCode("revoke", t.revoke(a.BucketID, a.AccountID), codes.OK)
			t.wantCode("delete", t.delete(a.BucketID), codes.OK)
		},
	},
	{
		Name: "delete/again", Req: "COSI-032", Level: Should,
		Clause: clauseDeleted,
		Run: func(t *T) {
			b := t.bucket()
			t.wantCode("delete", t.delete(b.ID), codes.OK)
			t.wantCode("second delete", t.delete(b.ID), codes.OK)
		},
	},
	{
		Name: "delete/absent", Req: "COSI-032", Level: Should,
		Clause: clauseDeleted,
		Run:    deleteAbsent,
	},
	{
		Name: "delete/then-create", Req: "COSI-030 COSI-091", Level: Must,
		Clause: "The only way to cancel a call is to issue a \"negation\" call: what has been deleted is no bucket that already exists.",
		Run:    deleteThenCreate,
	},
	{
		Name: "delete/no-bucket", Req: "COSI-084 COSI-096", Level: Must,
		Clause: clauseMissing,
		Run:    invalid(func(bucket) proto.Message { return &deleteRequest{} }),
	},
	{
		Name: "delete/unknown-context", Req: "COSI-060 COSI-098", Level: Must,
		Clause: clauseInvalid + " " + clauseParsing,
		Run:    invalid(func(b bucket) proto.Message { return &deleteRequest{BucketId: b.ID, DeleteContext: unknownMap} }),
	},
	{
		Name: "delete/long-bucket", Req: "COSI-079 COSI-081", Level: Should,
		Clause: clauseString,
		Run:    invalid(func(bucket) proto.Message { return &deleteRequest{BucketId: longString} }),
	},
	{
		Name: "delete/large-context", Req: "COSI-079 COSI-082", Level: Should,
		Clause: clauseMap,
		Run:    invalid(func(b bucket) proto.Message { return &deleteRequest{BucketId: b.ID, DeleteContext: largeMap} }),
	},
	{
		Name: "delete/refused-keeps", Req: "COSI-098 COSI-117", Level: Must,
		Clause: "A delete that was refused has deleted nothing: the bucket already exists, and OK must be returned with the corresponding response.",
		Run:    deleteRefusedKeeps,
	},
}

// absentID looks like the id of a bucket, which was never made. It is false
// where ids do not show how they are made, so that a driver may call any id of
// another form invalid.
func (t *T) absentID() (string, bool) {
	b := t.bucket()
	if strings.Contains(b.ID, b.Name) {
		return strings.Replace(b.ID, b.Name, t.name(), 1), true
	}
	return t.name(), false
}

func deleteAbsent(t *T) {
	id, formed := t.absentID()
	want := []codes.Code{codes.OK}
	if !formed {
		want = append(want, codes.InvalidArgument)
	}
	t.wantCode("delete of a bucket that never was", t.delete(id), want...)
}

func deleteThenCreate(t *T) {
	b := t.bucket()
	t.wantCode("delete", t.delete(b.ID), codes.OK)
	parameters := t.cfg.BucketParameters
	if t.cfg.OtherBucketParameters != nil {
		parameters = t.cfg.OtherBucketParameters // nothing is left to be different from
	}
	_, err := t.create(b.Name, parameters)
	t.wantCode("create after delete", err, codes.OK)
}

func deleteRefusedKeeps(t *T) {
	b := t.bucket()
	a := t.access(b, t.name())
	if t.send(&deleteRequest{BucketId: b.ID, DeleteContext: unknownMap}) == nil {
		t.Skipf("the driver takes any delete_context")
	}
	resp, err := t.create(b.Name, t.cfg.BucketParameters)
	t.wantCode("create of the same bucket", err, codes.OK)
	if err == nil && resp.GetBucketId() != b.ID {
		t.Errorf("bucket_id is %q, then %q", b.ID, resp.GetBucketId())
	}
	if t.cfg.Probe != nil {
		t.works("key after a delete that was refused", a)
	}
}
