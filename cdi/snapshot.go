package cdi

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
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
	shards   [shardCount]map[deviceKey]slot
	replaced chan struct{}
}

// Devices are spread over many maps, so that a change copies but a few of them.
const shardCount = 256

type deviceKey struct{ kind, name string }

var shardSeed = maphash.MakeSeed()

func (k deviceKey) shard() int {
	return int((maphash.String(shardSeed, k.kind)*31 + maphash.String(shardSeed, k.name)) % shardCount)
}

// slot holds the files that have a device: nearly always one.
type slot struct {
	first *file
	more  []*file
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
	b.hint = devices / shardCount * 5 / 4
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

// own makes the shard of a key the builder's own.
func (b *builder) own(key deviceKey) map[deviceKey]slot {
	n := key.shard()
	if !b.copied[n] {
		b.copied[n] = true
		if b.next.shards[n] = maps.Clone(b.next.shards[n]); b.next.shards[n] == nil {
			b.next.shards[n] = make(map[deviceKey]slot, b.hint)
		}
	}
	return b.next.shards[n]
}

func (b *builder) add(f *file) {
	for _, name := range f.devices {
		key := deviceKey{f.kind, name}
		shard := b.own(key)
		if s := shard[key]; s.first == nil {
			shard[key] = slot{first: f}
		} else {
			shard[key] = slot{s.first, append(slices.Clip(s.more), f)}
		}
	}
}

func (b *builder) drop(f *file) {
	for _, name := range f.devices {
		key := deviceKey{f.kind, name}
		shard := b.own(key)
		left := slices.DeleteFunc(shard[key].files(), func(other *file) bool { return other == f })
		if len(left) == 0 {
			delete(shard, key)
		} else {
			shard[key] = slot{left[0], left[1:]}
		}
	}
}

// files are a copy of all files of the slot.
func (s slot) files() []*file {
	if s.first == nil {
		return nil
	}
	return append([]*file{s.first}, s.more...)
}

// winner is the file with the highest priority. Where several have that, rivals
// are all of them: the device is disabled, and nothing else is.
func (s slot) winner() (f *file, rivals []*file) {
	f = s.first
	for _, other := range s.more {
		if other.dir.priority > f.dir.priority {
			f = other
		}
	}
	for _, other := range s.more {
		if other != f && other.dir.priority == f.dir.priority || s.first != f && s.first.dir.priority == f.dir.priority {
			for _, one := range s.files() {
				if one.dir.priority == f.dir.priority {
					rivals = append(rivals, one)
				}
			}
			return nil, rivals
		}
	}
	return f, nil
}

// find is the file that a device is taken from.
func (s *Snapshot) find(device string) (*file, deviceKey, error) {
	kind, name, _ := strings.Cut(device, "=")
	key := deviceKey{kind, name}
	slot, ok := s.shards[key.shard()][key]
	if !ok {
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
	var hint string
	if bad := len(s.Errors()); bad > 0 {
		hint = fmt.Sprintf(" (%d of the spec files or directories cannot be used)", bad)
	}
	names := s.namesOf(key.kind)
	if len(names) == 0 {
		return fmt.Errorf("device %q: %w%s", device, ErrUnknownKind, hint)
	}
	return fmt.Errorf("device %q: %w%s; there are %s", device, ErrUnknownDevice, hint, abbreviated(names))
}

// namesOf are the devices of one kind.
func (s *Snapshot) namesOf(kind string) []string {
	var names []string
	for _, shard := range s.shards {
		for key := range shard {
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
	for _, shard := range s.shards {
		for key, slot := range shard {
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
	slot, ok := s.shards[key.shard()][key]
	if !ok {
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
