package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/cdi"
	"github.com/fairlead/fairlead/internal/claim"
)

// envSpecDirs stands in for --spec-dir: a list with colons between.
const envSpecDirs = "FAIRLEAD_CDI_SPEC_DIRS"

// codeSpec is for a spec file that breaks the rules. No daemon is asked by the
// verbs below cdi, so the word is not one of its API.
const codeSpec claim.Code = "invalid_spec"

func newCDI(a *app) *cobra.Command {
	d := &devices{app: a}
	cmd := group(&cobra.Command{
		Use:   "cdi",
		Short: "Look at, check, inject and make CDI devices",
		Long: `Work with CDI specs: the files by which container runtimes know what a device
needs in a container. No daemon is asked.

Specs are looked for in ` + strings.Join(cdi.DefaultDirs, " and ") + `, or in the directories that
--spec-dir names; a later directory wins over an earlier one. A DEVICE is a
qualified name such as vendor.com/class=name, or a pattern in which * stands for
any text, ? for any character and [ab] for one of some: 'vendor.com/*=gpu*'. A
pattern stands for what can be injected; what is in conflict is told on stderr.

What cannot be used differs by exit code: 3 for a device that no spec has, 4 for
one that several specs have at one priority, 10 for a spec that is invalid.`,
		Example: `  fairlead cdi devices
  fairlead cdi explain vendor.com/gpu=0
  fairlead cdi inject config.json vendor.com/gpu=0 --in-place
  fairlead cdi validate /etc/cdi --strict
  fairlead cdi generate /dev/fuse --write`,
	}, newCDIList(d), newCDIVendors(d), newCDIClasses(d), newCDIDevices(d), newCDISpecs(d), newCDIDirs(d),
		newCDIResolve(d), newCDIInject(d), newCDIValidate(d), newCDIMonitor(d), newCDIConvert(d), newCDITransform(d),
		newCDIExplain(d), newCDIGenerate(d), newCDIAnnotate(d))
	f := cmd.PersistentFlags()
	f.StringArrayVar(&d.dirs, "spec-dir", nil, "directory of specs, may be repeated: a later one wins (env "+envSpecDirs+")")
	f.BoolVar(&d.noCache, "no-cache", false, "read every spec file, and keep nothing for the next time")
	_ = cmd.RegisterFlagCompletionFunc("spec-dir", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs))
	return cmd
}

// devices is what the verbs below cdi stand on.
type devices struct {
	*app
	dirs    []string // of --spec-dir
	noCache bool
}

// specDirs are the directories to look into, the one with the lowest priority
// first.
func (d *devices) specDirs() ([]string, error) {
	dirs := d.dirs
	if len(dirs) == 0 {
		dirs = filepath.SplitList(d.getenv(envSpecDirs))
	}
	if len(dirs) == 0 {
		return cdi.DefaultDirs, nil
	}
	if slices.Contains(dirs, "") {
		return nil, claim.Errorf(claim.CodeInvalid, "a spec directory is named by an empty path")
	}
	return dirs, nil
}

func (d *devices) index() (*cdi.Index, error) {
	dirs, err := d.specDirs()
	if err != nil {
		return nil, err
	}
	var options []cdi.Option
	if state := d.stateFile(dirs); state != "" {
		options = append(options, cdi.WithState(state))
	}
	return cdi.NewIndex(dirs, options...), nil
}

// stateFile is where the index of these directories is kept from one run to the
// next: root's with what else lives as long as the host is up, a user's among
// his caches. It is "" where there is no place.
func (d *devices) stateFile(dirs []string) string {
	if d.noCache {
		return ""
	}
	sum := sha256.New()
	for _, dir := range dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return ""
		}
		_, _ = sum.Write([]byte(abs + "\x00"))
	}
	name := fmt.Sprintf("cdi-%x.index", sum.Sum(nil)[:8])
	if os.Geteuid() == 0 {
		// The run directory is the daemon's too, and open to all; the library
		// would make it private to root.
		if err := os.MkdirAll(d.places.Run, 0o755); err != nil {
			return ""
		}
		return filepath.Join(d.places.Run, "cache", name)
	}
	cache := d.getenv("XDG_CACHE_HOME")
	if home := d.getenv("HOME"); !filepath.IsAbs(cache) && home != "" {
		cache = filepath.Join(home, ".cache")
	}
	if !filepath.IsAbs(cache) {
		return ""
	}
	return filepath.Join(cache, "fairlead", name)
}

