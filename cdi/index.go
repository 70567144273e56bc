package cdi

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// DefaultDirs are the spec directories where nothing else is said: those of the
// host's configuration and, with the higher priority, those of what runs now.
var DefaultDirs = []string{"/etc/cdi", "/var/run/cdi"}

// Index finds devices in spec directories. Its methods may be called at once
// from anywhere; lookups take no lock and never wait for a directory to be read,
// but for the first.
type Index struct {
	dirs  []*specDir
	state string // file of the persisted index; "" for none

	current atomic.Pointer[Snapshot]
	refresh sync.Mutex // held while the next snapshot is made
	cache   specCache
}

// Option changes an Index.
type Option func(*Index)

// WithState keeps what is known of the spec files in a file, so that the next
// process need not read those that have not changed. The file is the caller's
// own; if it is damaged, or somebody else can write it, it is not used. That it
// cannot be written is no error.
func WithState(path string) Option { return func(x *Index) { x.state = path } }

// NewIndex makes an index of directories, the one with the lowest priority
// first; none means DefaultDirs. Nothing is read yet.
func NewIndex(dirs []string, options ...Option) *Index {
	if len(dirs) == 0 {
		dirs = DefaultDirs
	}
	x := &Index{}
	for i, path := range dirs {
		x.dirs = append(x.dirs, &specDir{filepath.Clean(path), i})
	}
	for _, o := range options {
		o(x)
	}
	return x
}

// Snapshot is what is known now; the first call reads the directories.
func (x *Index) Snapshot() *Snapshot {
	if s := x.current.Load(); s != nil {
		return s
	}
	x.refresh.Lock()
	defer x.refresh.Unlock()
	if x.current.Load() == nil {
		x.scanAll()
	}
	return x.current.Load()
}

// Refresh takes up what has changed in the directories since the last time. It
// looks at every file and reads those that changed. What is wrong with a file or
// directory is in the Errors of the snapshot.
func (x *Index) Refresh() {
	x.refresh.Lock()
	defer x.refresh.Unlock()
	x.scanAll()
}

// scanAll makes a snapshot of all directories.
func (x *Index) scanAll() {
	old := x.current.Load()
	known := make([]map[string]*file, len(x.dirs))
	first := old == nil
	if first {
		old = &Snapshot{dirs: make([]*dirState, len(x.dirs))}
		known = readState(x.state, x.dirs)
	} else {
		for i, d := range old.dirs {
			known[i] = d.files
		}
	}
	s := scan{now: time.Now()}
	states := make([]*dirState, len(x.dirs))
	for i, d := range x.dirs {
		states[i] = s.directory(d, known[i])
	}
	s.read()
	b := newBuilder(old)
	if first {
		b.expect(states)
	}
	changed, lasting := false, false
	for i, state := range states {
		if len(s.jobs) > 0 || len(state.files) != len(known[i]) {
			s.settle(state, known[i])
			changed = changed || differ(state.files, known[i], func(*file) bool { return true })
			lasting = lasting || differ(state.files, known[i], (*file).lasting)
		}
		b.setDir(i, state)
	}
	if first || changed || !sameErrors(old, b.next) {
		x.publish(b.next)
	}
	if lasting && x.state != "" {
		_ = writeState(x.state, b.next) // the next process reads more, that is all
	}
}

// differ tells whether two lists of files differ in those that matter.
func differ(a, b map[string]*file, matters func(*file) bool) bool {
	count := 0
	for name, f := range a {
		if matters(f) {
			if count++; b[name] != f {
				return true
			}
		}
	}
	for _, f := range b {
		if matters(f) {
			count--
		}
	}
	return count != 0
}

func sameErrors(a, b *Snapshot) bool {
	for i := range a.dirs {
		x, y := a.dirs[i].err, b.dirs[i].err
		if (x == nil) != (y == nil) || x != nil && x.Error() != y.Error() {
			return false
		}
	}
	return true
}

// refreshFiles takes up some files of a directory by name.
func (x *Index) refreshFiles(names map[int]map[string]bool) {
	x.refresh.Lock()
	defer x.refresh.Unlock()
	old := x.current.Load()
	s := scan{now: time.Now()}
	changed := make(map[int]map[string]*file, len(names))
	for i, set := range names {
		changed[i] = make(map[string]*file, len(set))
		for name := range set {
			changed[i][name] = s.one(x.dirs[i], name)
		}
	}
	s.read()
	b := newBuilder(old)
	for i, files := range changed {
		b.setFiles(i, files)
	}
	x.publish(b.next)
}

