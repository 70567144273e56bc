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
	"time"

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
