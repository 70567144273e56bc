package main

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/fairlead/fairlead/internal/hook"
)

const help = `Usage: fairlead-hook HOOK [FLAG...] <STATE

Prepares a container for a device. A runtime calls it as a createContainer hook
and gives it the OCI state of the container on stdin.

Hooks:
  create-symlinks --link=TARGET::PATH [--link=...]
        make symbolic links in the container, and the directories that they
        are in; a link or file at PATH is replaced, TARGET need not exist
  update-ldcache [--folder=DIR...]
        have the dynamic linker of the container find the libraries in DIR:
        make their SONAME links and write /etc/ld.so.cache, if there is one
  chmod --mode=MODE --path=PATH [--path=...]
        change the mode of files of the container

Exit codes: 0 done, 1 failed, 2 wrong command line.
`

// usageError is a command line that can never work.
type usageError struct{ error }

// action is a hook with its flags, to be done to the container whose state is
// read.
type action func(stdin io.Reader) error

// verb declares the flags of a hook and returns what it does once they are set.
type verb func(*flag.FlagSet) func(*hook.Root) error

var verbs = map[string]verb{
	"create-symlinks": createSymlinks,
	"update-ldcache":  updateLdcache,
	"chmod":           chmod,
}

// parse reads the command line whole before anything is touched.
func parse(args []string) (action, error) {
	if len(args) == 0 || verbs[args[0]] == nil {
		return nil, usageError{fmt.Errorf("want create-symlinks, update-ldcache or chmod; try --help")}
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	do := verbs[args[0]](flags)
	if err := flags.Parse(args[1:]); err != nil {
		return nil, usageError{err}
	}
	if flags.NArg() > 0 {
		return nil, usageError{fmt.Errorf("argument %q belongs to no flag", flags.Arg(0))}
	}
	if err := required(flags); err != nil {
		return nil, usageError{err}
	}
	return func(stdin io.Reader) error {
		state, err := hook.ReadState(stdin)
		if err != nil {
			return err
		}
		root, err := state.Open()
		if err != nil {
			return err
		}
		defer root.Close()
		return do(root)
	}, nil
}

// required says which flag lacks. All are, but for --folder: without any the
// cache is still brought up to date.
func required(flags *flag.FlagSet) error {
	var err error
	flags.VisitAll(func(f *flag.Flag) {
		if f.Value.String() == "" && f.Name != "folder" {
			err = fmt.Errorf("flag --%s is required", f.Name)
		}
	})
	return err
}

func createSymlinks(flags *flag.FlagSet) func(*hook.Root) error {
	var links []hook.Link
	flags.Var(list(&links, hook.ParseLink), "link", "")
	return func(r *hook.Root) error { return r.CreateSymlinks(links) }
}

func updateLdcache(flags *flag.FlagSet) func(*hook.Root) error {
	var folders []string
	flags.Var(list(&folders, hook.ParseFolder), "folder", "")
	return func(r *hook.Root) error { return r.UpdateCache(folders) }
}

func chmod(flags *flag.FlagSet) func(*hook.Root) error {
	var paths []string
	var modes []uint32
	flags.Var(list(&paths, hook.ParsePath), "path", "")
	flags.Var(list(&modes, hook.ParseMode), "mode", "")
	return func(r *hook.Root) error { return r.Chmod(paths, modes[len(modes)-1]) }
}

// listFlag is a flag that may be given several times.
type listFlag[T any] struct {
	values *[]T
	parse  func(string) (T, error)
}

func list[T any](values *[]T, parse func(string) (T, error)) *listFlag[T] {
	return &listFlag[T]{values, parse}
}

// String is empty as long as the flag was not given.
func (f *listFlag[T]) String() string {
	if f.values == nil {
		return ""
	}
	return strings.TrimSuffix(strings.Repeat("set,", len(*f.values)), ",")
}

// Set is called for each time that the flag is given.
func (f *listFlag[T]) Set(s string) error {
	v, err := f.parse(s)
	if err != nil {
		return err
	}
	*f.values = append(*f.values, v)
	return nil
}
