package creds

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead/fairlead/internal/testenv"

	"golang.org/x/sys/unix"
)

var testOptions = Options{Key: []byte("a key that never leaves the test")}

func version1() map[string][]byte {
	return map[string][]byte{"A": []byte("one"), "B": []byte("one"), "OLD": []byte("x")}
}

func version2() map[string][]byte {
	return map[string][]byte{"A": []byte("two"), "B": []byte("two"), "NEW": []byte("x")}
}

func write(t *testing.T, dir string, files map[string][]byte, o Options) bool {
	t.Helper()
	changed, err := Write(dir, files, o)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// check holds dir to exactly what is to be published, leftovers included.
func check(t *testing.T, dir string, files map[string][]byte, o Options) {
	t.Helper()
	if !Current(dir, files, o) {
		t.Error("not current")
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s = %q, %v", name, got, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(files)+2 { // ..data and one version
		t.Errorf("directory holds %v", entries)
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "photos")
	if Current(dir, version1(), testOptions) {
		t.Error("what is absent is current")
	}
	if !write(t, dir, version1(), testOptions) {
		t.Error("first write changed nothing")
	}
	check(t, dir, version1(), testOptions)
	if write(t, dir, version1(), testOptions) {
		t.Error("the same again changed something")
	}
	if Current(dir, version2(), testOptions) {
		t.Error("other files are current")
	}
	if !write(t, dir, version2(), testOptions) {
		t.Error("other files changed nothing")
	}
	check(t, dir, version2(), testOptions)

	if Current(dir, version2(), Options{Key: []byte("another")}) {
		t.Error("current under another key")
	}
	gid := os.Getegid()
	if Current(dir, version2(), Options{Key: testOptions.Key, GID: &gid}) {
		t.Error("current for another group")
	}
}

func TestModes(t *testing.T) {
	gid := os.Getegid()
	if os.Geteuid() == 0 {
		gid = 4242
	}
	owner := fs.FileMode(0)
	if os.Geteuid() != 0 {
		owner = 0o200
	}
	dir := filepath.Join(t.TempDir(), "photos")
	for _, c := range []struct {
		o                  Options
		top, version, file fs.FileMode
	}{
		{Options{}, 0o700, 0o500, 0o400},
		{Options{GID: &gid}, 0o750, 0o550, 0o440},
		{Options{}, 0o700, 0o500, 0o400},
	} {
		write(t, dir, version1(), c.o)
		check(t, dir, version1(), c.o)
		for path, want := range map[string]fs.FileMode{"": c.top, "..data": c.version | owner, "A": c.file} {
			st, err := os.Stat(filepath.Join(dir, path))
			if err != nil {
				t.Fatal(err)
			}
			if st.Mode().Perm() != want {
				t.Errorf("%q has mode %v, want %v", path, st.Mode(), want)
			}
			if c.o.GID != nil && int(st.Sys().(*syscall.Stat_t).Gid) != gid {
				t.Errorf("%q is of group %d", path, st.Sys().(*syscall.Stat_t).Gid)
			}
		}
	}
}

// TestDigestLeaksNothing: equal secrets under different keys are not to be told.
func TestDigestLeaksNothing(t *testing.T) {
	seen := map[string]bool{}
	for _, files := range []map[string][]byte{
		{}, {"A": nil}, {"A": []byte("B")}, {"AB": nil}, {"A": nil, "B": nil}, {"A": []byte("x"), "B": []byte("y")}, {"A": []byte("xB"), "": []byte("y")},
	} {
		for _, key := range []string{"", "k1", "k2"} {
			v := version(files, Options{Key: []byte(key)})
			if seen[v] {
				t.Errorf("%v under %q has the version of others", files, key)
			}
			seen[v] = true
		}
	}
}

// TestLeftovers starts from each state that a crash can leave.
func TestLeftovers(t *testing.T) {
	half := func(t *testing.T, dir, name string) {
		t.Helper()
		must(t, os.Mkdir(filepath.Join(dir, name), 0o500))
		must(t, os.Chmod(filepath.Join(dir, name), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name, "A"), []byte("tw"), 0o400))
	}
	for name, leave := range map[string]func(t *testing.T, dir string){
		"half a version":         func(t *testing.T, dir string) { half(t, dir, version(version2(), testOptions)) },
		"half of another":        func(t *testing.T, dir string) { half(t, dir, "..v-0123") },
		"a link not yet renamed": func(t *testing.T, dir string) { must(t, os.Symlink("x", filepath.Join(dir, newLink))) },
		"names ahead of files":   func(t *testing.T, dir string) { must(t, os.Symlink("..data/NEW", filepath.Join(dir, "NEW"))) },
		"swapped but not tidied": func(t *testing.T, dir string) {
			d, err := openDir(dir, false)
			must(t, err)
			defer d.close()
			v := version(version2(), testOptions)
			must(t, d.writeVersion(v, version2(), testOptions))
			must(t, d.link(nil, map[string][]byte{"NEW": nil}))
			must(t, d.swap(untidy+v))
			if Current(dir, version2(), testOptions) {
				t.Error("current while the old version is still there")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "photos")
			write(t, dir, version1(), testOptions)
			leave(t, dir)
			write(t, dir, version2(), testOptions)
			check(t, dir, version2(), testOptions)
			leave2 := filepath.Join(dir, "..v-left")
			must(t, os.Mkdir(leave2, 0o700))
			must(t, Remove(dir))
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after Remove: %v", err)
			}
		})
	}
}

