package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/bits"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
)

// Errors of a device that cannot be had.
var (
	ErrUnknownKind   = errors.New("no CDI spec is of that kind")        // CDI-123
	ErrUnknownDevice = errors.New("no CDI spec has that device")        // CDI-124
	ErrAmbiguous     = errors.New("several CDI specs have that device") // at one priority
)

// Snapshot is what the spec directories held at one moment. It never changes and
// is read without a lock.
type Snapshot struct {
	dirs     []*dirState
	shards   [shardCount]shard
	replaced chan struct{}
}

// dirState is one spec directory: what is wrong with it, and its spec files by
// name, the invalid ones included.
type dirState struct {
	dir   *specDir
	err   error
	files map[string]*file
}

// specDir is a directory with its priority: the later in the list, the higher.
type specDir struct {
	path     string
	priority int
}

// identity tells one content of a file from the next.
type identity struct {
	dev, ino, size int64
	mtime, ctime   int64 // nanoseconds
}

// file is one content of one spec file. All but its cached spec is fixed.
type file struct {
	dir     *specDir
	name    string
	id      identity
	kind    string
	devices []string
	// bad is what is wrong with the file; it has no devices then.
	bad error
	// link says that the name is a symbolic link, and racy that the file was so
	// young when it was read that a change just after might not show in id.
	link, racy bool

	spec atomic.Pointer[Spec]
}

func (f *file) path() string { return filepath.Join(f.dir.path, f.name) }

// builder makes the next snapshot from one before.
type builder struct {
	next   *Snapshot
	copied [shardCount]bool
	hint   int // how many devices a new shard is likely to get
}

func newBuilder(old *Snapshot) *builder {
	b := &builder{next: &Snapshot{replaced: make(chan struct{})}}
	b.next.dirs = slices.Clone(old.dirs)
	b.next.shards = old.shards
	return b
}

// expect makes room for the devices of these directories.
func (b *builder) expect(states []*dirState) {
	devices := 0
	for _, state := range states {
		for _, f := range state.files {
			devices += len(f.devices)
		}
	}
	b.hint = devices / shardCount * 5 / 4 // they are not spread evenly
}

// setDir takes over a directory's new state: the devices of files that are gone
// or changed go, those of new ones come.
func (b *builder) setDir(i int, state *dirState) {
	old := b.next.dirs[i]
	b.next.dirs[i] = state
	if old != nil {
		for name, f := range old.files {
			if state.files[name] != f {
				b.drop(f)
			}
		}
	}
	for name, f := range state.files {
		if old == nil || old.files[name] != f {
			b.add(f)
		}
	}
}

// setFiles changes some files of a directory; nil is for one that is gone.
func (b *builder) setFiles(i int, changed map[string]*file) {
	old := b.next.dirs[i]
	state := &dirState{dir: old.dir, err: old.err, files: maps.Clone(old.files)}
	for name, f := range changed {
		if was := old.files[name]; was != nil {
			b.drop(was)
		}
		if f == nil {
			delete(state.files, name)
			continue
		}
		state.files[name] = f
		b.add(f)
	}
	b.next.dirs[i] = state
}

// own makes a shard the builder's own.
func (b *builder) own(n int) *shard {
	s := &b.next.shards[n]
	if !b.copied[n] {
		b.copied[n] = true
		s.entries = slices.Clone(s.entries)
		if len(s.entries) == 0 && b.hint > 0 {
			s.resize(1 << bits.Len(uint(b.hint*4/3)))
		}
	}
	return s
}

func (b *builder) add(f *file) {
	for i := range f.devices {
		n, e := f.entry(i)
		b.own(n).add(e)
	}
}

func (b *builder) drop(f *file) {
	for i := range f.devices {
		n, e := f.entry(i)
		b.own(n).drop(e)
	}
}

func (s *Snapshot) slot(key deviceKey) slot {
	n, rest := shardOf(key.hash())
	return s.shards[n].find(key, rest)
}

// find is the file that a device is taken from.
func (s *Snapshot) find(device string) (*file, deviceKey, error) {
	kind, name, _ := strings.Cut(device, "=")
	key := deviceKey{kind, name}
	slot := s.slot(key)
	if slot.first == nil {
		return nil, key, s.unknown(device, key)
	}
	f, rivals := slot.winner()
	if f == nil {
		return nil, key, fmt.Errorf("device %q: %w: %s; remove one, or the device from it", device, ErrAmbiguous, strings.Join(paths(rivals), ", "))
	}
	return f, key, nil
}

func paths(files []*file) []string {
	list := make([]string, len(files))
	for i, f := range files {
		list[i] = f.path()
	}
	slices.Sort(list)
	return list
}

