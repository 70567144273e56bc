package cdi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// putSpec writes a spec with these devices, each of which sets FROM to mark.
func putSpec(t testing.TB, path, kind, mark string, devices ...string) {
	t.Helper()
	s := &Spec{Version: "0.5.0", Kind: kind}
	for _, d := range devices {
		s.Devices = append(s.Devices, Device{Name: d, ContainerEdits: ContainerEdits{Env: []string{"FROM=" + mark}}})
	}
	must(t, Write(filepath.Dir(path), filepath.Base(path), s, NoSync))
}

// from injects a device and returns the mark of its spec, or the error.
func from(x *Index, device string) string {
	var c oci.Spec
	if err := x.Inject(&c, device); err != nil {
		return err.Error()
	}
	return strings.TrimPrefix(c.Process.Env[0], "FROM=")
}

func twoDirs(t testing.TB) (low, high string) {
	base := t.TempDir()
	return filepath.Join(base, "low"), filepath.Join(base, "high")
}

func TestIndexPriority(t *testing.T) {
	low, high := twoDirs(t)
	putSpec(t, low+"/a.json", "v.com/c", "low-a", "both", "lowest", "rivals", "hidden")
	putSpec(t, low+"/b.json", "v.com/c", "low-b", "rivals", "hidden")
	putSpec(t, low+"/c.json", "v.com/c", "low-c", "hidden")
	putSpec(t, high+"/a.json", "v.com/c", "high", "both", "hidden", "top")
	putSpec(t, high+"/b.json", "v.com/c", "high-b", "top")
	x := NewIndex([]string{low, high})
	for device, want := range map[string]string{"both": "high", "lowest": "low-a", "hidden": "high"} {
		if got := from(x, "v.com/c="+device); got != want {
			t.Errorf("%s comes from %s, want %s", device, got, want)
		}
	}
	for device, files := range map[string][]string{"rivals": {low + "/a.json", low + "/b.json"}, "top": {high + "/a.json", high + "/b.json"}} {
		_, err := x.Resolve("v.com/c=" + device)
		e, explained := x.Snapshot().Explain("v.com/c=" + device)
		if !errors.Is(err, ErrAmbiguous) || !errors.Is(explained, ErrAmbiguous) || !slices.Equal(e.Rivals, files) {
			t.Errorf("%s: %v, %+v", device, err, e)
		}
	}
	e, err := x.Snapshot().Explain("v.com/c=hidden")
	if err != nil || e.File != high+"/a.json" || !slices.Equal(e.Shadowed, []string{low + "/a.json", low + "/b.json", low + "/c.json"}) {
		t.Errorf("%+v, %v", e, err)
	}
	if got := x.Snapshot().Devices(); !slices.Equal(got, []string{"v.com/c=both", "v.com/c=hidden", "v.com/c=lowest"}) {
		t.Errorf("devices %v", got)
	}
	// One rival goes, and the device is back.
	must(t, os.Remove(low+"/b.json"))
	x.Refresh()
	if got := from(x, "v.com/c=rivals"); got != "low-a" {
		t.Errorf("after its rival has gone: %s", got)
	}
}

// Req: CDI-123, CDI-124
func TestIndexUnknown(t *testing.T) {
	dir := t.TempDir()
	putSpec(t, dir+"/a.json", "v.com/c", "a", "d")
	x := NewIndex([]string{dir})
	for device, want := range map[string]error{
		"v.com/c=x": ErrUnknownDevice, "v.com/x=d": ErrUnknownKind, "v.com/c": ErrInvalid, "": ErrInvalid, "v.com/c=d/..": ErrInvalid,
	} {
		if _, err := x.Resolve("v.com/c=d", device); !errors.Is(err, want) {
			t.Errorf("%q: %v", device, err)
		}
	}
	_, err := x.Resolve("v.com/c=x", "v.com/x=d")
	if !errors.Is(err, ErrUnknownDevice) || !errors.Is(err, ErrUnknownKind) {
		t.Errorf("not all are told of: %v", err)
	}
}