// TestReader: while versions change, who holds ..data sees one version whole.
func TestReader(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "photos")
	write(t, dir, version1(), testOptions)
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				if n == 0 {
					done <- errors.New("the reader never read")
				} else {
					done <- nil
				}
				return
			default:
			}
			if a, b, ok := readPair(dir); ok && a != b {
				done <- fmt.Errorf("A is of %q and B of %q", a, b)
				return
			}
			if a, err := os.ReadFile(filepath.Join(dir, "..data", "A")); err == nil && len(a) != 3 {
				done <- fmt.Errorf("A is %q", a)
				return
			}
		}
	}()
	for i := range 200 {
		files := version1()
		if i%2 == 0 {
			files = version2()
		}
		write(t, dir, files, testOptions)
	}
	close(stop)
	must(t, <-done)
}

// readPair reads two files through one held ..data; not ok if it was removed.
func readPair(dir string) (a, b string, ok bool) {
	root, err := os.OpenRoot(filepath.Join(dir, "..data"))
	if err != nil {
		return "", "", false
	}
	defer root.Close()
	x, errA := root.ReadFile("A")
	y, errB := root.ReadFile("B")
	return string(x), string(y), errA == nil && errB == nil
}

// TestKilled kills a writing process at any moment: readers have whole files
// then, and the next Write leaves nothing behind.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("CREDS_TEST_WRITE"); dir != "" {
		writeForever(dir)
	}
	dir := filepath.Join(t.TempDir(), "photos")
	for range 15 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), "CREDS_TEST_WRITE="+dir)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range 1 + rand.IntN(5) {
			if !lines.Scan() {
				t.Fatal("the writer ended by itself")
			}
		}
		// Somewhere within the next write, which takes about this long.
		for deadline := time.Now().Add(time.Duration(rand.IntN(400)) * time.Microsecond); time.Now().Before(deadline); {
		}
		must(t, cmd.Process.Kill())
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()

		if a, b, ok := readPair(dir); !ok || a != b {
			t.Errorf("after a kill: A %q, B %q, readable %v", a, b, ok)
		}
		write(t, dir, version2(), testOptions)
		check(t, dir, version2(), testOptions)
	}
}

