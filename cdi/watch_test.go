package cdi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// eventually waits for a condition, which each new snapshot may bring.
func eventually(t *testing.T, x *Index, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		s := x.Snapshot()
		if ok() {
			return
		}
		select {
		case <-s.Replaced():
		case <-deadline:
			t.Fatalf("%s: not seen; devices %v, errors %v", what, s.Devices(), s.Errors())
		}
	}
}

// watched runs Watch for the time of the test.
func watched(t *testing.T, dirs ...string) *Index {
	t.Helper()
	x := NewIndex(dirs)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- x.Watch(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return x
}

func TestWatch(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "later", "cdi")
	elsewhere := t.TempDir()
	x := watched(t, dir)
	sees := func(what, device, want string) {
		t.Helper()
		eventually(t, x, what, func() bool { return strings.Contains(from(x, device), want) })
	}
	sees("nothing", "v.com/c=d", "no CDI spec")
	putSpec(t, dir+"/a.json", "v.com/c", "1", "d")
	sees("a directory made later", "v.com/c=d", "1")
	putSpec(t, dir+"/a.json", "v.com/c", "2", "d")
	sees("a file replaced", "v.com/c=d", "2")
	text, err := os.ReadFile(dir + "/a.json")
	must(t, err)
	must(t, os.WriteFile(dir+"/a.json", []byte(strings.Replace(string(text), "FROM=2", "FROM=3", 1)), 0o644))
	sees("a file rewritten in place", "v.com/c=d", "3")
	putSpec(t, elsewhere+"/m.json", "v.com/m", "moved", "d")
	must(t, os.Rename(elsewhere+"/m.json", dir+"/m.json"))
	sees("a file moved in", "v.com/m=d", "moved")
	must(t, os.Link(dir+"/m.json", elsewhere+"/h.json"))
	must(t, os.Rename(dir+"/m.json", elsewhere+"/gone.json"))
	sees("a file moved out", "v.com/m=d", "no CDI spec")
	must(t, os.Link(elsewhere+"/h.json", dir+"/h.json"))
	sees("a hard link", "v.com/m=d", "moved")
	must(t, os.Remove(dir+"/h.json"))
	sees("a file removed", "v.com/m=d", "no CDI spec")

	putSpec(t, elsewhere+"/target.json", "v.com/l", "l1", "d")
	must(t, os.Symlink(elsewhere+"/target.json", dir+"/l.json"))
	sees("a link", "v.com/l=d", "l1")
	putSpec(t, elsewhere+"/target.json", "v.com/l", "l2", "d")
	sees("the target of a link", "v.com/l=d", "l2")
	must(t, os.Remove(elsewhere+"/target.json"))
	sees("the target gone", "v.com/l=d", "no CDI spec")
	putSpec(t, elsewhere+"/target.json", "v.com/l", "l3", "d")
	sees("the target back", "v.com/l=d", "l3")

	must(t, os.Rename(filepath.Join(base, "later"), filepath.Join(base, "away")))
	sees("the directory moved away", "v.com/c=d", "no CDI spec")
	putSpec(t, dir+"/a.json", "v.com/c", "4", "d")
	sees("another in its place", "v.com/c=d", "4")
	must(t, os.RemoveAll(dir))
	sees("the directory removed", "v.com/c=d", "no CDI spec")
}

// TestWatchConfigMap: kubelet changes all files by swapping one link.
func TestWatchConfigMap(t *testing.T) {
	dir := t.TempDir()
	version := func(n string) string {
		putSpec(t, filepath.Join(dir, "..v"+n, "a.json"), "v.com/c", n, "d")
		return "..v" + n
	}
	must(t, os.Symlink(version("1"), dir+"/..data"))
	must(t, os.Symlink("..data/a.json", dir+"/a.json"))
	x := watched(t, dir)
	for i := range 5 {
		want := fmt.Sprint(i + 1)
		eventually(t, x, "version "+want, func() bool { return from(x, "v.com/c=d") == want })
		must(t, os.Symlink(version(fmt.Sprint(i+2)), dir+"/..tmp"))
		must(t, os.Rename(dir+"/..tmp", dir+"/..data"))
		must(t, os.RemoveAll(dir+"/..v"+want))
	}
}

// TestWatchLinkedDir: the spec directory is behind a link that is swapped.
func TestWatchLinkedDir(t *testing.T) {
	base := t.TempDir()
	putSpec(t, base+"/one/a.json", "v.com/c", "1", "d")
	putSpec(t, base+"/two/a.json", "v.com/c", "2", "d")
	must(t, os.Symlink("one", base+"/cdi"))
	x := watched(t, base+"/cdi")
	eventually(t, x, "the first", func() bool { return from(x, "v.com/c=d") == "1" })
	must(t, os.Symlink("two", base+"/new"))
	must(t, os.Rename(base+"/new", base+"/cdi"))
	eventually(t, x, "the second", func() bool { return from(x, "v.com/c=d") == "2" })
	putSpec(t, base+"/two/a.json", "v.com/c", "3", "d")
	eventually(t, x, "a change behind the link", func() bool { return from(x, "v.com/c=d") == "3" })
}

