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
	changed := len(s.jobs) > 0
	for i, state := range states {
		changed = changed || len(state.files) != len(known[i])
		b.setDir(i, state)
	}
	if first || changed || !sameErrors(old, b.next) {
		x.publish(b.next)
	}
	if changed && x.state != "" {
		_ = writeState(x.state, b.next) // the next process reads more, that is all
	}
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
	const attempts = 5 // against files that change while they are looked up
	for i := 0; ; i++ {
		refs, err := x.resolve(x.Snapshot(), devices)
		if i == attempts || !errors.Is(err, errChanged) {
			return refs, err
		}
		x.Refresh()
	}
}

func (x *Index) resolve(s *Snapshot, devices []string) ([]Ref, error) {
	refs := make([]Ref, 0, len(devices))
	// One spec for each file throughout, whatever leaves the cache meanwhile:
	// its edits are to be made once.
	var held map[*file]*Spec
	if len(devices) > 1 {
		held = make(map[*file]*Spec, min(len(devices), 64))
	}
	var errs []error
	for _, device := range devices {
		f, key, err := s.find(device)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		spec := held[f]
		if spec == nil {
			if spec, err = x.cache.get(f); err != nil {
				errs = append(errs, fmt.Errorf("device %q: %w", device, err))
				continue
			}
			if held != nil {
				held[f] = spec
			}
		}
		d := spec.device(key.name)
		if d == nil || spec.Kind != key.kind {
			// It was changed so quickly that it looks the same.
			errs = append(errs, fmt.Errorf("device %q: %s: %w", device, f.path(), errChanged))
			continue
		}
		refs = append(refs, Ref{spec, d})
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return refs, nil
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
	refs, err := x.Resolve(devices...)
	if err != nil {
		return err
	}
	return Inject(c, refs...)
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