func (x *Index) publish(next *Snapshot) {
	if next.replaced == nil {
		next.replaced = make(chan struct{})
	}
	if old := x.current.Swap(next); old != nil {
		close(old.replaced)
	}
}

// Resolve finds devices by their qualified names, and their specs. The specs are
// shared and must not be changed. The error tells of every device that cannot be
// had, and wraps ErrUnknownKind, ErrUnknownDevice, ErrAmbiguous or ErrInvalid for
// each.
func (x *Index) Resolve(devices ...string) ([]Ref, error) {
	l := lookup{refs: make([]Ref, 0, len(devices))}
	if err := x.resolve(&l, devices); err != nil {
		return nil, err
	}
	return l.refs, nil
}

// lookup is one call of Resolve.
type lookup struct {
	refs []Ref
	// Of each file there is one spec throughout, whatever leaves the cache
	// meanwhile: its edits are to be made once. held has those before the last.
	held map[*file]*Spec
	last *file
	spec *Spec
}

func (l *lookup) reset() {
	clear(l.refs)
	clear(l.held)
	*l = lookup{refs: l.refs[:0], held: l.held}
}

func (x *Index) resolve(l *lookup, devices []string) error {
	const attempts = 5 // against files that change while they are looked up
	for i := 0; ; i++ {
		err := l.resolve(x.Snapshot(), &x.cache, devices)
		if i == attempts || !errors.Is(err, errChanged) {
			return err
		}
		l.reset()
		x.Refresh()
	}
}

func (l *lookup) resolve(s *Snapshot, cache *specCache, devices []string) error {
	var errs []error
	for _, device := range devices {
		f, key, err := s.find(device)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err := l.load(f, cache); err != nil {
			errs = append(errs, fmt.Errorf("device %q: %w", device, err))
			continue
		}
		d := l.spec.device(key.name)
		if d == nil || l.spec.Kind != key.kind {
			// It was changed so quickly that it looks the same.
			errs = append(errs, fmt.Errorf("device %q: %s: %w", device, f.path(), errChanged))
			continue
		}
		l.refs = append(l.refs, Ref{l.spec, d})
	}
	return errors.Join(errs...)
}

// load makes spec that of the file.
func (l *lookup) load(f *file, cache *specCache) (err error) {
	if f == l.last {
		return nil
	}
	if l.last != nil {
		if l.held == nil {
			l.held = map[*file]*Spec{}
		}
		l.held[l.last] = l.spec
	}
	spec := l.held[f]
	if spec == nil {
		if spec, err = cache.get(f); err != nil {
			return err
		}
	}
	l.last, l.spec = f, spec
	return nil
}

// device is the device of that name, or nil.
func (s *Spec) device(name string) *Device {
	for i := range s.Devices {
		if s.Devices[i].Name == name {
			return &s.Devices[i]
		}
	}
	return nil
}

// Inject makes the edits of the named devices in a container's configuration, as
// the function Inject does. On error c is as it was.
func (x *Index) Inject(c *oci.Spec, devices ...string) error {
	in := newInjection()
	defer in.release()
	if err := x.resolve(&in.lookup, devices); err != nil {
		return err
	}
	return in.run(c, in.lookup.refs)
}

// specCache keeps the specs that were asked for last, up to a size: what the
// many others hold is read when it is needed.
type specCache struct {
	mu    sync.Mutex
	files []*file // in the order in which they were read
	bytes int64   // size of their texts
}

const maxCached = 8 << 20

func (c *specCache) get(f *file) (*Spec, error) {
	if s := f.spec.Load(); s != nil {
		return s, nil
	}
	s, err := f.load()
	if err != nil {
		return nil, err
	}
	if !f.spec.CompareAndSwap(nil, s) {
		return s, nil // somebody else was quicker; either will do
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files = append(c.files, f)
	c.bytes += f.id.size
	for c.bytes > maxCached && len(c.files) > 1 {
		oldest := c.files[0]
		c.files[0] = nil
		c.files = c.files[1:]
		c.bytes -= oldest.id.size
		oldest.spec.Store(nil)
	}
	return s, nil
}