// isPattern tells a pattern from a name.
func isPattern(s string) bool { return strings.ContainsAny(s, `*?[\`) }

// fits reports whether a name is that pattern, or fits it. A slash is a
// character like any other here.
func fits(pattern, name string) bool {
	flat := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	ok, err := path.Match(flat(pattern), flat(name))
	return ok && err == nil
}

func checkPatterns(patterns []string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return claim.Errorf(claim.CodeInvalid, "pattern %q is malformed", p)
		}
	}
	return nil
}

// choose returns the names that fit any of the patterns, all without patterns.
// A pattern that nothing fits is an error.
func choose(names, patterns []string, what string) ([]string, error) {
	if len(patterns) == 0 {
		return names, nil
	}
	if err := checkPatterns(patterns); err != nil {
		return nil, err
	}
	used := make([]bool, len(patterns))
	var chosen []string
	for _, name := range names {
		for i, p := range patterns {
			if fits(p, name) {
				used[i] = true
				if !slices.Contains(chosen[max(0, len(chosen)-1):], name) {
					chosen = append(chosen, name)
				}
			}
		}
	}
	if i := slices.Index(used, false); i >= 0 {
		return nil, claim.Errorf(claim.CodeNotFound, "no %s is, or fits, %q", what, patterns[i])
	}
	return chosen, nil
}

// expand replaces the patterns among args by the devices of all that fit; names
// stay, known or not. No device is named twice.
func expand(all func() []string, args []string) ([]string, error) {
	var names []string
	seen := map[string]bool{}
	for _, arg := range args {
		found := []string{arg}
		if isPattern(arg) {
			var err error
			if found, err = choose(all(), found, "device"); err != nil {
				return nil, err
			}
		}
		for _, n := range found {
			if !seen[n] {
				seen[n] = true
				names = append(names, n)
			}
		}
	}
	return names, nil
}

// resolve finds devices by names and patterns. A pattern does not find devices
// in conflict: that is told, and an error where it finds no other.
func (d *devices) resolve(x *cdi.Index, args []string) ([]cdi.Ref, error) {
	s := x.Snapshot()
	names, err := expand(s.Devices, args)
	if err != nil {
		if names, err = expand(func() []string { return everyDevice(s) }, args); err != nil {
			return nil, err
		}
	}
	refs, err := x.Resolve(names...)
	if err != nil {
		return nil, unresolved(x, names, err)
	}
	if slices.ContainsFunc(args, isPattern) {
		d.sayPassed(s, names, args)
	}
	return refs, nil
}

// sayPassed tells which devices fit a pattern and are not among those found, for
// they are in conflict.
func (d *devices) sayPassed(s *cdi.Snapshot, found, patterns []string) {
	used := map[string]bool{}
	for _, name := range found {
		used[name] = true
	}
	for _, name := range everyDevice(s) {
		if !used[name] && slices.ContainsFunc(patterns, func(p string) bool { return fits(p, name) }) {
			d.say("passed over: %s is in conflict; see: fairlead cdi explain %s", name, name)
		}
	}
}

// unresolved is err, by which not all of these devices could be had, and says
// what to do about the first that cannot.
func unresolved(x *cdi.Index, names []string, err error) error {
	if errors.Is(err, cdi.ErrUnknownDevice) || errors.Is(err, cdi.ErrUnknownKind) {
		for _, name := range names {
			if bad := blamed(x.Snapshot(), name); len(bad) > 0 {
				return claim.Errorf(codeSpec, "device %q is in a spec that cannot be used: %v", name, bad[0].err).
					WithHint("mend the spec; see: fairlead cdi validate %s", bad[0].path)
			}
		}
	}
	for _, name := range names {
		if _, err := x.Snapshot().Explain(name); err != nil {
			return deviceError(name, err)
		}
	}
	return cdiError(err)
}

// deviceError is cdiError with a hint at what is known of this device.
func deviceError(name string, err error) error {
	told := cdiError(err)
	e, ok := errors.AsType[*claim.Error](told)
	if !ok {
		return told
	}
	kind, _, _ := strings.Cut(name, "=")
	switch {
	case errors.Is(err, cdi.ErrAmbiguous):
		return e.WithHint("see which: fairlead cdi explain %s", name)
	case errors.Is(err, cdi.ErrUnknownDevice):
		return e.WithHint("list what there is: fairlead cdi devices '%s=*'", kind)
	case errors.Is(err, cdi.ErrUnknownKind):
		return e.WithHint("list what there is: fairlead cdi devices")
	}
	return e
}

// cdiError gives an error of the library the code that decides the exit status.
func cdiError(err error) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*claim.Error](err); known {
		return err
	}
	_, broken := errors.AsType[cdi.Problems](err)
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
	}
	code := claim.CodeInternal
	switch {
	case is(cdi.ErrAmbiguous, cdi.ErrConflict, cdi.ErrLoss):
		code = claim.CodeConflict
	case broken, is(cdi.ErrNotSpecFile):
		code = codeSpec
	case is(cdi.ErrUnknownDevice, cdi.ErrUnknownKind):
		code = claim.CodeNotFound
	case is(cdi.ErrInvalid):
		code = claim.CodeInvalid
	case is(fs.ErrNotExist):
		code = claim.CodeNotFound
	case is(fs.ErrPermission):
		code = claim.CodeDenied
	}
	// What is invalid is the command line, not a spec, where nothing is broken.
	return claim.Errorf(code, "%s", strings.TrimSuffix(err.Error(), ": "+cdi.ErrInvalid.Error()))
}

// exclusive refuses two of these flags at once.
func exclusive(cmd *cobra.Command, flags ...string) error {
	given := slices.DeleteFunc(flags, func(f string) bool { return !cmd.Flags().Changed(f) })
	if len(given) > 1 {
		return usage(cmd, "--%s and --%s exclude each other", given[0], given[1])
	}
	return nil
}

// completeDevices offers the names of the devices that can be injected.
func (d *devices) completeDevices(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	x, err := d.index()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	names := slices.DeleteFunc(x.Snapshot().Devices(), func(n string) bool { return slices.Contains(given, n) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeFileThenDevices offers files for the first argument.
func (d *devices) completeFileThenDevices(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(given) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return d.completeDevices(cmd, given, prefix)
}

// completeFiles offers files.
func completeFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}
