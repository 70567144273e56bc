package cdi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Changes often come in groups: a snapshot is made when nothing more has come
// for settle, or at last after patience.
const (
	settle   = 2 * time.Millisecond
	patience = 8 * time.Millisecond
	// pollEvery is how often the directories are looked at where the kernel
	// cannot tell of changes.
	pollEvery = time.Second
)

// Watch keeps the index up to date until ctx ends, and returns nil then. It
// follows directories that appear later, links on the way to a directory or file
// (such as a ConfigMap's ..data) and what they lead to. Without inotify, or where
// that fails, it looks at the directories every second. What the kernel tells
// nobody, such as a change on another machine or a file system mounted over a
// directory, is seen with the next Refresh.
func (x *Index) Watch(ctx context.Context) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return x.poll(ctx)
	}
	defer w.Close()
	watching := watcher{index: x, fsn: w, infos: map[string]os.FileInfo{}}
	watching.follow()
	x.Refresh()
	for {
		watching.follow()
		if err := watching.wait(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		watching.apply()
	}
}

func (x *Index) poll(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		x.Refresh()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// watcher turns the kernel's events into changes of the index.
type watcher struct {
	index *Index
	fsn   *fsnotify.Watcher
	// names are those that matter in each watched directory, besides those of
	// spec files in a spec directory.
	names map[string]map[string]bool
	infos map[string]os.FileInfo // of the directories when they were watched
	// real are the numbers of the spec directories that a watched one is: several
	// where they lead to the same.
	real map[string][]int

	// blind says that a directory cannot be watched, for lack of permission or
	// of watches: then all are looked at now and again too.
	blind bool

	all   bool // everything is to be looked at
	files map[int]map[string]bool
}

// follow brings the watches up to date with the links and directories there are.
// It repeats until it finds nothing new: what appeared before its directory was
// watched gave no event.
func (w *watcher) follow() {
	for range 10 {
		w.blind = false
		w.names, w.real = w.wanted()
		watched := map[string]bool{}
		for _, dir := range w.fsn.WatchList() {
			watched[dir] = true
			if w.names[dir] == nil {
				_ = w.fsn.Remove(dir) // it may be gone, and its watch with it
			}
		}
		maps.DeleteFunc(w.infos, func(dir string, _ os.FileInfo) bool { return w.names[dir] == nil })
		added := false
		for dir := range w.names {
			added = w.watch(dir, watched[dir]) || added
		}
		if !added {
			return
		}
		w.all = true
	}
}

// watch adds a watch unless there is one, and reports whether it did. A watch is
// of a directory and not of its name: where another directory has the name by
// now, because one above it was moved, the watch is of the wrong one.
func (w *watcher) watch(dir string, watched bool) bool {
	fi, err := os.Stat(dir)
	if err != nil {
		return false // it is gone again; the directory above it tells when it is back
	}
	if watched && w.infos[dir] != nil && os.SameFile(fi, w.infos[dir]) {
		return false
	}
	if watched {
		_ = w.fsn.Remove(dir)
	}
	if err := w.fsn.Add(dir); err != nil {
		w.blind = w.blind || !errors.Is(err, fs.ErrNotExist)
		return false
	}
	w.infos[dir] = fi
	return true
}

// wanted lists the directories to watch: the spec directories, and wherever a
// name stands on the way to one of them or to a file that one links to.
func (w *watcher) wanted() (names map[string]map[string]bool, real map[string][]int) {
	names, real = map[string]map[string]bool{}, map[string][]int{}
	on := func(path string) string {
		steps, end := chain(path)
		for _, s := range steps {
			if names[s.dir] == nil {
				names[s.dir] = map[string]bool{}
			}
			names[s.dir][s.name] = true
		}
		return end
	}
	snapshot := w.index.current.Load()
	for i, d := range w.index.dirs {
		end := on(d.path)
		if fi, err := os.Stat(end); err == nil && fi.IsDir() {
			real[end] = append(real[end], i)
			if names[end] == nil {
				names[end] = map[string]bool{}
			}
		}
		if snapshot == nil {
			continue
		}
		for name, f := range snapshot.dirs[i].files {
			if f.link {
				on(filepath.Join(d.path, name))
			}
		}
	}
	return names, real
}

// nameIn is a name in a directory that was free of links.
type nameIn struct{ dir, name string }

// chain is every name that is looked up on the way along path, links followed,
// and the path without links that it leads to. It ends at what does not exist.
func chain(path string) (steps []nameIn, end string) {
	if abs, err := filepath.Abs(path); err == nil { // a relative one begins here
		path = abs
	}
	at := "/"
	rest := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		steps = append(steps, nameIn{at, name})
		next := filepath.Join(at, name)
		target, err := os.Readlink(next)
		if err != nil { // no link, or nothing
			if _, err := os.Lstat(next); err != nil {
				return steps, filepath.Join(append([]string{next}, rest...)...)
			}
			at = next
			continue
		}
		if links++; links > 40 { // as the kernel has it
			return steps, next
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return steps, at
}

// wait collects events until they have settled.
func (w *watcher) wait(ctx context.Context) error {
	if w.all {
		return nil
	}
	var quiet, late, poll <-chan time.Time
	if w.blind {
		poll = time.After(pollEvery)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.fsn.Events:
			if !ok {
				return fmt.Errorf("watch spec directories: %w", fsnotify.ErrClosed)
			}
			if !w.note(e) {
				continue
			}
			quiet = time.After(settle)
			if late == nil {
				late = time.After(patience)
			}
		case err := <-w.fsn.Errors:
			// Events were lost, or worse: look at everything.
			if errors.Is(err, fsnotify.ErrClosed) {
				return fmt.Errorf("watch spec directories: %w", err)
			}
			w.all = true
			return nil
		case <-poll:
			w.all = true
			return nil
		case <-quiet:
			return nil
		case <-late:
			return nil
		}
	}
}

// note takes up one event and reports whether it matters.
func (w *watcher) note(e fsnotify.Event) bool {
	dir, name := filepath.Split(e.Name)
	dir = filepath.Clean(dir)
	if _, own := w.names[e.Name]; own && e.Has(fsnotify.Remove|fsnotify.Rename) {
		w.all = true // a watched directory itself is gone, or elsewhere
		return true
	}
	if w.names[dir][name] {
		w.all = true
		return true
	}
	if len(w.real[dir]) == 0 || !isSpecName(name) {
		return false
	}
	if w.files == nil {
		w.files = map[int]map[string]bool{}
	}
	for _, i := range w.real[dir] {
		if w.files[i] == nil {
			w.files[i] = map[string]bool{}
		}
		w.files[i][name] = true
	}
	return true
}

// apply makes the next snapshot of what was collected.
func (w *watcher) apply() {
	all, files := w.all, w.files
	w.all, w.files = false, nil
	switch {
	case all:
		w.index.Refresh()
	case files != nil:
		w.index.refreshFiles(files)
	}
}