// TestIndexBadFiles: what cannot be read is told of and hides nothing.
func TestIndexBadFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	putSpec(t, at("good.json"), "v.com/c", "good", "d")
	must(t, os.WriteFile(at("good.yaml"), []byte("cdiVersion: 0.5.0\nkind: v.com/y\ndevices: [{name: d, containerEdits: {env: [FROM=yaml]}}]\n"), 0o644))
	must(t, os.WriteFile(at("bad.json"), []byte("{"), 0o644))
	must(t, os.WriteFile(at("rule.json"), []byte(`{"cdiVersion": "0.5.0", "kind": "v.com/c", "devices": []}`), 0o644))
	must(t, os.WriteFile(at("note.txt"), []byte("not a spec"), 0o644))
	must(t, unix.Mkfifo(at("fifo.yaml"), 0o600))
	must(t, os.Mkdir(at("dir.json"), 0o700))
	must(t, os.Symlink("loop.json", at("loop.json")))
	must(t, os.Symlink("absent.json", at("dangling.json")))
	must(t, os.WriteFile(at("huge.json"), nil, 0o600))
	must(t, os.Truncate(at("huge.json"), maxFile+1))
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	x := NewIndex([]string{file, filepath.Join(dir, "absent"), dir})
	if got := from(x, "v.com/c=d") + " " + from(x, "v.com/y=d"); got != "good yaml" {
		t.Error(got)
	}
	for range 2 {
		errs := x.Snapshot().Errors()
		for name, want := range map[string]error{
			at("bad.json"): ErrInvalid, at("rule.json"): ErrInvalid, at("fifo.yaml"): ErrNotSpecFile, at("dir.json"): ErrNotSpecFile,
			at("loop.json"): unix.ELOOP, at("dangling.json"): os.ErrNotExist, at("huge.json"): ErrNotSpecFile, file: unix.ENOTDIR,
		} {
			if !errors.Is(errs[name], want) {
				t.Errorf("%s: %v", name, errs[name])
			}
			delete(errs, name)
		}
		if len(errs) > 0 {
			t.Errorf("also wrong: %v", errs)
		}
		x.Refresh()
	}
	if got := x.Snapshot().Kinds(); !slices.Equal(got, []string{"v.com/c", "v.com/y"}) {
		t.Errorf("kinds %v", got)
	}
	if got := x.Snapshot().Specs(); len(got) != 2 || got[0].Path != at("good.json") || got[1].Devices[0] != "d" {
		t.Errorf("specs %v", got)
	}
}

// TestIndexChanges goes through what can happen to a file, found by Refresh and
// by injecting what is no longer as the index has it.
func TestIndexChanges(t *testing.T) {
	dir := t.TempDir()
	x := NewIndex([]string{dir})
	check := func(what, device, want string) {
		t.Helper()
		if got := from(x, device); !strings.Contains(got, want) {
			t.Errorf("%s: %s", what, got)
		}
	}
	check("empty", "v.com/c=d", "no CDI spec")
	putSpec(t, dir+"/a.json", "v.com/c", "one", "d")
	x.Refresh()
	check("new", "v.com/c=d", "one")
	putSpec(t, dir+"/a.json", "v.com/c", "two", "d", "e")
	x.Refresh()
	check("replaced", "v.com/c=e", "two")
	age(t, dir+"/a.json")
	x.Refresh() // the file was too young to be trusted
	old := x.Snapshot()
	x.Refresh()
	if x.Snapshot() != old {
		t.Error("a new snapshot of nothing new")
	}
	putSpec(t, dir+"/a.json", "v.com/other", "three", "d")
	x.Refresh()
	check("of another kind", "v.com/c=d", "no CDI spec is of that kind")
	check("of another kind", "v.com/other=d", "three")
	select {
	case <-old.Replaced():
	default:
		t.Error("the old snapshot does not say that it is")
	}
	must(t, os.Remove(dir+"/a.json"))
	x.Refresh()
	check("gone", "v.com/other=d", "no CDI spec")
	if n := len(x.Snapshot().Devices()); n != 0 {
		t.Errorf("%d devices are left", n)
	}

	putSpec(t, dir+"/a.json", "v.com/c", "four", "d")
	x.Refresh()
	putSpec(t, dir+"/a.json", "v.com/c", "five", "d") // not yet loaded as it was
	check("changed meanwhile", "v.com/c=d", "five")
	x.Refresh()
	must(t, os.Remove(dir+"/a.json"))
	x.Refresh()
	check("gone", "v.com/c=d", "no CDI spec")
}

// TestIndexRacy: a file changed twice within a tick of the clock, to the same
// size, is seen.
func TestIndexRacy(t *testing.T) {
	dir := t.TempDir()
	x := NewIndex([]string{dir})
	put := func(mark string) {
		text, err := Marshal(&Spec{Kind: "v.com/c", Devices: []Device{{Name: "d" + mark}}})
		must(t, err)
		must(t, os.WriteFile(dir+"/a.json", text, 0o644))
	}
	for i := range 200 {
		put(fmt.Sprint(i % 10))
		x.Refresh()
		if got := x.Snapshot().Devices(); len(got) != 1 || got[0] != fmt.Sprint("v.com/c=d", i%10) {
			t.Fatalf("round %d: %v", i, got)
		}
	}
}

// age waits until files are old enough to be told from a later content.
func age(t testing.TB, paths ...string) {
	t.Helper()
	for _, p := range paths {
		for {
			var st unix.Stat_t
			must(t, unix.Stat(p, &st))
			if time.Since(time.Unix(0, st.Ctim.Nano())) > racyWindow {
				break
			}
		}
	}
}

