// Command fairlead-hook is what container runtimes call to prepare a container
// for a device: the hooks create-symlinks, update-ldcache and chmod of the
// Container Device Interface.
//
// It runs with the rights of the runtime and works on a root file system that
// nobody vouches for. So it is static and small, forgets its environment before
// anything else, executes nothing, and ends after a fixed time.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// version is stamped by the linker: -ldflags "-X main.version=v1.2.3".
var version = "devel"

// deadline is how long a hook may take. It is never near it, unless the runtime
// says nothing or the container's root is on a file system that does not answer.
// A string, so that a test can stamp a shorter one.
var deadline = "30s"

// The exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func main() {
	// Under a runtime that finds no environment in the hook's entry this is the
	// container's, which the image wrote.
	os.Clearenv()
	unix.Umask(0o022)
	limit, err := time.ParseDuration(deadline)
	if err != nil {
		panic(err)
	}
	time.AfterFunc(limit, func() {
		os.Exit(report(os.Stderr, os.Args[1:], fmt.Errorf("not done after %v: do the runtime and the container's file system answer?", limit)))
	})
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program but for the exit.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "--version" || args[0] == "version") {
		fmt.Fprintln(stdout, version)
		return exitOK
	}
	if len(args) == 1 && (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
		fmt.Fprint(stdout, help)
		return exitOK
	}
	do, err := parse(args)
	if err == nil {
		err = do(stdin)
	}
	return report(stderr, args, err)
}

// report says what failed, in one line, because a runtime shows the user no
// more, and returns the exit code.
func report(stderr io.Writer, args []string, err error) int {
	if err == nil {
		return exitOK
	}
	name := "fairlead-hook"
	if len(args) > 0 && verbs[args[0]] != nil {
		name += " " + args[0]
	}
	fmt.Fprintf(stderr, "%s: %s\n", name, oneLine(err.Error()))
	if _, ok := err.(usageError); ok {
		return exitUsage
	}
	return exitError
}

// oneLine also keeps the names that an image may choose from steering a terminal.
func oneLine(s string) string {
	s = strings.ReplaceAll(s, "\n", "; ")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
