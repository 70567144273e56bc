package keeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/plugin"
	"github.com/fairlead/fairlead/internal/supervise"
)

// mostCalls is how many calls one driver gets at a time. A driver that hangs
// holds up its own claims only.
const mostCalls = 64

// patience is how long a driver may take to answer before it counts as
// unreachable.
const patience = 5 * time.Second

// drivers are the COSI drivers of this host. Ours has no private path: it is
// started and called as any vendor's.
type drivers struct {
	k  *Keeper
	mu sync.RWMutex
	m  map[string]*driver
}

// driver is one of them.
type driver struct {
	rec    claim.Driver // as configured; Identity is kept up to date
	cancel context.CancelFunc
	done   chan struct{}
	ready  chan struct{} // closes once client is set
	slots  chan struct{}
	child  *supervise.Child // nil for one that somebody else runs
	client *cosi.Client     // read it after ready

	endpoint string    // where it answers
	since    time.Time // when we began to look for it

	mu      sync.Mutex // guards what follows, and rec.Identity
	trouble string     // why there is no client
}

// loadDrivers reads the configured drivers; ours is always among them.
func loadDrivers(k *Keeper) (*drivers, error) {
	list, err := k.cfg.Ledger.Drivers()
	if err != nil {
		return nil, err
	}
	ds := &drivers{k: k, m: map[string]*driver{}}
	for _, rec := range list {
		ds.m[rec.Name] = newDriver(rec)
	}
	if len(k.cfg.Objects) > 0 {
		ours := claim.Driver{Name: claim.ObjectsDriver, Exec: k.cfg.Objects, BuiltIn: true}
		if d := ds.m[ours.Name]; d != nil {
			ours.Identity = d.rec.Identity
		}
		ds.m[ours.Name] = newDriver(ours)
	}
	return ds, nil
}

func newDriver(rec claim.Driver) *driver {
	return &driver{rec: rec, done: make(chan struct{}), ready: make(chan struct{}), slots: make(chan struct{}, mostCalls)}
}

// start begins to run and reach all drivers.
func (ds *drivers) start() {
	ds.mu.RLock()
	defer ds.mu.RUnlock()
	for _, d := range ds.m {
		ds.run(d)
	}
}

// stop ends them all, side by side.
func (ds *drivers) stop() {
	ds.mu.RLock()
	defer ds.mu.RUnlock()
	var wg sync.WaitGroup
	for _, d := range ds.m {
		wg.Go(d.stop)
	}
	wg.Wait()
}

// run starts the driver's process, if it is ours to start, and connects.
func (ds *drivers) run(d *driver) {
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	d.endpoint, d.since = d.rec.Endpoint, time.Now()
	if len(d.rec.Exec) > 0 {
		var err error
		if d.endpoint, err = ds.spawn(d); err != nil {
			d.setTrouble(err.Error())
			close(d.done)
			return
		}
	}
	go func() {
		defer close(d.done)
		d.connect(ctx, ds.k)
	}()
}

// spawn starts a supervised driver with a directory of its own for its socket
// (COSI-140, COSI-146, COSI-151, COSI-166).
func (ds *drivers) spawn(d *driver) (endpoint string, err error) {
	dir := filepath.Join(ds.k.cfg.SocketDir, d.rec.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a directory for the socket of driver %q: %w", d.rec.Name, err)
	}
	endpoint = "unix://" + filepath.Join(dir, "cosi.sock")
	env := supervise.Environ("COSI_ENDPOINT=" + endpoint)
	if d.rec.BuiltIn {
		env = append(env, ds.k.cfg.ObjectsEnv...)
	}
	d.child = supervise.Start(ds.k.log, supervise.Command{
		Name: d.rec.Name, Argv: d.rec.Exec, Env: env, Dir: "/", Output: os.Stderr,
		// Many a driver cannot bind where one that was killed has left its
		// socket. The directory is ours to tidy (COSI-157).
		Prepare: func() error { return plugin.RemoveStale(endpoint) },
	})
	return endpoint, nil
}

