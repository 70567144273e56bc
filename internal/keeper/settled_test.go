package keeper

import (
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/internal/claim"
)

// A restarted daemon is not ready before the driver has said of every claim
// that its account is still there.
func TestSettledWaitsForTheDriversAnswer(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k, closeAll := h.start(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos"})
	if !k.Settled() {
		t.Error("a claim of this process unsettles it")
	}
	closeAll()

	asked, answer := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(asked) })
	v.set(func() { v.fail = func(string) error { first(); <-answer; return nil } })
	h.builtIn = true
	k, closeAll = h.start(t, v.endpoint)
	defer closeAll()
	select {
	case <-asked:
	case <-soon(t).Done():
		t.Fatal("the driver was not asked")
	}
	if k.Settled() {
		t.Error("settled before the driver has answered")
	}
	close(answer)
	settledAll(t, k)
}

// A driver that somebody else has to bring up does not hold up the others.
func TestSettledDoesNotWaitForAnAbsentVendor(t *testing.T) {
	v, h := serveVendor(t), newHost(t)
	k, closeAll := h.start(t, v.endpoint)
	mustClaim(t, k, claim.Request{Name: "photos"})
	closeAll()
	k, closeAll = h.start(t, "unix://"+shortDir(t)+"/nobody.sock")
	defer closeAll()
	settledAll(t, k)
}

func settledAll(t *testing.T, k *Keeper) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := soon(t); !k.Settled(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the keeper does not settle")
		}
	}
}