// TestIndexState: the next process reads only what has changed.
func TestIndexState(t *testing.T) {
	low, high := twoDirs(t)
	state := filepath.Join(t.TempDir(), "new", "index")
	putSpec(t, low+"/a.json", "v.com/c", "a", "a")
	putSpec(t, low+"/b.json", "v.com/c", "b", "b")
	putSpec(t, high+"/c.json", "v.com/c", "c", "c")
	must(t, os.WriteFile(high+"/bad.json", []byte("{"), 0o644))
	age(t, low+"/a.json", low+"/b.json", high+"/c.json")
	dirs := []string{low, high}
	first := NewIndex(dirs, WithState(state))
	want := first.Snapshot().Devices()

	next := NewIndex(dirs, WithState(state))
	known := readState(state, next.dirs)
	if len(known[0]) != 2 || len(known[1]) != 1 {
		t.Fatalf("the state holds %v", known)
	}
	must(t, os.Chtimes(low+"/b.json", time.Now(), time.Unix(1, 0)))
	must(t, os.Remove(high+"/c.json"))
	s := scan{now: time.Now()}
	for i, d := range next.dirs {
		s.directory(d, known[i])
	}
	if len(s.jobs) != 2 { // b.json, which is touched, and bad.json
		t.Errorf("%d files are read", len(s.jobs))
	}
	if got := next.Snapshot().Devices(); !slices.Equal(got, want[:2]) {
		t.Errorf("devices %v", got)
	}
	if got := from(next, "v.com/c=a") + from(next, "v.com/c=b"); got != "ab" {
		t.Error(got)
	}
	if len(next.Snapshot().Errors()) != 1 {
		t.Errorf("errors %v", next.Snapshot().Errors())
	}
	testStateRefused(t, state, dirs)
}

func testStateRefused(t *testing.T, state string, dirs []string) {
	x := NewIndex(dirs)
	good, err := os.ReadFile(state)
	must(t, err)
	empty := func(what string, dirs []*specDir) {
		t.Helper()
		for _, known := range readState(state, dirs) {
			if len(known) > 0 {
				t.Errorf("%s: state is used", what)
			}
		}
	}
	must(t, os.Chmod(state, 0o666))
	empty("open to others", x.dirs)
	must(t, os.Chmod(state, 0o600))
	empty("other directories", x.dirs[:1])
	empty("another order", []*specDir{x.dirs[1], x.dirs[0]})
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 0x10
		if _, ok := parseState(bad, x.dirs); ok {
			t.Fatalf("damaged at byte %d: accepted", i)
		}
		if _, ok := parseState(good[:i], x.dirs); ok {
			t.Fatalf("cut at byte %d: accepted", i)
		}
	}
	must(t, os.Remove(state))
	must(t, os.Symlink("/dev/zero", state))
	empty("a link", x.dirs)
}

// FuzzState: a damaged state is refused or holds whole files, and never panics.
func FuzzState(f *testing.F) {
	dirs := []*specDir{{"/etc/cdi", 0}}
	snapshot := &Snapshot{dirs: []*dirState{{dir: dirs[0], files: map[string]*file{
		"a.json": {dir: dirs[0], name: "a.json", kind: "v.com/c", devices: []string{"a", "b"}, id: identity{1, 2, 3, 4, 5}},
	}}}}
	path := filepath.Join(f.TempDir(), "state")
	must(f, writeState(path, snapshot))
	text, err := os.ReadFile(path)
	must(f, err)
	f.Add(text[:len(text)-4])
	f.Add([]byte(stateMagic))
	f.Fuzz(func(t *testing.T, text []byte) {
		if known, ok := parseState(sealState(text), dirs); ok {
			for name, f := range known[0] {
				if f == nil || f.name != name {
					t.Errorf("%q: %+v", name, f)
				}
			}
		}
	})
}

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

// TestIndexAtOnce: lookups beside changes see one state or the other.
func TestIndexAtOnce(t *testing.T) {
	dir := t.TempDir()
	putSpec(t, dir+"/a.json", "v.com/c", "x", "d")
	x := watched(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				if got := from(x, "v.com/c=d"); got != "x" && got != "y" {
					t.Errorf("got %s", got)
					return
				}
				x.Snapshot().Devices()
			}
		})
	}
	for i := range 100 {
		putSpec(t, dir+"/a.json", "v.com/c", string("xy"[i%2]), "d")
		putSpec(t, fmt.Sprint(dir, "/b", i%7, ".json"), "v.com/b", "b", fmt.Sprint(i))
		if i%10 == 0 {
			x.Refresh()
		}
	}
	cancel()
	readers.Wait()
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
