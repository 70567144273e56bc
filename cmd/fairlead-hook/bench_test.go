package main

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// measure runs commands to their end, each with the container's state on its
// stdin and nothing between it and the process.
func measure(b *testing.B, c *container, command func() *exec.Cmd) {
	b.Helper()
	c.write(c.bundle+"/state.json", c.state())
	for b.Loop() {
		stdin, err := os.Open(c.bundle + "/state.json")
		c.check(err)
		cmd := command()
		cmd.Stdin = stdin
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		c.check(stdin.Close())
	}
}

// BenchmarkStart is what a process costs that does nothing, to be taken off the
// others: one of this machine's, one in Go that is empty, and the hook.
func BenchmarkStart(b *testing.B) {
	b.Run("empty", func(b *testing.B) {
		c := newContainer(b)
		c.write(c.bundle+"/main.go", "package main\n\nfunc main() {}\n")
		c.check(build(c.bundle+"/empty", "", c.bundle+"/main.go"))
		measure(b, c, func() *exec.Cmd { return exec.Command(c.bundle + "/empty") })
	})
	b.Run("true", func(b *testing.B) {
		measure(b, newContainer(b), func() *exec.Cmd { return exec.Command("/bin/true") })
	})
	b.Run("hook", func(b *testing.B) {
		measure(b, newContainer(b), func() *exec.Cmd { return exec.Command(program, "--version") })
	})
}

// BenchmarkCreateSymlinks makes a new link in a new directory each time.
func BenchmarkCreateSymlinks(b *testing.B) {
	c, n := newContainer(b), 0
	measure(b, c, func() *exec.Cmd {
		n++
		return exec.Command(program, "create-symlinks", fmt.Sprintf("--link=libx.so.1::/opt/%d/libx.so", n))
	})
}

func BenchmarkUpdateLdcache(b *testing.B) {
	emptied := func(c *container, name string, args ...string) func() *exec.Cmd {
		return func() *exec.Cmd {
			c.write(c.root+"/etc/ld.so.cache", "")
			return exec.Command(name, args...)
		}
	}
	b.Run("hook", func(b *testing.B) {
		c := debian(b)
		measure(b, c, emptied(c, program, "update-ldcache", "--folder=/opt/gpu"))
	})
	// What the specification says the hook is equivalent to.
	b.Run("ldconfig", func(b *testing.B) {
		c := debian(b)
		c.write(c.root+"/etc/ld.so.conf.d/00-mounted-libraries.conf", "/opt/gpu\n")
		measure(b, c, emptied(c, ldconfig, "-r", c.root, "-C", "/etc/ld.so.cache", "-f", "/etc/ld.so.conf"))
	})
	// With what an earlier run has remembered of every library, if the image
	// kept that.
	b.Run("ldconfig-remembering", func(b *testing.B) {
		c := debian(b)
		c.write(c.root+"/etc/ld.so.conf.d/00-mounted-libraries.conf", "/opt/gpu\n")
		c.mkdir("/var/cache/ldconfig")
		measure(b, c, emptied(c, ldconfig, "-r", c.root))
	})
}