// unknown says why there is no such device.
func (s *Snapshot) unknown(device string, key deviceKey) error {
	if _, _, _, err := ParseDevice(device); err != nil {
		return err
	}
	return &unknownError{s, device, key.kind}
}

// unknownError looks through the snapshot only when it is asked: who waits for a
// device to appear, and looks it up again and again, does not care.
type unknownError struct {
	snapshot     *Snapshot
	device, kind string
}

// Is tells ErrUnknownDevice from ErrUnknownKind, and knows no others.
func (e *unknownError) Is(target error) bool {
	return (target == ErrUnknownDevice || target == ErrUnknownKind) && target == e.reason()
}

func (e *unknownError) reason() error {
	for i := range e.snapshot.shards {
		for key := range e.snapshot.shards[i].all {
			if key.kind == e.kind {
				return ErrUnknownDevice
			}
		}
	}
	return ErrUnknownKind
}

func (e *unknownError) Error() string {
	var hint string
	if bad := len(e.snapshot.Errors()); bad > 0 {
		hint = fmt.Sprintf(" (%d of the spec files or directories cannot be used)", bad)
	}
	if names := e.snapshot.namesOf(e.kind); len(names) > 0 {
		hint += "; there are " + abbreviated(names)
	}
	return fmt.Sprintf("device %q: %v%s", e.device, e.reason(), hint)
}

// namesOf are the devices of one kind.
func (s *Snapshot) namesOf(kind string) []string {
	var names []string
	for i := range s.shards {
		for key := range s.shards[i].all {
			if key.kind == kind {
				names = append(names, key.name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func abbreviated(names []string) string {
	if len(names) > 8 {
		return strings.Join(names[:8], ", ") + fmt.Sprintf(" and %d more", len(names)-8)
	}
	return strings.Join(names, ", ")
}

// Devices are the qualified names of all devices that can be injected, sorted.
func (s *Snapshot) Devices() []string {
	var list []string
	for i := range s.shards {
		for key, slot := range s.shards[i].all {
			if f, _ := slot.winner(); f != nil {
				list = append(list, QualifiedName(key.kind, key.name))
			}
		}
	}
	slices.Sort(list)
	return list
}

// Kinds are the kinds of all valid specs, sorted.
func (s *Snapshot) Kinds() []string {
	kinds := map[string]bool{}
	for _, d := range s.dirs {
		for _, f := range d.files {
			if f.bad == nil {
				kinds[f.kind] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(kinds))
}

// SpecFile is one valid spec file.
type SpecFile struct {
	Path    string
	Kind    string
	Devices []string // their names, in the order of the file
}

// Specs are all valid spec files: by directory in the order of priority, lowest
// first, and by name.
func (s *Snapshot) Specs() []SpecFile {
	var list []SpecFile
	for _, d := range s.dirs {
		for _, name := range slices.Sorted(maps.Keys(d.files)) {
			if f := d.files[name]; f.bad == nil {
				list = append(list, SpecFile{f.path(), f.kind, slices.Clone(f.devices)})
			}
		}
	}
	return list
}

// Errors say why a spec file, or a directory, is not used, by path. That a
// directory is absent is no error.
func (s *Snapshot) Errors() map[string]error {
	errs := map[string]error{}
	for _, d := range s.dirs {
		if d.err != nil && !errors.Is(d.err, fs.ErrNotExist) {
			errs[d.dir.path] = d.err
		}
		for _, f := range d.files {
			if f.bad != nil {
				errs[f.path()] = f.bad
			}
		}
	}
	return errs
}

// Explanation says where a device comes from.
type Explanation struct {
	// File is the spec file that wins; "" if there is none or several.
	File string
	// Rivals have the device at the same, highest priority: it is disabled.
	Rivals []string
	// Shadowed have it at a lower priority.
	Shadowed []string
}

// Explain says which file a device is taken from and which it hides. The error
// is that of Resolve.
func (s *Snapshot) Explain(device string) (Explanation, error) {
	var e Explanation
	_, key, err := s.find(device)
	slot := s.slot(key)
	if slot.first == nil {
		return e, err
	}
	winner, rivals := slot.winner()
	if winner != nil {
		e.File = winner.path()
	}
	e.Rivals = paths(rivals)
	for _, f := range slot.files() {
		if f != winner && !slices.Contains(rivals, f) {
			e.Shadowed = append(e.Shadowed, f.path())
		}
	}
	slices.Sort(e.Shadowed)
	return e, err
}

// Replaced is closed when there is a newer snapshot.
func (s *Snapshot) Replaced() <-chan struct{} { return s.replaced }
