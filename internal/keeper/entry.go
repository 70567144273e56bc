package keeper

import (
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/device"
	"github.com/fairlead/fairlead/internal/ledger"
)

// The pauses between two tries of a step that failed.
const (
	leastRetry = 100 * time.Millisecond
	mostRetry  = 30 * time.Second
)

// entry is one claim in memory.
type entry struct {
	name string
	// write is held while the record is changed, over the ledger's commit.
	write sync.Mutex
	// rec is the record as it is on disk; nil once the claim is gone. Whoever
	// has loaded it may read it for ever: it is replaced, never changed.
	rec atomic.Pointer[ledger.Record]

	// seen is what this process has found to be true, by access name. Only
	// the reconciling goroutine, of which there is one at a time, touches it.
	seen map[string]seen
	// looked says that this process has looked at the claim once to its end;
	// one that was stated to this process needs no such look. As seen.
	looked bool

	// found is what the last look at the host's devices found for a claim for
	// one; nil before the first look. carried is what the record and the CDI spec
	// say already; it is as seen.
	found   atomic.Pointer[[]device.Device]
	carried *[]device.Device

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	running bool          // a goroutine reconciles
	again   bool          // and must look once more
	fails   int           // failures in a row
	timer   *time.Timer
}

// seen is what is known of one access since this process started.
type seen struct {
	published bool // the files and the CDI spec are as they should be
	verified  bool // the driver still knows the account
}

func newEntry(rec *ledger.Record) *entry {
	e := &entry{name: rec.Claim.Name, seen: map[string]seen{}, looked: true, changed: make(chan struct{})}
	e.rec.Store(rec)
	return e
}

func (e *entry) gone() bool { return e.rec.Load() == nil }

// store replaces the record and wakes who waits for a change.
func (e *entry) store(rec *ledger.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rec.Store(rec)
	close(e.changed)
	e.changed = make(chan struct{})
}

// watch returns the record and a channel that closes when it is replaced.
func (e *entry) watch() (*ledger.Record, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rec.Load(), e.changed
}

func (e *entry) stopTimer() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.timer.Stop()
	}
}

// kick has the claim reconciled: now, or once more if that is under way.
func (k *Keeper) kick(e *entry) {
	if k.begin(e) {
		go k.reconcile(e)
	}
}

// kickAll has many claims of one driver reconciled. As many work at a time as
// the driver takes calls, which also bounds the memory of a start.
func (k *Keeper) kickAll(claims []*entry) {
	var next atomic.Int64
	for range min(mostCalls, len(claims)) {
		if !k.admit() {
			return
		}
		go func() {
			defer k.work.Done()
			for i := next.Add(1); i <= int64(len(claims)); i = next.Add(1) {
				if e := claims[i-1]; k.begin(e) {
					k.reconcile(e)
				}
			}
		}()
	}
}

// admit counts one more goroutine in, unless the keeper is closing: Close waits
// for those that were let in before, and there are no others.
func (k *Keeper) admit() bool {
	k.gate.Lock()
	defer k.gate.Unlock()
	if k.ctx.Err() != nil {
		return false
	}
	k.work.Add(1)
	return true
}

// begin reports whether the caller is to reconcile the claim. Else somebody
// does, and will do so once more, or there is nothing to do.
func (k *Keeper) begin(e *entry) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running {
		e.again = true
		return false
	}
	e.running = !e.gone() && k.admit()
	return e.running
}

// kickIn has the claim reconciled after a pause, unless something does so
// before.
func (k *Keeper) kickIn(e *entry, pause time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.timer.Stop()
	}
	e.timer = time.AfterFunc(pause, func() { k.kick(e) })
}

// reconcile takes step after step until there is nothing to do, or a step
// fails and must wait.
func (k *Keeper) reconcile(e *entry) {
	defer k.work.Done()
	for {
		k.settle(e)
		e.mu.Lock()
		if !e.again || k.ctx.Err() != nil {
			e.running = false
			e.mu.Unlock()
			return
		}
		e.again = false
		e.mu.Unlock()
	}
}

// settle makes one pass. Its failures are on the record when it returns, and
// the next pass is arranged for. An access that fails, or whose driver is away,
// is left for the next pass and holds up no other of its claim.
func (k *Keeper) settle(e *entry) {
	stuck := map[string]bool{}
	var pause time.Duration
	asleep := false
	for k.ctx.Err() == nil {
		rec := e.rec.Load()
		if rec == nil {
			k.lookedAt(e)
			return
		}
		s, due := k.next(e, rec, stuck)
		if s.do == nil {
			k.rest(e, rec, due, pause, asleep)
			return
		}
		at(s.name + ":begin")
		r := &report{k: k, e: e, step: s}
		err := s.do(k, withReport(k.ctx, r), e, rec, s.access)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errNotReady):
			asleep = true
			if s.name != "verify" { // what is true as far as anyone can tell needs no message
				k.note(e, s, s.name+": "+err.Error())
			}
		default:
			wait := k.failed(e, s, err, r.told())
			if wait == 0 {
				continue
			}
			pause = wait
		}
		if s.access == "" { // nothing else can be done before it
			k.rest(e, rec, time.Time{}, pause, asleep)
			return
		}
		stuck[s.access] = true
	}
}

// next is what a claim needs next, as nextOfBucket and nextOfDevice say.
func (k *Keeper) next(e *entry, rec *ledger.Record, stuck map[string]bool) (s step, due time.Time) {
	if rec.Claim.Kind == claim.KindDevice {
		return nextOfDevice(rec, e.found.Load(), e.carried), time.Time{}
	}
	return nextOfBucket(rec, e.seen, stuck, k.cfg.Now())
}

// rest ends a pass: there is nothing to do until due, or until what failed is
// tried again after the pause, or until the driver comes, which wakes its claims.
func (k *Keeper) rest(e *entry, rec *ledger.Record, due time.Time, pause time.Duration, asleep bool) {
	if pause == 0 {
		e.fails = 0
	} else {
		e.fails++
		if again := k.cfg.Now().Add(pause); due.IsZero() || again.Before(due) {
			due = again
		}
	}
	if isDevice := rec.Claim.Kind == claim.KindDevice; isDevice && (e.found.Load() != nil || rec.Claim.Phase == claim.PhaseReleasing) || !isDevice && (!asleep || !k.isOurs(rec.Claim.Driver)) {
		k.lookedAt(e)
	}
	if !due.IsZero() {
		k.kickIn(e, max(0, due.Sub(k.cfg.Now())))
	}
}

// isOurs reports whether that is our own driver, which the start waits for.
func (k *Keeper) isOurs(driver string) bool {
	d, err := k.drivers.get(driver)
	return err != nil || d.rec.BuiltIn
}

// lookedAt counts the claims of the ledger that were looked at once.
func (k *Keeper) lookedAt(e *entry) {
	if e.looked {
		return
	}
	e.looked = true
	if k.unlooked.Add(-1) == 0 {
		// The start is over: the system gets back the memory that it took.
		k.work.Go(debug.FreeOSMemory)
	}
}