func writeForever(dir string) {
	for {
		for _, files := range []map[string][]byte{version1(), version2()} {
			if _, err := Write(dir, files, testOptions); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Println("written")
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	base := t.TempDir()
	must(t, os.Mkdir(filepath.Join(base, "real"), 0o700))
	must(t, os.Symlink("real", filepath.Join(base, "link")))
	must(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	for _, dir := range []string{"link", "file", "absent/dir"} {
		if _, err := Write(filepath.Join(base, dir), version1(), testOptions); err == nil {
			t.Errorf("wrote to %s", dir)
		}
	}
	for _, dir := range []string{"relative", "", "/", "/.."} {
		if _, err := Write(dir, version1(), testOptions); err == nil {
			t.Errorf("wrote to %q", dir)
		}
	}
	for _, name := range []string{"", ".", "..", "..data", "../x", "a/b", "a\x00"} {
		if _, err := Write(filepath.Join(base, "new"), map[string][]byte{name: nil}, testOptions); err == nil {
			t.Errorf("wrote file %q", name)
		}
	}
	must(t, os.WriteFile(filepath.Join(base, "real", "A"), []byte("a person's"), 0o600))
	if _, err := Write(filepath.Join(base, "real"), version1(), testOptions); err == nil || !strings.Contains(err.Error(), `"A" is in the way`) {
		t.Errorf("wrote over a person's file: %v", err)
	}
	if entries, _ := os.ReadDir(filepath.Join(base, "real")); len(entries) != 1 {
		t.Errorf("the person's directory holds %v", entries)
	}
}

// TestHostileEntries: links that lead elsewhere are replaced, never followed.
func TestHostileEntries(t *testing.T) {
	base := t.TempDir()
	outside := filepath.Join(base, "outside")
	must(t, os.Mkdir(outside, 0o700))
	must(t, os.WriteFile(filepath.Join(outside, "A"), []byte("precious"), 0o600))
	dir := filepath.Join(base, "photos")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.Symlink(outside, filepath.Join(dir, version(version1(), testOptions))))
	must(t, os.Symlink(outside, filepath.Join(dir, "..v-other")))
	must(t, os.Symlink(outside, filepath.Join(dir, newLink)))
	must(t, os.Symlink(outside, filepath.Join(dir, dataLink)))
	write(t, dir, version1(), testOptions)
	check(t, dir, version1(), testOptions)
	must(t, Remove(dir))
	if got, err := os.ReadFile(filepath.Join(outside, "A")); err != nil || string(got) != "precious" {
		t.Errorf("outside: %q, %v", got, err)
	}
}

func TestRemove(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "photos")
	must(t, Remove(dir)) // absent
	write(t, dir, version1(), testOptions)
	must(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
	if err := Remove(dir); err == nil || !strings.Contains(err.Error(), `"mine"`) {
		t.Errorf("Remove with a person's file: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "A")); err == nil {
		t.Error("the credentials are still there")
	}
	must(t, os.Remove(filepath.Join(dir, "mine")))
	must(t, Remove(dir))
	must(t, os.Symlink(base, dir))
	if err := Remove(dir); err == nil {
		t.Error("followed a link")
	}
}

// TestMounts needs root: a mount point is never removed from, and a tmpfs is
// mounted where a directory is on disk.
func TestMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Lacks(t, "needs root to mount")
	}
	inPrivateMounts(t)
	dir := filepath.Join(t.TempDir(), "photos")
	must(t, os.Mkdir(dir, 0o700))
	must(t, unix.Mount("none", dir, "tmpfs", 0, ""))
	write(t, dir, version1(), testOptions)
	if err := Remove(dir); err == nil || !strings.Contains(err.Error(), "mount point") {
		t.Errorf("Remove of a mount point: %v", err)
	}
	check(t, dir, version1(), testOptions)
	must(t, EnsureTmpfs(dir))
	must(t, unix.Unmount(dir, 0))
	testMountTmpfs(t, dir)
}

func testMountTmpfs(t *testing.T, dir string) {
	if err := EnsureTmpfs(dir); err == nil {
		testenv.Lacks(t, "the temporary directory is on tmpfs itself")
	} else if !errors.Is(err, ErrOnDisk) {
		t.Fatal(err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
	if err := MountTmpfs(dir, 1<<20); err == nil {
		t.Error("mounted over a file")
	}
	must(t, os.Remove(filepath.Join(dir, "x")))
	must(t, MountTmpfs(dir, 1<<20))
	must(t, MountTmpfs(dir, 1<<20)) // once is enough
	must(t, EnsureTmpfs(dir))
	st, err := os.Stat(dir)
	must(t, err)
	if st.Mode().Perm() != 0o700 {
		t.Errorf("mode %v", st.Mode())
	}
	mounts, err := os.ReadFile("/proc/thread-self/mounts")
	must(t, err)
	at := slices.DeleteFunc(strings.Split(string(mounts), "\n"), func(l string) bool { return !strings.Contains(l, " "+dir+" ") })
	if len(at) != 1 {
		t.Fatalf("mounts: %q", at)
	}
	for _, option := range []string{"nosuid", "nodev", "noexec", "size=1024k"} {
		if !strings.Contains(at[0], option) {
			t.Errorf("no %s in %q", option, at[0])
		}
	}
	must(t, unix.Unmount(dir, 0))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkCurrent is what each of many claims costs at a restart.
func BenchmarkCurrent(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "photos")
	files, err := Render(s3Input())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := Write(dir, files, testOptions); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if !Current(dir, files, testOptions) {
			b.Fatal("not current")
		}
	}
}