// connect waits until the driver has said its name, then wakes its claims. The
// client follows the driver through restarts by itself.
func (d *driver) connect(ctx context.Context, k *Keeper) {
	client, err := cosi.Dial(ctx, d.endpoint, cosi.DialLogger(k.log.With("driver", d.rec.Name)),
		cosi.DialGRPC(grpc.WithChainUnaryInterceptor(reportAttempt)))
	if err != nil {
		if ctx.Err() == nil {
			d.setTrouble(driverError(err).Message)
			k.log.Error("the driver cannot be used", "driver", d.rec.Name, "error", err)
		}
		return
	}
	d.client = client
	d.identify(k, client.Name())
	close(d.ready)
	k.log.Info("driver ready", "driver", d.rec.Name, "identity", client.Name(), "protocol", client.Protocol())
	k.kickAll(k.byDriver()[d.rec.Name])
}

// identify remembers the driver's own name, by which classes may call it
// (COSI-028), for the next start.
func (d *driver) identify(k *Keeper, identity string) {
	d.mu.Lock()
	known := d.rec.Identity
	d.rec.Identity = identity
	d.mu.Unlock()
	if known == identity {
		return
	}
	if err := k.cfg.Ledger.PutDriver(d.rec); err != nil {
		k.log.Error("the ledger cannot be written", "driver", d.rec.Name, "error", err)
	}
}

func (d *driver) stop() {
	if d.cancel == nil {
		return
	}
	d.cancel()
	if d.child != nil {
		d.child.Stop()
	}
	<-d.done
	if d.client != nil {
		_ = d.client.Close()
	}
}

func (d *driver) setTrouble(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trouble = s
}

// status is the driver as the API shows it.
func (d *driver) status() claim.Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.rec
	s.Message = d.trouble
	if d.child != nil {
		state := d.child.State()
		s.PID, s.Restarts = state.PID, state.Restarts
		if state.Message != "" {
			s.Message = state.Message
		}
	}
	select {
	case <-d.ready:
		s.State, s.Protocol = "Ready", d.client.Protocol()
		if d.child != nil && s.PID == 0 {
			s.State = "BackOff"
		}
	default:
		s.State = "Starting"
		if s.Message == "" && !d.since.IsZero() && time.Since(d.since) > patience {
			s.Message = "nothing answers at " + d.endpoint
		}
		if s.Message != "" {
			s.State = "Unreachable"
		}
	}
	return s
}

// get finds a driver by the name it has here or the one it gives itself.
func (ds *drivers) get(name string) (*driver, error) {
	ds.mu.RLock()
	defer ds.mu.RUnlock()
	if d := ds.m[name]; d != nil {
		return d, nil
	}
	for _, d := range ds.m {
		if d.status().Identity == name {
			return d, nil
		}
	}
	return nil, claim.Errorf(claim.CodeNotFound, "there is no driver %q", name).
		WithHint("add it with: fairlead driver add NAME unix:///path/to/cosi.sock")
}

// list is all drivers, by name.
func (ds *drivers) list() []claim.Driver {
	ds.mu.RLock()
	defer ds.mu.RUnlock()
	list := make([]claim.Driver, 0, len(ds.m))
	for _, name := range slices.Sorted(maps.Keys(ds.m)) {
		list = append(list, ds.m[name].status())
	}
	return list
}

// errNotReady says that a driver has not yet answered. Its claims are woken
// when it does.
var errNotReady = errors.New("is not ready")

// call runs fn with the driver's client, within callTime.
func (ds *drivers) call(ctx context.Context, name string, fn func(context.Context, *cosi.Client) error) error {
	d, err := ds.get(name)
	if err != nil {
		return err
	}
	select {
	case <-d.ready:
	default:
		if m := d.status().Message; m != "" {
			return fmt.Errorf("driver %q %w: %s", name, errNotReady, m)
		}
		return fmt.Errorf("driver %q %w", name, errNotReady)
	}
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-d.slots }()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	defer reportSilence(ctx, name)()
	return fn(ctx, d.client)
}

