package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"

	"github.com/fairlead/fairlead/internal/ldcache"
)

const ldconfig = "/sbin/ldconfig"

// debian is a container with the libraries and the configuration of this machine.
func debian(t testing.TB) *container {
	t.Helper()
	if _, err := os.Stat(ldconfig); err != nil {
		testenv.Lacks(t, "no ldconfig to compare with: ", err)
	}
	c := newContainer(t)
	if target, err := os.Readlink("/lib"); err == nil { // /usr is merged
		c.check(os.Symlink(target, c.root+"/lib"))
		c.check(os.Symlink("usr/lib64", c.root+"/lib64"))
	}
	dirs, _ := filepath.Glob("/usr/lib/*-linux-gnu*")
	dirs = append(dirs, "/usr/lib", "/usr/lib64", "/usr/local/lib")
	c.libraries(dirs...)
	c.dropDangling(dirs...)
	confs, _ := filepath.Glob("/etc/ld.so.conf.d/*.conf")
	for _, name := range append(confs, "/etc/ld.so.conf") {
		if text, err := os.ReadFile(name); err == nil {
			c.write(c.root+name, string(text))
		}
	}
	// Injected: newer than the system's, with hwcaps, with links of every kind.
	libz, err := filepath.EvalSymlinks("/lib/x86_64-linux-gnu/libz.so.1")
	if err != nil {
		libz = findLibrary(t)
	}
	for _, name := range []string{
		"/opt/gpu/libz.so.1.9.9", "/opt/gpu/libz.so.1.10.0", "/opt/gpu/libgpu.so", "/opt/two/libz.so.1.99",
		"/opt/gpu/glibc-hwcaps/x86-64-v2/libz.so.1.9.9", "/opt/gpu/glibc-hwcaps/x86-64-v3/libz.so.1.9.9", "/opt/gpu/glibc-hwcaps/.hidden/libz.so.1",
		"/opt/gpu/libz.so.1.dpkg-new", "/opt/gpu/notlib.so", "/opt/gpu/sub/libz.so.1",
	} {
		c.copy(libz, c.root+name)
	}
	c.write(c.root+"/opt/gpu/libtext.so.1", "GROUP ( libz.so )")
	for link, target := range map[string]string{
		"/opt/gpu/libz.so": "libz.so.1", "/opt/gpu/libalias.so.7": "libz.so.1.9.9", "/opt/gpu/libabsolute.so.1": "/opt/two/libz.so.1.99",
		"/opt/gpu/libup.so.1": "../two/libz.so.1.99", "/opt/gpu/libz.so.1": "libz.so.1.9.9", "/opt/two/libgone.so": "nowhere",
		"/opt/gpu/glibc-hwcaps/x86-64-v2/anything": "libz.so.1.9.9",
	} {
		c.check(os.Symlink(target, c.root+link))
	}
	c.write(c.root+"/etc/ld.so.cache", "")
	return c
}

// findLibrary is any shared library of this machine.
func findLibrary(t testing.TB) string {
	t.Helper()
	names, _ := filepath.Glob("/usr/lib/*-linux-gnu*/libz.so.1.*")
	if len(names) == 0 {
		testenv.Lacks(t, "this machine has no libz")
	}
	return names[0]
}

// printed is what ldconfig -p says of a container's cache, without the first
// line, which names the file, and the last, which says who wrote it.
func (c *container) printed() string {
	c.t.Helper()
	out, err := exec.Command(ldconfig, "-p", "-C", c.root+"/etc/ld.so.cache").Output()
	c.check(err)
	lines := strings.SplitAfter(string(out), "\n")
	if !strings.Contains(lines[0], "libs found in cache") {
		c.t.Fatalf("ldconfig -p: %s", out)
	}
	return strings.Join(lines[1:len(lines)-2], "")
}

func (c *container) entries() []ldcache.Entry {
	c.t.Helper()
	data, err := os.ReadFile(c.root + "/etc/ld.so.cache")
	c.check(err)
	entries, err := ldcache.Parse(data)
	c.check(err)
	return entries
}

// dropDangling removes what ldconfig removes and the hook does not: links of
// libraries that lead nowhere.
func (c *container) dropDangling(dirs ...string) {
	c.t.Helper()
	for _, dir := range dirs {
		names, _ := filepath.Glob(c.root + dir + "/*.so.*")
		for _, name := range names {
			target, err := os.Readlink(name)
			if err != nil || filepath.IsAbs(target) {
				continue
			}
			if _, err := os.Stat(name); err != nil {
				c.check(os.Remove(name))
			}
		}
	}
}

// tree is all links of a container below a directory.
func (c *container) tree(dir string) string {
	c.t.Helper()
	out, err := exec.Command("find", c.root+dir, "-type", "l", "-printf", "%P -> %l\n").Output()
	c.check(err)
	lines := strings.Split(string(out), "\n")
	slices.Sort(lines) // find does not
	return strings.Join(lines, "\n")
}

// TestAsLdconfig: of one and the same container, the hook makes the cache and the
// links that the real ldconfig makes of it.
//
// Req: CDI-114, CDI-115, CDI-116, CDI-120
func TestAsLdconfig(t *testing.T) {
	t.Parallel()
	for name, folders := range map[string][]string{
		"two folders": {"/opt/gpu", "/opt/two"}, "the other way round": {"/opt/two", "/opt/gpu"}, "none": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := debian(t), debian(t)
			args := []string{"update-ldcache"}
			for _, f := range folders {
				args = append(args, "--folder="+f)
			}
			for range 2 {
				ours.do(args...)
				if len(folders) > 0 {
					theirs.write(theirs.root+"/etc/ld.so.conf.d/00-mounted-libraries.conf", strings.Join(folders, "\n")+"\n")
				}
				out, err := exec.Command(ldconfig, "-r", theirs.root, "-C", "/etc/ld.so.cache", "-f", "/etc/ld.so.conf").CombinedOutput()
				if err != nil {
					testenv.Lacksf(t, "ldconfig -r: %v\n%s", err, out)
				}
				if got, want := ours.entries(), theirs.entries(); !slices.Equal(got, want) {
					t.Errorf("the entries differ, ISA levels included:\n%+v\n%+v", got, want)
				}
				got, want := ours.printed(), theirs.printed()
				if got != want {
					t.Errorf("the cache differs:\n%s", diff(want, got))
				}
				if got, want := ours.tree("/"), theirs.tree("/"); got != want {
					t.Errorf("the links differ:\n%s", diff(want, got))
				}
				t.Logf("%d libraries", strings.Count(want, "\n"))
			}
		})
	}
}

// diff is the lines that only one of two texts has.
func diff(want, got string) string {
	var b strings.Builder
	has := func(text, line string) bool { return strings.Contains("\n"+text, "\n"+line) }
	for line := range strings.Lines(want) {
		if !has(got, line) {
			b.WriteString("-" + line)
		}
	}
	for line := range strings.Lines(got) {
		if !has(want, line) {
			b.WriteString("+" + line)
		}
	}
	if b.Len() == 0 {
		return "the order only"
	}
	return b.String()
}
