package cosi

import "google.golang.org/grpc/codes"

var restartCases = []Case{
	{
		Name: "restart/keeps", Req: "COSI-030 COSI-033 COSI-090 COSI-117", Level: Must,
		Clause: clauseRetry + " Also where the driver was killed in between.",
		Run:    restartKeeps,
	},
	{
		Name: "restart/mid-call", Req: "COSI-090 COSI-103", Level: Must,
		Clause: clauseRetry + " Also where the driver was killed during the call; what was answered with OK stays.",
		Run:    restartMidCall,
	},
}

func (t *T) restart() {
	if err := t.cfg.Restart(t.ctx); err != nil {
		t.Fatalf("restart driver: %v", err)
	}
	if err := t.await(t.ctx); err != nil {
		t.Fatalf("restart driver: %v", err)
	}
}

func (t *T) needRestart() {
	if t.cfg.Restart == nil {
		t.Skipf("no Restart is configured")
	}
}

func restartKeeps(t *T) {
	t.needRestart()
	b, name := t.bucket(), t.name()
	a := t.access(b, name)
	revoked := t.access(b, t.name())
	t.wantCode("revoke", t.revoke(b.ID, revoked.AccountID), codes.OK)
	deleted := t.bucket()
	t.wantCode("delete", t.delete(deleted.ID), codes.OK)

	t.restart()
	resp, err := t.create(b.Name, t.cfg.BucketParameters)
	t.wantCode("create after a restart", err, codes.OK)
	if err == nil && resp.GetBucketId() != b.ID {
		t.Errorf("bucket_id was %q, after a restart %q", b.ID, resp.GetBucketId())
	}
	t.regrant("grant after a restart", a, name)
	t.wantCode("revoke of what is revoked, after a restart", t.revoke(b.ID, revoked.AccountID), codes.OK)
	t.wantCode("delete of what is deleted, after a restart", t.delete(deleted.ID), codes.OK)
	if t.cfg.Probe != nil {
		t.works("key after a restart", a)
		t.dead("key revoked before a restart", revoked)
	}
}

// restartMidCall kills the driver while calls for many buckets are under way,
// then repeats every call.
func restartMidCall(t *T) {
	t.needRestart()
	type work struct {
		bucket, account string
		id              string
		access          Access
	}
	all := make([]work, crowd)
	for i := range all {
		all[i] = work{bucket: t.name(), account: t.name()}
	}
	started := make(chan struct{}, crowd)
	restarted := make(chan error, 1)
	go func() {
		// Some calls have been answered by then, some not.
		for range crowd / 4 {
			<-started
		}
		restarted <- t.cfg.Restart(t.ctx)
	}()
	together(crowd, func(i int) {
		defer func() { started <- struct{}{} }()
		w := &all[i]
		resp, err := t.create(w.bucket, t.cfg.BucketParameters)
		if err != nil {
			return
		}
		w.id = resp.GetBucketId()
		w.access, _ = t.grant(w.id, w.account, t.cfg.AccessParameters)
	})
	if err := <-restarted; err != nil {
		t.Fatalf("restart driver: %v", err)
	}
	if err := t.await(t.ctx); err != nil {
		t.Fatalf("restart driver: %v", err)
	}
	for _, w := range all {
		id, a, err := t.repeat(w.bucket, w.account)
		t.wantCode("create and grant, repeated after a restart", err, codes.OK)
		if w.id != "" && err == nil && id != w.id {
			t.Errorf("bucket_id was %q, after a restart %q", w.id, id)
		}
		if w.access.AccountID != "" && err == nil && !a.same(w.access) {
			t.Errorf("account %q has other credentials after a restart", w.access.AccountID)
		}
		if err == nil && t.cfg.Probe != nil {
			t.works("key after a restart", a)
		}
	}
}

// repeat creates and grants, patiently: the driver may be mending what the
// kill left half done.
func (t *T) repeat(name, account string) (id string, a Access, err error) {
	err = t.patiently(func() error {
		resp, err := t.create(name, t.cfg.BucketParameters)
		id = resp.GetBucketId()
		return err
	})
	if err != nil {
		return "", Access{}, err
	}
	err = t.patiently(func() (err error) {
		a, err = t.grant(id, account, t.cfg.AccessParameters)
		return err
	})
	return id, a, err
}
