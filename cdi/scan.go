package cdi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// racyWindow is how coarse a file system's clock may be: a file changed that
// shortly before it was read may change again and look the same.
const racyWindow = 20 * time.Millisecond

// isSpecName tells the names of the files that readers take up.
func isSpecName(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".json" || ext == ".yaml"
}

func identify(st *unix.Stat_t) identity {
	return identity{int64(st.Dev), int64(st.Ino), st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
}

// scanner of directories: files that are known and look the same are kept, the
// others are read.
type scan struct {
	now  time.Time
	jobs []*file // to be read, placeholders as yet
}

// directory lists a spec directory. known are its files as they were.
func (s *scan) directory(d *specDir, known map[string]*file) *dirState {
	state := &dirState{dir: d, files: map[string]*file{}}
	dir, err := os.OpenFile(d.path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		state.err = err
		return state
	}
	defer dir.Close()
	// Reading the names as entries tells links apart without a look at each.
	entries, err := dir.ReadDir(-1)
	if err != nil {
		state.err = err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !isSpecName(e.Name()) })
	same := make([]*file, len(entries))
	fd := int(dir.Fd())
	spread(len(entries), 256, func() func(int) {
		return func(i int) { same[i] = unchanged(known[entries[i].Name()], entries[i], fd) }
	})
	state.files = make(map[string]*file, len(entries))
	for i, e := range entries {
		f := same[i]
		if f == nil {
			f = &file{dir: d, name: e.Name(), link: isLink(e)}
			s.jobs = append(s.jobs, f)
		}
		state.files[f.name] = f
	}
	return state
}

func isLink(e os.DirEntry) bool { return e.Type()&os.ModeSymlink != 0 }

// unchanged is the known file if that is what the entry of a directory is still,
// else nil.
func unchanged(known *file, e os.DirEntry, dirfd int) *file {
	if known == nil || known.racy || known.link != isLink(e) {
		return nil
	}
	var st unix.Stat_t
	if unix.Fstatat(dirfd, known.name, &st, 0) != nil || identify(&st) != known.id {
		return nil
	}
	return known
}

// spread calls do for each number below n, on as many processors as get at least
// that much to do. Each has a do of its own.
func spread(n, least int, worker func() (do func(i int))) {
	var next atomic.Int64
	work := func() {
		do := worker()
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			do(i)
		}
	}
	var others sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n/least+1) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
}

// one looks at a single name of a directory; nil means that it is gone.
func (s *scan) one(d *specDir, name string) *file {
	fi, err := os.Lstat(filepath.Join(d.path, name))
	if err != nil && errors.Is(err, os.ErrNotExist) {
		return nil
	}
	f := &file{dir: d, name: name, link: err == nil && fi.Mode()&os.ModeSymlink != 0}
	s.jobs = append(s.jobs, f)
	return f
}

// read reads all files that are to be read.
func (s *scan) read() {
	spread(len(s.jobs), 8, func() func(int) {
		var r reader
		return func(i int) { r.read(s.jobs[i], s.now) }
	})
}

// settle takes the known file where what was read is as wrong as it was.
func (s *scan) settle(state *dirState, known map[string]*file) {
	for _, f := range s.jobs {
		was := known[f.name]
		if f.dir == state.dir && was != nil && was.bad != nil && f.bad != nil && !was.racy && !f.racy &&
			was.id == f.id && was.link == f.link && was.bad.Error() == f.bad.Error() {
			state.files[f.name] = was
		}
	}
}

// reader reads file after file into the same memory: of each only the kind and
// the names of the devices are kept.
type reader struct {
	decoder decoder
	buf     []byte
}

func (r *reader) read(f *file, now time.Time) {
	path := f.path()
	text, st, err := readText(path, r.buf)
	if st != nil {
		f.id = identify(st)
		f.racy = now.Sub(time.Unix(0, f.id.ctime)) < racyWindow // mtime says what its owner likes
	}
	if err != nil {
		f.bad = err
		return
	}
	r.buf = text
	r.decoder.reset()
	if err := r.decoder.parse(path, unsafeString(text)); err != nil {
		f.bad = err
		return
	}
	f.names(&r.decoder.spec)
}

// names copies the kind and the devices' names, in one piece of memory.
func (f *file) names(s *Spec) {
	var b strings.Builder
	size := len(s.Kind)
	for i := range s.Devices {
		size += len(s.Devices[i].Name)
	}
	b.Grow(size)
	b.WriteString(s.Kind)
	for i := range s.Devices {
		b.WriteString(s.Devices[i].Name)
	}
	all := b.String()
	f.kind, all = all[:len(s.Kind)], all[len(s.Kind):]
	f.devices = make([]string, len(s.Devices))
	for i := range s.Devices {
		n := len(s.Devices[i].Name)
		f.devices[i], all = all[:n], all[n:]
	}
}

// errChanged says that a file is no longer what the snapshot knows.
var errChanged = errors.New("the spec file has changed")

// load reads the whole spec of a file that is still the one of the snapshot.
func (f *file) load() (*Spec, error) {
	path := f.path()
	text, st, err := readText(path, nil)
	if err != nil { // it could be read when the snapshot was made
		return nil, fmt.Errorf("%w: %w", errChanged, err)
	}
	if identify(st) != f.id {
		return nil, fmt.Errorf("read %s: %w", path, errChanged)
	}
	var d decoder
	if err := d.parse(path, unsafeString(text)); err != nil {
		return nil, err
	}
	return &d.spec, nil
}
