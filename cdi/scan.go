package cdi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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
	state.files = make(map[string]*file, len(entries))
	for _, e := range entries {
		if name := e.Name(); isSpecName(name) {
			state.files[name] = s.file(d, name, e.Type()&os.ModeSymlink != 0, known[name], int(dir.Fd()))
		}
	}
	return state
}

// file is the known file if it is the same still, else one to be read.
func (s *scan) file(d *specDir, name string, link bool, known *file, dirfd int) *file {
	if known != nil && !known.racy && known.link == link {
		var st unix.Stat_t
		if unix.Fstatat(dirfd, name, &st, 0) == nil && identify(&st) == known.id {
			return known
		}
	}
	f := &file{dir: d, name: name, link: link}
	s.jobs = append(s.jobs, f)
	return f
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

// read reads all files that are to be read, on all processors.
func (s *scan) read() {
	workers := min(runtime.GOMAXPROCS(0), len(s.jobs)/8+1)
	var next atomic.Int64
	work := func() {
		var r reader
		for {
			i := int(next.Add(1)) - 1
			if i >= len(s.jobs) {
				return
			}
			r.read(s.jobs[i], s.now)
		}
	}
	var others sync.WaitGroup
	for range workers - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
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
		f.racy = now.Sub(time.Unix(0, max(f.id.mtime, f.id.ctime))) < racyWindow
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
	if st != nil && identify(st) != f.id || errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", path, errChanged)
	}
	if err != nil {
		return nil, err
	}
	var d decoder
	if err := d.parse(path, unsafeString(text)); err != nil {
		return nil, err
	}
	return &d.spec, nil
}
