// Package keeper keeps claims true: it reconciles what the ledger says with
// what the drivers, the file system and the clock say. It is the only room
// that decides.
//
// Every change goes the same way: the intent is written to the ledger, then
// the effect is made, then its result is written. Names derive from the intent,
// so a step that was cut short is simply made again, in this process or in the
// next one. nextOfBucket (plan.go) is the state machine of a bucket; steps.go holds
// its effects; verify.go is what happens at start. devices.go looks for devices,
// device.go is what becomes of a claim for one.
package keeper

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/device"
	"github.com/fairlead/fairlead/internal/ledger"
	"github.com/fairlead/fairlead/internal/seal"
)

// Config is what a keeper works with. All paths are absolute.
type Config struct {
	Ledger *ledger.Ledger
	Key    *seal.Key
	Log    *slog.Logger
	// CredsDir holds a directory of credential files for each access, on
	// tmpfs; CDIDir holds the CDI specs, or is empty for none; SocketDir holds
	// the sockets of supervised drivers.
	CredsDir, CDIDir, SocketDir string
	// Objects is the command of our own driver and the environment to add.
	Objects    []string
	ObjectsEnv []string
	// Devices is where devices are looked for; the zero value is this host.
	Devices device.Host
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Keeper is a running keeper. Close ends it.
type Keeper struct {
	cfg     Config
	log     *slog.Logger
	ctx     context.Context
	cancel  context.CancelFunc
	gate    sync.Mutex // orders admit and Close
	work    sync.WaitGroup
	drivers *drivers
	classes *classes
	devices devices

	// unlooked is how many claims of the ledger have not been looked at yet.
	unlooked atomic.Int64

	mu     sync.RWMutex
	claims map[string]*entry
}

// Open reads the ledger, starts the drivers and begins to make every claim
// true again. It returns as soon as claims can be stated.
func Open(cfg Config) (*Keeper, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	ctx, cancel := context.WithCancel(context.Background())
	k := &Keeper{cfg: cfg, log: cfg.Log, ctx: ctx, cancel: cancel, claims: map[string]*entry{}}
	k.devices.look = make(chan struct{}, 1)
	unfinished := k.unfinishedSpecs() // before the first driver comes and more are written
	if err := k.load(); err != nil {
		cancel()
		return nil, err
	}
	k.sweep(unfinished)
	if len(k.deviceClaims()) > 0 {
		k.followDevices()
	}
	for _, claims := range k.byDriver() {
		k.kickAll(claims)
	}
	return k, nil
}

// load reads all that the ledger remembers. The drivers start meanwhile.
func (k *Keeper) load() (err error) {
	if k.classes, err = loadClasses(k.cfg.Ledger); err != nil {
		return err
	}
	if k.drivers, err = loadDrivers(k); err != nil {
		return err
	}
	k.mu.Lock() // a driver that is ready soon finds all its claims
	k.drivers.start()
	records, err := k.cfg.Ledger.Claims()
	if err == nil {
		k.remember(records)
	}
	k.mu.Unlock()
	if err != nil {
		k.drivers.stop()
	}
	return err
}

// remember takes in the claims of the ledger. What a driver refused is tried
// again: it may have been mended meanwhile.
func (k *Keeper) remember(records []*ledger.Record) {
	for _, rec := range records {
		resetFailed(rec)
		e := newEntry(rec)
		e.looked = false
		k.claims[rec.Claim.Name] = e
	}
	k.unlooked.Store(int64(len(records)))
}

// Stop begins to close: nothing more is reconciled, and whoever waits for a
// claim is told that the daemon is stopping.
func (k *Keeper) Stop() {
	k.gate.Lock()
	defer k.gate.Unlock()
	k.cancel()
}

// Close stops the reconciling, then the drivers. What was under way converges
// at the next start.
func (k *Keeper) Close() {
	k.Stop()
	k.mu.Lock()
	for _, e := range k.claims {
		e.stopTimer()
	}
	k.mu.Unlock()
	k.work.Wait()
	k.drivers.stop()
}

// entries are all claims, in the order of their names.
func (k *Keeper) entries() []*entry {
	k.mu.RLock()
	defer k.mu.RUnlock()
	list := make([]*entry, 0, len(k.claims))
	for _, name := range slices.Sorted(maps.Keys(k.claims)) {
		list = append(list, k.claims[name])
	}
	return list
}

// byDriver are all claims by the name of their driver, in no order.
func (k *Keeper) byDriver() map[string][]*entry {
	k.mu.RLock()
	defer k.mu.RUnlock()
	m := map[string][]*entry{}
	for _, e := range k.claims {
		if rec := e.rec.Load(); rec != nil {
			m[rec.Claim.Driver] = append(m[rec.Claim.Driver], e)
		}
	}
	return m
}

// entry finds a claim by name.
func (k *Keeper) entry(name string) (*entry, error) {
	k.mu.RLock()
	e := k.claims[name]
	k.mu.RUnlock()
	if e != nil {
		return e, nil
	}
	if err := claim.CheckName("a claim", name); err != nil {
		return nil, err
	}
	return nil, claim.Errorf(claim.CodeNotFound, "there is no claim %q", name).WithHint("see what there is: fairlead get")
}

// errGone is the error for a claim that was released meanwhile.
var errGone = claim.Errorf(claim.CodeNotFound, "the claim is gone")

// errStopping is what those are told who wait while the daemon stops.
var errStopping = claim.Errorf(claim.CodeUnavailable, "the daemon is stopping")

// update changes a claim's record: change is given a copy, which is durable
// when update returns nil. Updates of one claim queue; others never wait.
func (k *Keeper) update(e *entry, change func(*ledger.Record) ([]claim.Event, error)) error {
	e.write.Lock()
	defer e.write.Unlock()
	if e.gone() {
		return errGone
	}
	rec := e.rec.Load().Clone()
	events, err := change(rec)
	if err != nil {
		return err
	}
	if err := k.cfg.Ledger.PutClaim(rec, events...); err != nil {
		return err
	}
	e.store(rec)
	return nil
}

// at is called at each point between two effects. Tests kill the process there.
var at = func(point string) {}

// result writes down what a step has done.
func (k *Keeper) result(e *entry, step string, change func(*ledger.Record) ([]claim.Event, error)) error {
	at(step + ":result")
	return k.update(e, change)
}

// forget removes a claim from the ledger and from memory.
func (k *Keeper) forget(e *entry) error {
	e.write.Lock()
	defer e.write.Unlock()
	if err := k.cfg.Ledger.DeleteClaim(e.name); err != nil {
		return fmt.Errorf("forget claim %q: %w", e.name, err)
	}
	k.mu.Lock()
	delete(k.claims, e.name)
	k.mu.Unlock()
	e.store(nil)
	return nil
}

// event makes an event of now.
func (k *Keeper) event(reason, format string, args ...any) claim.Event {
	return claim.Event{Time: k.cfg.Now().UTC(), Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// warning makes a warning of now.
func (k *Keeper) warning(reason, format string, args ...any) claim.Event {
	e := k.event(reason, format, args...)
	e.Warning = true
	return e
}
