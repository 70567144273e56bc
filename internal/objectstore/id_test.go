package objectstore

import (
	"regexp"
	"testing"
	"time"
)

func TestIDsGrowAndNeverRepeat(t *testing.T) {
	form := regexp.MustCompile(`^FLAK[0-9A-V]{16}$`)
	var g ids
	now := time.Now()
	last := ""
	for n := range 1000 {
		if n == 500 {
			now = now.Add(-time.Hour) // somebody set the clock back
		}
		id := g.next(now)
		if !form.MatchString(id) || id <= last {
			t.Fatalf("id %q after %q", id, last)
		}
		last = id
	}
	var afterRestart ids
	if id := afterRestart.next(now.Add(2 * time.Hour)); id <= last {
		t.Errorf("id %q of a later process after %q", id, last)
	}
}
