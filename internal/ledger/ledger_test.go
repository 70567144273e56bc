package ledger

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/kv"
)

func open(t *testing.T, dir string) *Ledger {
	t.Helper()
	l, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestWhatIsWrittenIsThereAfterAReopen(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	gid := 7
	rec := &Record{
		Claim: claim.Claim{Kind: claim.KindBucket, Name: "photos", UID: "u", Phase: claim.PhaseReady,
			Protocol: claim.Protocol{S3: &claim.S3{Region: "r"}},
			Accesses: []claim.Access{{AccessSpec: claim.AccessSpec{Name: "default", GID: &gid}, Grace: claim.Duration(time.Minute)}}},
		Sealed:    map[string][]byte{"ba-1": {1, 2, 3}},
		Published: map[string]string{"default": "d"},
	}
	driver := claim.Driver{Name: "d", Exec: []string{"x", "y"}}
	class := claim.BucketClass{Name: "c", Driver: "d", DeletionPolicy: claim.Delete}
	access := claim.AccessClass{Name: "a", Driver: "d"}
	for _, err := range []error{l.PutClaim(rec), l.PutDriver(driver), l.PutBucketClass(class), l.PutAccessClass(access), l.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	l = open(t, dir)
	recs, err := l.Claims()
	if err != nil || len(recs) != 1 || !reflect.DeepEqual(recs[0], rec) {
		t.Errorf("claims %+v %v", recs, err)
	}
	drivers, err := l.Drivers()
	if err != nil || !reflect.DeepEqual(drivers, []claim.Driver{driver}) {
		t.Errorf("drivers %+v %v", drivers, err)
	}
	classes, err := l.BucketClasses()
	if err != nil || !reflect.DeepEqual(classes, []claim.BucketClass{class}) {
		t.Errorf("classes %+v %v", classes, err)
	}
	accesses, err := l.AccessClasses()
	if err != nil || !reflect.DeepEqual(accesses, []claim.AccessClass{access}) {
		t.Errorf("access classes %+v %v", accesses, err)
	}
	if err := l.DeleteClaim("photos"); err != nil {
		t.Fatal(err)
	}
	if recs, _ := l.Claims(); len(recs) != 0 {
		t.Error("the claim is still there")
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if _, err := Open(dir, 0); !errors.Is(err, ErrLocked) {
		t.Errorf("%v, want ErrLocked", err)
	}
}

func TestLaterFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	if err := l.db.Update(func(tx *kv.Tx) error { return tx.Bucket(metaPart).Put("format", []byte("99")) }); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := Open(dir, 0); err == nil || !strings.Contains(err.Error(), "format 99") {
		t.Error(err)
	}
}

func TestEventsAreFoldedAndBounded(t *testing.T) {
	l := open(t, t.TempDir())
	for i := range mostEvents + 5 {
		e := claim.Event{Time: time.Unix(int64(i), 0).UTC(), Reason: "R", Message: fmt.Sprint(i)}
		if err := l.AddEvents("x", e, e); err != nil {
			t.Fatal(err)
		}
	}
	events, err := l.Events("x")
	if err != nil || len(events) != mostEvents {
		t.Fatalf("%d events, %v", len(events), err)
	}
	if last := events[mostEvents-1]; last.Message != fmt.Sprint(mostEvents+4) || last.Count != 2 {
		t.Errorf("%+v", last)
	}
}