// TestWatchSameDir: one directory under two names, as /run/cdi and /var/run/cdi are.
func TestWatchSameDir(t *testing.T) {
	base := t.TempDir()
	putSpec(t, base+"/run/a.json", "v.com/c", "1", "d")
	must(t, os.Symlink("run", base+"/var-run"))
	x := watched(t, base+"/run", base+"/var-run")
	sees := func(what, mark, low, high string) {
		t.Helper()
		eventually(t, x, what, func() bool {
			e, _ := x.Snapshot().Explain("v.com/c=d")
			return from(x, "v.com/c=d") == mark && e.File == high && strings.Join(e.Shadowed, " ") == low
		})
	}
	sees("the first", "1", base+"/run/a.json", base+"/var-run/a.json")
	putSpec(t, base+"/run/a.json", "v.com/other", "1", "d")
	putSpec(t, base+"/run/b.json", "v.com/c", "2", "d")
	sees("another file", "2", base+"/run/b.json", base+"/var-run/b.json")
	must(t, os.Remove(base+"/run/b.json"))
	eventually(t, x, "a file removed", func() bool { return len(x.Snapshot().Specs()) == 2 && len(x.Snapshot().Devices()) == 1 })
}

// TestWatchFileInPlace: a file takes the directory's place, and the directory comes
// back.
func TestWatchFileInPlace(t *testing.T) {
	base := t.TempDir()
	dir := base + "/cdi"
	putSpec(t, dir+"/a.json", "v.com/c", "1", "d")
	x := watched(t, dir)
	eventually(t, x, "the first", func() bool { return from(x, "v.com/c=d") == "1" })
	must(t, os.Rename(dir, base+"/away"))
	must(t, os.WriteFile(dir, nil, 0o644))
	eventually(t, x, "a file", func() bool { return x.Snapshot().Errors()[dir] != nil && len(x.Snapshot().Devices()) == 0 })
	must(t, os.Remove(dir))
	must(t, os.Rename(base+"/away", dir))
	eventually(t, x, "the directory again", func() bool { return from(x, "v.com/c=d") == "1" })
	putSpec(t, dir+"/a.json", "v.com/c", "2", "d")
	eventually(t, x, "a change in it", func() bool { return from(x, "v.com/c=d") == "2" })
}

// TestWatchOverflow: when events are lost, everything is looked at.
func TestWatchOverflow(t *testing.T) {
	w := watcher{fsn: &fsnotify.Watcher{Errors: make(chan error, 1)}}
	w.fsn.Errors <- fsnotify.ErrEventOverflow
	if err := w.wait(t.Context()); err != nil || !w.all {
		t.Errorf("all: %v, %v", w.all, err)
	}
}

// TestWatchForgets: what is no longer watched takes no memory, however often a
// ConfigMap changes.
func TestWatchForgets(t *testing.T) {
	dir := t.TempDir()
	fsn, err := fsnotify.NewWatcher()
	must(t, err)
	defer fsn.Close()
	x := NewIndex([]string{dir})
	w := watcher{index: x, fsn: fsn, infos: map[string]os.FileInfo{}}
	for i := range 5 {
		version := fmt.Sprint("..v", i)
		putSpec(t, filepath.Join(dir, version, "a.json"), "v.com/c", "1", "d")
		_ = os.Remove(dir + "/a.json")
		must(t, os.Symlink(version+"/a.json", dir+"/a.json"))
		x.Refresh()
		w.follow()
	}
	if len(w.infos) != len(w.names) {
		t.Errorf("%d directories are known, %d are watched", len(w.infos), len(w.names))
	}
}

// TestPoll: without inotify, changes are found by looking.
func TestPoll(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		x := NewIndex([]string{dir})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- x.poll(ctx) }()
		for i := range 3 {
			synctest.Wait()
			putSpec(t, dir+"/a.json", "v.com/c", fmt.Sprint(i), "d")
			time.Sleep(pollEvery) // the bubble's clock, not ours
			synctest.Wait()
			if got := from(x, "v.com/c=d"); got != fmt.Sprint(i) {
				t.Errorf("round %d: %s", i, got)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestWatchBlind: a directory that cannot be watched is looked at.
func TestWatchBlind(t *testing.T) {
	dir := t.TempDir()
	fsn, err := fsnotify.NewWatcher()
	must(t, err)
	x := NewIndex([]string{dir})
	w := watcher{index: x, fsn: fsn, infos: map[string]os.FileInfo{}}
	must(t, fsn.Close()) // no watch can be added
	w.follow()
	if !w.blind {
		t.Error("not blind")
	}
}

// A relative directory is watched where it is, not below the root.
func TestChainOfARelativeDir(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	t.Chdir(base)
	must(t, os.Mkdir("specs", 0o755))
	steps, end := chain("specs")
	if want := filepath.Join(base, "specs"); end != want || steps[len(steps)-1] != (nameIn{base, "specs"}) {
		t.Errorf("leads to %q by %v, want %q", end, steps, want)
	}
}
