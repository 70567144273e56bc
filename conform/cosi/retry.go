package cosi

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

const clauseRetry = "Any of the RPCs defined in this spec MAY timeout and MAY be retried. Idempotency requirements ensure that a retried call with the same fields continues where it left off when retried."

var retryCases = []Case{
	{
		Name: "retry/create", Req: "COSI-088 COSI-090", Level: Must,
		Clause: clauseRetry,
		Run:    retryCreate,
	},
	{
		Name: "retry/grant", Req: "COSI-088 COSI-090", Level: Must,
		Clause: clauseRetry,
		Run:    retryGrant,
	},
	{
		Name: "retry/revoke", Req: "COSI-088 COSI-090", Level: Must,
		Clause: clauseRetry,
		Run:    retryRevoke,
	},
	{
		Name: "retry/delete", Req: "COSI-088 COSI-090", Level: Must,
		Clause: clauseRetry,
		Run:    retryDelete,
	},
}

// hastily makes a call several times with deadlines too short for it, so that
// it is cut off at different places. It says whether one got through.
func (t *T) hastily(call func(context.Context) error) bool {
	through := false
	for _, patience := range []time.Duration{50, 200, 500, 1000, 2000} {
		ctx, cancel := context.WithTimeout(t.ctx, patience*time.Microsecond)
		through = call(ctx) == nil || through
		cancel()
	}
	return through
}

func retryCreate(t *T) {
	name := t.name()
	req := &createRequest{Name: name, Parameters: t.cfg.BucketParameters}
	var early string
	t.hastily(func(ctx context.Context) error {
		resp, err := t.Provisioner.DriverCreateBucket(ctx, req)
		if err == nil {
			early = resp.GetBucketId()
		}
		return err
	})
	err := t.patiently(func() error {
		resp, err := t.create(name, t.cfg.BucketParameters)
		if err == nil && early != "" && resp.GetBucketId() != early {
			t.Errorf("bucket_id was %q, is %q", early, resp.GetBucketId())
		}
		return err
	})
	t.wantCode("create after creates that timed out", err, codes.OK)
}

func retryGrant(t *T) {
	b, name := t.bucket(), t.name()
	req := &grantRequest{BucketId: b.ID, Name: name, AuthenticationType: key, Parameters: t.cfg.AccessParameters}
	var early *cosipb.DriverGrantBucketAccessResponse
	t.hastily(func(ctx context.Context) error {
		resp, err := t.Provisioner.DriverGrantBucketAccess(ctx, req)
		if err == nil {
			early = resp
		}
		return err
	})
	var a Access
	err := t.patiently(func() (err error) {
		a, err = t.grantWith(req)
		return err
	})
	t.wantCode("grant after grants that timed out", err, codes.OK)
	if err != nil {
		return
	}
	if early != nil && early.GetAccountId() != a.AccountID {
		t.Errorf("account_id was %q, is %q", early.GetAccountId(), a.AccountID)
	}
	t.regrant("one more grant", a, name)
	if t.cfg.Probe != nil {
		t.works("key granted after grants that timed out", a)
	}
}

func retryRevoke(t *T) {
	a := t.access(t.bucket(), t.name())
	t.hastily(func(ctx context.Context) error {
		_, err := t.Provisioner.DriverRevokeBucketAccess(ctx, &revokeRequest{BucketId: a.BucketID, AccountId: a.AccountID})
		return err
	})
	err := t.patiently(func() error { return t.revoke(a.BucketID, a.AccountID) })
	t.wantCode("revoke after revokes that timed out", err, codes.OK)
	if t.cfg.Probe != nil {
		t.dead("revoked key", a)
	}
}

func retryDelete(t *T) {
	b := t.bucket()
	t.hastily(func(ctx context.Context) error {
		_, err := t.Provisioner.DriverDeleteBucket(ctx, &deleteRequest{BucketId: b.ID})
		return err
	})
	err := t.patiently(func() error { return t.delete(b.ID) })
	t.wantCode("delete after deletes that timed out", err, codes.OK)
}
