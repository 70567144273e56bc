package cosi

import (
	"bytes"
	"errors"
	"strconv"

	"google.golang.org/grpc/codes"
)

func quote(s string) string { return strconv.Quote(s) }

// useCases try the granted keys at the back end, so they need a Probe.
var useCases = []Case{
	{
		Name: "use/works", Req: "COSI-070", Level: Must,
		Clause: "Credentials supplied for accessing the bucket.",
		Run: func(t *T) {
			t.probe()
			t.works("granted key", t.access(t.bucket(), t.name()))
		},
	},
	{
		Name: "use/its-bucket-only", Req: "COSI-035 COSI-070", Level: Must,
		Clause: "This call grants access to an account. Credentials supplied for accessing the bucket: that one, no other.",
		Run:    useItsBucketOnly,
	},
	{
		Name: "use/revoked", Req: "COSI-034 COSI-035", Level: Must,
		Clause: clauseRevoke,
		Run:    useRevoked,
	},
	{
		Name: "use/same-name-on-two-buckets", Req: "COSI-033 COSI-035", Level: Must,
		Clause: clauseAccount + " " + clauseRevoke,
		Run:    useSameName,
	},
	{
		Name: "use/object-survives-delete", Req: "COSI-095 COSI-119", Level: Must,
		Clause: "Each RPC must answer what is true: a delete that is answered with an error has deleted nothing.",
		Run:    useDeleteFull,
	},
	{
		Name: "use/object-survives-repeats", Req: "COSI-030 COSI-033", Level: Must,
		Clause: "This call is idempotent: a repeated create or grant changes nothing in the bucket.",
		Run:    useRepeats,
	},
}

const object = "fl-check/object"

// works fails unless the access can write and read its bucket.
func (t *T) works(what string, a Access) {
	data := []byte(a.AccountID)
	if err := t.cfg.Probe.Put(t.ctx, a, object, data); err != nil {
		t.Errorf("%s: write: %v", what, err)
		return
	}
	t.cleanup(func() { t.remove(a) })
	got, err := t.cfg.Probe.Get(t.ctx, a, object)
	if err != nil {
		t.Errorf("%s: read: %v", what, err)
	} else if !bytes.Equal(got, data) {
		t.Errorf("%s: read back %d bytes that are not those written", what, len(got))
	}
}

// remove deletes the object, so that the bucket can be deleted, for a probe
// that knows how to.
func (t *T) remove(a Access) {
	if r, ok := t.cfg.Probe.(Remover); ok {
		_ = r.Remove(t.ctx, a, object)
	}
}

// dead fails unless the back end refuses the key, to write and to read.
func (t *T) dead(what string, a Access) {
	t.refuses(what+": write", t.cfg.Probe.Put(t.ctx, a, object, []byte("x")))
	_, err := t.cfg.Probe.Get(t.ctx, a, object)
	t.refuses(what+": read", err)
}

func (t *T) refuses(what string, err error) {
	switch {
	case err == nil:
		t.Errorf("%s: allowed, want it refused", what)
	case !errors.Is(err, ErrRefused):
		t.Errorf("%s: not refused but failed: %v", what, err)
	}
}

func useItsBucketOnly(t *T) {
	t.probe()
	mine, theirs := t.bucket(), t.bucket()
	a, b := t.access(mine, t.name()), t.access(theirs, t.name())
	t.works("key on its bucket", a)
	t.works("the other key on its bucket", b)
	t.dead("key of another bucket", a.onto(theirs.ID))
}

func useRevoked(t *T) {
	t.probe()
	b, name := t.bucket(), t.name()
	keeper, a := t.access(b, t.name()), t.access(b, name)
	t.works("key that is kept", keeper)
	t.works("key before it is revoked", a)
	t.wantCode("revoke", t.revoke(b.ID, a.AccountID), codes.OK)
	t.dead("revoked key", a)
	renewed := t.access(b, name)
	t.works("key granted after that", renewed)
	if !renewed.same(a) { // else revoke/then-grant has said so
		t.dead("revoked key, with the account granted again", a)
	}
	t.works("key that is kept", keeper)
}

// useSameName lets a driver refuse a name that has access to another bucket;
// where it does not, the two accesses live and die apart.
func useSameName(t *T) {
	t.probe()
	one, two, name := t.bucket(), t.bucket(), t.name()
	first := t.access(one, name)
	second, err := t.grant(two.ID, name, t.cfg.AccessParameters)
	t.wantCode("grant to the same name on another bucket", err, codes.OK, codes.AlreadyExists)
	t.works("key on the first bucket", first)
	if err != nil {
		return
	}
	t.works("key on the second bucket", second)
	t.wantCode("revoke on the first bucket", t.revoke(one.ID, first.AccountID), codes.OK)
	t.works("key on the second bucket, revoked on the first", second)
	t.dead("key revoked on the first bucket", first)
}

func useDeleteFull(t *T) {
	t.probe()
	a := t.access(t.bucket(), t.name())
	if err := t.cfg.Probe.Put(t.ctx, a, object, []byte("data")); err != nil {
		t.Fatalf("write: %v", err)
	}
	t.cleanup(func() { t.remove(a) })
	err := t.delete(a.BucketID)
	t.wantCode("delete of a bucket with an object", err, codes.OK, codes.FailedPrecondition)
	if err == nil {
		return // the driver deletes data
	}
	if got, err := t.cfg.Probe.Get(t.ctx, a, object); err != nil || string(got) != "data" {
		t.Errorf("after a delete that was refused: read %q, %v", got, err)
	}
}

func useRepeats(t *T) {
	t.probe()
	b, name := t.bucket(), t.name()
	a := t.access(b, name)
	t.works("granted key", a)
	_, err := t.create(b.Name, t.cfg.BucketParameters)
	t.wantCode("second create", err, codes.OK)
	t.regrant("second grant", a, name)
	if got, err := t.cfg.Probe.Get(t.ctx, a, object); err != nil || string(got) != a.AccountID {
		t.Errorf("after repeated calls: read %q, %v", got, err)
	}
}