// Drivers lists the drivers and how they are.
func (k *Keeper) Drivers() []claim.Driver { return k.drivers.list() }

// AddDriver adds a driver, or answers with the one that is configured so
// already, and waits until it has said its name or ctx ends.
func (k *Keeper) AddDriver(ctx context.Context, name, endpoint string, argv []string) (claim.Driver, error) {
	rec := claim.Driver{Name: name, Endpoint: endpoint, Exec: argv}
	if err := checkDriver(rec); err != nil {
		return claim.Driver{}, err
	}
	d, err := k.drivers.add(rec)
	if err != nil {
		return claim.Driver{}, err
	}
	select {
	case <-d.ready:
		return d.status(), nil
	case <-d.done:
		select {
		case <-d.ready:
			return d.status(), nil
		default:
		}
	case <-k.ctx.Done():
		return d.status(), errStopping
	case <-ctx.Done():
	}
	s := d.status()
	message := fmt.Sprintf("driver %q has not answered yet", name)
	if s.Message != "" {
		message += ": " + s.Message
	}
	return s, (&claim.Error{Code: claim.CodeTimeout, Message: message}).WithHint("it is kept and tried on; see: fairlead driver list; fairlead driver log %s", name)
}

func checkDriver(rec claim.Driver) error {
	if err := claim.CheckName("a driver", rec.Name); err != nil {
		return err
	}
	if (rec.Endpoint == "") == (len(rec.Exec) == 0) {
		return claim.Errorf(claim.CodeInvalid, "a driver needs either an endpoint or a command")
	}
	if rec.Endpoint != "" {
		if _, err := plugin.ParseEndpoint(rec.Endpoint); err != nil {
			return claim.Errorf(claim.CodeInvalid, "%v", err)
		}
		return nil
	}
	if !filepath.IsAbs(rec.Exec[0]) {
		return claim.Errorf(claim.CodeInvalid, "the driver's command %q must be an absolute path", rec.Exec[0])
	}
	return nil
}

func (ds *drivers) add(rec claim.Driver) (*driver, error) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if d := ds.m[rec.Name]; d != nil {
		if d.rec.Endpoint == rec.Endpoint && slices.Equal(d.rec.Exec, rec.Exec) {
			return d, nil
		}
		return nil, claim.Errorf(claim.CodeConflict, "there is a driver %q already, configured otherwise", rec.Name).
			WithHint("fairlead driver remove %s", rec.Name)
	}
	if err := ds.k.cfg.Ledger.PutDriver(rec); err != nil {
		return nil, err
	}
	d := newDriver(rec)
	ds.m[rec.Name] = d
	ds.run(d)
	return d, nil
}

// RemoveDriver stops and forgets a driver that no claim uses.
func (k *Keeper) RemoveDriver(name string) error {
	d, err := k.drivers.get(name)
	if err != nil {
		return err
	}
	if d.rec.BuiltIn {
		return claim.Errorf(claim.CodeInvalid, "driver %q is built in and stays", name)
	}
	for _, e := range k.entries() {
		if rec := e.rec.Load(); rec != nil && rec.Claim.Driver == d.rec.Name {
			return claim.Errorf(claim.CodeInUse, "driver %q has claims, %q among them", name, e.name).
				WithHint("fairlead release %s", e.name)
		}
	}
	k.drivers.mu.Lock()
	delete(k.drivers.m, d.rec.Name)
	k.drivers.mu.Unlock()
	d.stop() // first: it must not write itself back into the ledger
	return k.cfg.Ledger.DeleteDriver(d.rec.Name)
}

// DriverLog is the end of what a supervised driver printed.
func (k *Keeper) DriverLog(name string) (string, error) {
	d, err := k.drivers.get(name)
	if err != nil {
		return "", err
	}
	if d.child == nil {
		return "", claim.Errorf(claim.CodeInvalid, "driver %q is run by somebody else; Fairlead does not see its output", name)
	}
	return d.child.Log(), nil
}
