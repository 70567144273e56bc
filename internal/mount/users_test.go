package mount

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"
)

// container starts a process that has from mounted on a directory of its own, in
// a mount namespace of its own, and returns its id.
func container(t *testing.T, from string) int {
	t.Helper()
	at := filepath.Join(t.TempDir(), "in container")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	return elsewhereDo(t, `mount --bind "$1" "$2"`, from, at)
}

// elsewhereDo starts a process that has run a script in a mount namespace of its
// own and stays there, and returns its id.
func elsewhereDo(t *testing.T, script string, args ...string) int {
	t.Helper()
	cmd := exec.Command("unshare", append([]string{"-m", "sh", "-ec", script + "\necho done; read end", "sh"}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "done\n" {
		t.Fatalf("the container said %q", line)
	}
	return cmd.Process.Pid
}

func TestUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Lacks(t, "needs root to mount")
	}
	base := t.TempDir()
	dir := filepath.Join(base, "pho tos")
	for _, d := range []string{dir, filepath.Join(dir, "below"), dir + "2"} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	users := func(dir string) []User {
		t.Helper()
		found, err := Users(dir)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := users(dir); len(found) != 0 {
		t.Errorf("users before any: %v", found)
	}
	container(t, dir+"2") // a name that begins the same
	container(t, base)    // a mount from above
	if found := users(dir); len(found) != 0 {
		t.Errorf("users of others: %v", found)
	}
	first := container(t, dir)
	second := container(t, filepath.Join(dir, "below"))
	found := users(dir)
	if len(found) != 2 || found[0].PID != min(first, second) || found[1].PID != max(first, second) {
		t.Fatalf("users are %+v, want processes %d and %d", found, first, second)
	}
	for _, u := range found {
		if u.Comm != "sh" || !strings.HasPrefix(u.Namespace, "mnt:[") || filepath.Base(u.Point) != "in container" {
			t.Errorf("%+v", u)
		}
	}
	if link := filepath.Join(base, "link"); os.Symlink(dir, link) != nil || len(users(link)) != 2 {
		t.Error("not found through a link")
	}
	if found := users(filepath.Join(base, "absent")); found != nil {
		t.Errorf("users of what is absent: %v", found)
	}
}

func TestParseMountinfo(t *testing.T) {
	text := `36 35 98:0 /mnt1/with\040space /mnt2\134x rw,noatime master:1 - ext3 /dev/root rw,errors=continue
22 1 0:20 / /run rw shared:5 - tmpfs tmpfs rw
23 22 0:20 /gone//deleted /x rw - tmpfs tmpfs rw
`
	got, err := parseMountinfo(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []entry{{36, "98:0", "/mnt1/with space", `/mnt2\x`, "ext3"}, {22, "0:20", "/", "/run", "tmpfs"}, {23, "0:20", "/gone//deleted", "/x", "tmpfs"}}
	for i, e := range want {
		if got[i] != e {
			t.Errorf("line %d: %+v, want %+v", i+1, got[i], e)
		}
	}
	if !(place{"0:20", "/gone"}).mountedBy(got[2]) {
		t.Error("a removed directory is still in use by who has it mounted")
	}
	for _, bad := range []string{"\n", "36 35 98:0 / /x\n", "x 35 98:0 / /x rw\n"} {
		if _, err := parseMountinfo(bad); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

// FuzzMountinfo: mount points are named by whoever mounts.
func FuzzMountinfo(f *testing.F) {
	f.Add("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n")
	f.Add(`1 2 3:4 /a\040b\ /c\0 rw` + "\n")
	f.Add(`1 2 3:4 /a\999 \134\011\012 rw`)
	f.Fuzz(func(t *testing.T, text string) {
		entries, err := parseMountinfo(text)
		if err == nil && len(entries) > strings.Count(text, "\n")+1 {
			t.Errorf("%d entries of %q", len(entries), text)
		}
		for _, e := range entries {
			_ = place{e.device, e.root}.mountedBy(e)
		}
	})
}
