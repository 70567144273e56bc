package cosi

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

const (
	clauseRevoke     = "This call revokes all access to a particular bucket from a principal."
	clauseRevokeSame = "Idempotency requirements ensure that a retried call with the same fields continues where it left off when retried."
)

var revokeCases = []Case{
	{
		Name: "revoke/granted", Req: "COSI-008 COSI-034 COSI-035", Level: Must,
		Clause: "The account_id returned in the response will be used as the unique identifier for deleting this access.",
		Run: func(t *T) {
			a := t.access(t.bucket(), t.name())
			t.wantCode("revoke", t.revoke(a.BucketID, a.AccountID), codes.OK)
		},
	},
	{
		Name: "revoke/again", Req: "COSI-090", Level: Must,
		Clause: clauseRevokeSame,
		Run: func(t *T) {
			a := t.access(t.bucket(), t.name())
			t.wantCode("revoke", t.revoke(a.BucketID, a.AccountID), codes.OK)
			t.wantCode("second revoke", t.revoke(a.BucketID, a.AccountID), codes.OK)
		},
	},
	{
		Name: "revoke/after-delete", Req: "COSI-090", Level: Must,
		Clause: clauseRevokeSame + " A bucket may go before its accesses do.",
		Run:    revokeAfterDelete,
	},
	{
		Name: "revoke/others", Req: "COSI-034 COSI-035", Level: Must,
		Clause: clauseRevoke,
		Run:    revokeOthers,
	},
	{
		Name: "revoke/foreign", Req: "COSI-035", Level: Must,
		Clause: clauseRevoke + " Not the access of that account to another bucket.",
		Run:    revokeForeign,
	},
	{
		Name: "revoke/then-grant", Req: "COSI-033 COSI-035", Level: Should,
		Clause: clauseRevoke + " What is granted after that is a new access, with a new key.",
		Run:    revokeThenGrant,
	},
	{
		Name: "revoke/no-bucket", Req: "COSI-084 COSI-096", Level: Must,
		Clause: clauseMissing,
		Run:    invalid(func(bucket) proto.Message { return &revokeRequest{AccountId: "fl-check"} }),
	},
	{
		Name: "revoke/no-account", Req: "COSI-084 COSI-096", Level: Must,
		Clause: clauseMissing,
		Run:    invalid(func(b bucket) proto.Message { return &revokeRequest{BucketId: b.ID} }),
	},
	{
		Name: "revoke/unknown-context", Req: "COSI-075 COSI-098", Level: Must,
		Clause: clauseInvalid + " " + clauseParsing,
		Run:    revokeUnknownContext,
	},
	{
		Name: "revoke/long-account", Req: "COSI-079 COSI-081", Level: Should,
		Clause: clauseString,
		Run:    invalid(func(b bucket) proto.Message { return &revokeRequest{BucketId: b.ID, AccountId: longString} }),
	},
	{
		Name: "revoke/long-bucket", Req: "COSI-079 COSI-081", Level: Should,
		Clause: clauseString,
		Run:    invalid(func(bucket) proto.Message { return &revokeRequest{BucketId: longString, AccountId: "fl-check"} }),
	},
	{
		Name: "revoke/large-context", Req: "COSI-079 COSI-082", Level: Should,
		Clause: clauseMap,
		Run: invalid(func(b bucket) proto.Message {
			return &revokeRequest{BucketId: b.ID, AccountId: "fl-check", RevokeAccessContext: largeMap}
		}),
	},
}

// revokeAfterDelete lets the driver refuse to delete a bucket with accesses.
func revokeAfterDelete(t *T) {
	a := t.access(t.bucket(), t.name())
	err := t.delete(a.BucketID)
	t.wantCode("delete of a bucket with an access", err, codes.OK, codes.FailedPrecondition)
	t.wantCode("revoke after that", t.revoke(a.BucketID, a.AccountID), codes.OK)
	t.wantCode("delete after that", t.delete(a.BucketID), codes.OK)
}

func revokeOthers(t *T) {
	b, keep := t.bucket(), t.name()
	kept, gone := t.access(b, keep), t.access(b, t.name())
	t.wantCode("revoke", t.revoke(b.ID, gone.AccountID), codes.OK)
	t.regrant("grant to the other account once more", kept, keep)
	if t.cfg.Probe != nil {
		t.works("key of the other account", kept)
	}
}

func revokeForeign(t *T) {
	mine, theirs := t.bucket(), t.bucket()
	name := t.name()
	kept := t.access(theirs, name)
	err := t.revoke(mine.ID, kept.AccountID)
	t.wantCode("revoke on the wrong bucket", err, append(refusals, codes.OK, codes.PermissionDenied)...)
	t.regrant("grant on the right bucket once more", kept, name)
	if t.cfg.Probe != nil {
		t.works("key on the right bucket", kept)
	}
}

func revokeThenGrant(t *T) {
	b, name := t.bucket(), t.name()
	old := t.access(b, name)
	t.wantCode("revoke", t.revoke(b.ID, old.AccountID), codes.OK)
	if renewed := t.access(b, name); renewed.same(old) {
		t.Errorf("the key that was revoked is granted again, so whoever held it has access")
	}
}

func revokeUnknownContext(t *T) {
	b, name := t.bucket(), t.name()
	a := t.access(b, name)
	err := t.send(&revokeRequest{BucketId: b.ID, AccountId: a.AccountID, RevokeAccessContext: unknownMap})
	t.wantCode("revoke", err, codes.InvalidArgument)
	if err != nil {
		t.regrant("grant after a revoke that was refused", a, name)
	}
}
