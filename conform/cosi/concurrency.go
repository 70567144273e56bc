package cosi

import (
	"sync"

	"google.golang.org/grpc/codes"
)

const (
	clausePending = "Operation pending for bucket: 10 ABORTED. The Plugin SHOULD handle this as gracefully as possible, and MAY return this error code to reject secondary calls."
	crowd         = 32 // calls at once
)

var concurrencyCases = []Case{
	{
		Name: "concurrency/one-create", Req: "COSI-103 COSI-104 COSI-105", Level: Must,
		Clause: clausePending,
		Run:    concurrentCreate,
	},
	{
		Name: "concurrency/many-creates", Req: "COSI-077 COSI-104", Level: Must,
		Clause: clausePending + " Only for the specified bucket: other buckets never wait.",
		Run:    concurrentCreates,
	},
	{
		Name: "concurrency/one-grant", Req: "COSI-033 COSI-104 COSI-105", Level: Must,
		Clause: clauseAccount + " " + clausePending,
		Run:    concurrentGrant,
	},
	{
		Name: "concurrency/many-grants", Req: "COSI-070 COSI-104 COSI-105", Level: Must,
		Clause: clausePending + " Every access that was answered with OK is granted.",
		Run:    concurrentGrants,
	},
	{
		Name: "concurrency/revokes", Req: "COSI-035 COSI-104 COSI-105", Level: Must,
		Clause: clauseRevoke + " " + clausePending,
		Run:    concurrentRevokes,
	},
	{
		Name: "concurrency/many-buckets", Req: "COSI-077 COSI-104", Level: Must,
		Clause: clausePending + " Only for the specified bucket: other buckets never wait.",
		Run:    concurrentBuckets,
	},
	{
		Name: "concurrency/mixed", Req: "COSI-103 COSI-104 COSI-105", Level: Must,
		Clause: clausePending,
		Run:    concurrentMixed,
	},
	{
		Name: "concurrency/deletes", Req: "COSI-032 COSI-104 COSI-105", Level: Should,
		Clause: clauseDeleted + " " + clausePending,
		Run: func(t *T) {
			b := t.bucket()
			together(crowd, func(int) { t.wantCode("delete", t.delete(b.ID), codes.OK, codes.Aborted) })
			t.wantCode("delete at last", t.patiently(func() error { return t.delete(b.ID) }), codes.OK)
		},
	},
}

func concurrentCreate(t *T) {
	name := t.name()
	var mu sync.Mutex
	ids := map[string]bool{}
	together(crowd, func(int) {
		resp, err := t.create(name, t.cfg.BucketParameters)
		t.wantCode("create of one bucket at once", err, codes.OK, codes.Aborted)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			ids[resp.GetBucketId()] = true
		}
	})
	err := t.patiently(func() error {
		resp, err := t.create(name, t.cfg.BucketParameters)
		if err == nil {
			ids[resp.GetBucketId()] = true
		}
		return err
	})
	t.wantCode("create at last", err, codes.OK)
	if len(ids) > 1 {
		t.Errorf("one bucket has %d ids: %v", len(ids), ids)
	}
}

func concurrentCreates(t *T) {
	together(crowd, func(int) {
		_, err := t.create(t.name(), t.cfg.BucketParameters)
		t.wantCode("create of another bucket each", err, codes.OK)
	})
}

func concurrentGrant(t *T) {
	b, name := t.bucket(), t.name()
	grants := make([]Access, crowd)
	together(crowd, func(i int) {
		var err error
		grants[i], err = t.grant(b.ID, name, t.cfg.AccessParameters)
		t.wantCode("grant to one name at once", err, codes.OK, codes.Aborted)
	})
	var last Access
	err := t.patiently(func() (err error) {
		last, err = t.grant(b.ID, name, t.cfg.AccessParameters)
		return err
	})
	t.wantCode("grant at last", err, codes.OK)
	for _, a := range grants {
		if a.AccountID != "" && !a.same(last) {
			t.Errorf("one name has the accounts or keys %q and %q", a.AccountID, last.AccountID)
			return
		}
	}
}

// grantAtOnce grants to twice a crowd of names, patiently.
func (t *T) grantAtOnce(b bucket) []Access {
	grants := make([]Access, 2*crowd)
	together(len(grants), func(i int) {
		name := t.name()
		err := t.patiently(func() (err error) {
			grants[i], err = t.grant(b.ID, name, t.cfg.AccessParameters)
			return err
		})
		t.wantCode("grant to another name each", err, codes.OK)
	})
	return grants
}

func concurrentGrants(t *T) {
	grants := t.grantAtOnce(t.bucket())
	accounts := map[string]bool{}
	for _, a := range grants {
		accounts[a.AccountID] = true
	}
	if len(accounts) != len(grants) {
		t.Errorf("%d names have %d accounts", len(grants), len(accounts))
	}
	if t.cfg.Probe != nil {
		for _, a := range grants {
			t.works("one key of many", a)
		}
	}
}

func concurrentRevokes(t *T) {
	grants := t.grantAtOnce(t.bucket())
	gone, kept := grants[:crowd], grants[crowd:]
	together(len(gone), func(i int) {
		err := t.patiently(func() error { return t.revoke(gone[i].BucketID, gone[i].AccountID) })
		t.wantCode("revoke of another account each", err, codes.OK)
	})
	if t.cfg.Probe == nil {
		return
	}
	for _, a := range kept {
		t.works("key that is kept", a)
	}
	for _, a := range gone {
		t.dead("revoked key", a)
	}
}

// concurrentBuckets has one call in flight per bucket, so that none is pending
// when the next one comes.
func concurrentBuckets(t *T) {
	buckets := make([]bucket, crowd)
	for i := range buckets {
		buckets[i] = t.bucket()
	}
	together(crowd, func(i int) {
		a, err := t.grant(buckets[i].ID, t.name(), t.cfg.AccessParameters)
		t.wantCode("grant on another bucket each", err, codes.OK)
		if err == nil {
			t.wantCode("revoke on another bucket each", t.revoke(a.BucketID, a.AccountID), codes.OK)
		}
		t.wantCode("delete of another bucket each", t.delete(buckets[i].ID), codes.OK)
	})
}

// concurrentMixed sends calls of every kind for one bucket, each of which
// would be answered with OK if it were alone.
func concurrentMixed(t *T) {
	b, name := t.bucket(), t.name()
	a := t.access(b, name)
	gone := t.access(b, t.name())
	t.wantCode("revoke", t.revoke(b.ID, gone.AccountID), codes.OK)
	together(crowd, func(i int) {
		var err error
		switch i % 4 {
		case 0:
			_, err = t.create(b.Name, t.cfg.BucketParameters)
		case 1:
			_, err = t.grant(b.ID, name, t.cfg.AccessParameters)
		case 2:
			_, err = t.grant(b.ID, t.name(), t.cfg.AccessParameters)
		case 3:
			err = t.revoke(b.ID, gone.AccountID)
		}
		t.wantCode("one of many calls for one bucket", err, codes.OK, codes.Aborted)
	})
	err := t.patiently(func() error {
		_, err := t.create(b.Name, t.cfg.BucketParameters)
		return err
	})
	t.wantCode("create at last", err, codes.OK)
	t.regrant("grant at last", a, name)
}
