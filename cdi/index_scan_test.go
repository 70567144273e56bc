package cdi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestIndexManyFiles: so many that they are looked at by several goroutines.
func TestIndexManyFiles(t *testing.T) {
	const n = 600
	dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	path := func(i int) string { return fmt.Sprint(dir, "/", i, ".json") }
	for i := range n {
		putSpec(t, path(i), fmt.Sprintf("v%d.com/c", i), fmt.Sprint(i), "d")
	}
	age(t, path(n-1))
	NewIndex([]string{dir}, WithState(state)).Snapshot()
	x := NewIndex([]string{dir}, WithState(state))
	before := x.Snapshot()
	if x.Refresh(); x.Snapshot() != before {
		t.Error("a new snapshot of nothing new")
	}
	putSpec(t, path(300), "v300.com/c", "changed", "d")
	must(t, os.Remove(path(599)))
	x.Refresh()
	if got := from(x, "v300.com/c=d") + from(x, "v7.com/c=d"); got != "changed7" {
		t.Error(got)
	}
	if got := len(x.Snapshot().Devices()); got != n-1 {
		t.Errorf("%d devices", got)
	}
}

// TestIndexDirectoryIsReplaced: what wins can no longer be read at all, and what
// it hid is back.
func TestIndexDirectoryIsReplaced(t *testing.T) {
	low, high := twoDirs(t)
	putSpec(t, low+"/a.json", "v.com/c", "low", "d")
	putSpec(t, high+"/a.json", "v.com/c", "high", "d")
	x := NewIndex([]string{low, high})
	x.Snapshot()
	must(t, os.Rename(high, high+".away"))
	must(t, os.WriteFile(high, nil, 0o644))
	if got := from(x, "v.com/c=d"); got != "low" {
		t.Error(got)
	}
}

// TestIndexBadStaysBad: a file that is wrong as before is no change, nor a reason
// to save the state again.
func TestIndexBadStaysBad(t *testing.T) {
	dir, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	putSpec(t, dir+"/good.json", "v.com/c", "good", "d")
	must(t, os.WriteFile(dir+"/bad.json", []byte("{"), 0o644))
	must(t, os.Symlink("absent", dir+"/dangling.json"))
	age(t, dir+"/good.json", dir+"/bad.json")
	inode := func() uint64 {
		var st unix.Stat_t
		must(t, unix.Stat(state, &st))
		return st.Ino
	}
	NewIndex([]string{dir}, WithState(state)).Snapshot()
	saved, err := os.Open(state) // so that its inode is not given to another
	must(t, err)
	defer saved.Close()
	was := inode()
	x := NewIndex([]string{dir}, WithState(state))
	old := x.Snapshot()
	if inode() != was {
		t.Error("the state is saved again")
	}
	if x.Refresh(); x.Snapshot() != old {
		t.Error("a new snapshot of nothing new")
	}
	away := t.TempDir() + "/x.json"
	putSpec(t, away, "v.com/c", "found", "e")
	must(t, os.Rename(away, dir+"/absent"))
	x.Refresh()
	if got := from(x, "v.com/c=e"); got != "found" || len(x.Snapshot().Errors()) != 1 {
		t.Errorf("%s, %v", got, x.Snapshot().Errors())
	}
}

// TestIndexFromTheFuture: a file that says that it is written tomorrow is not
// read again and again till then.
func TestIndexFromTheFuture(t *testing.T) {
	dir := t.TempDir()
	putSpec(t, dir+"/a.json", "v.com/c", "a", "d")
	tomorrow := time.Now().Add(24 * time.Hour)
	must(t, os.Chtimes(dir+"/a.json", tomorrow, tomorrow))
	age(t, dir+"/a.json")
	x := NewIndex([]string{dir})
	s := scan{now: time.Now()}
	if s.directory(x.dirs[0], x.Snapshot().dirs[0].files); len(s.jobs) > 0 {
		t.Error("it is read again")
	}
	if _, err := x.Resolve("v.com/c=d"); errors.Is(err, errChanged) {
		t.Error(err)
	}
}
