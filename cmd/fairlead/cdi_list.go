package main

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/cdi"
)

// cdiDevice is what the listings of devices print of one.
type cdiDevice struct {
	Device string `json:"device"`
	Vendor string `json:"vendor"`
	Class  string `json:"class"`
	Name   string `json:"name"`
	State  string `json:"state"`          // ready or conflict
	File   string `json:"file,omitempty"` // that it is taken from
	// Conflicts have it at one priority, Shadowed at a lower one.
	Conflicts []string `json:"conflicts,omitempty"`
	Shadowed  []string `json:"shadowed,omitempty"`
}

func describeDevice(s *cdi.Snapshot, device string) cdiDevice {
	kind, name, _ := strings.Cut(device, "=")
	vendor, class, _ := strings.Cut(kind, "/")
	d := cdiDevice{Device: device, Vendor: vendor, Class: class, Name: name, State: "ready"}
	e, err := s.Explain(device)
	if err != nil {
		d.State = "conflict"
	}
	d.File, d.Conflicts, d.Shadowed = e.File, e.Rivals, e.Shadowed
	return d
}

// everyDevice names the devices of all valid specs, those in conflict too.
func everyDevice(s *cdi.Snapshot) []string {
	names := map[string]bool{}
	for _, spec := range s.Specs() {
		for _, d := range spec.Devices {
			names[cdi.QualifiedName(spec.Kind, d)] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func deviceListing(s *cdi.Snapshot, names []string) listing {
	value := []cdiDevice{}
	l := listing{
		columns: []string{"DEVICE", "STATE", "FILE"},
		wide:    []string{"CONFLICTS", "SHADOWED"},
		empty:   "no devices",
	}
	for _, name := range names {
		d := describeDevice(s, name)
		value = append(value, d)
		l.rows = append(l.rows, row{
			name:  name,
			cells: []string{name, d.State, dash(d.File)},
			wide:  []string{dash(strings.Join(d.Conflicts, ",")), dash(strings.Join(d.Shadowed, ","))},
		})
	}
	l.value = value
	return l
}

// cdiListVerb is a verb that prints a listing of a snapshot.
func cdiListVerb(d *devices, cmd *cobra.Command, list func(*cdi.Snapshot, []string) (listing, error)) *cobra.Command {
	var o output
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		x, err := d.index()
		if err != nil {
			return err
		}
		s := x.Snapshot()
		l, err := list(s, args)
		if err != nil {
			return err
		}
		d.sayBroken(s)
		return d.list(o, l)
	}
	o.addTo(cmd, listFormats()...)
	return cmd
}

// sayBroken tells that some specs are not used: a person who looks for a device
// should know, and a script's data stays clean.
func (d *devices) sayBroken(s *cdi.Snapshot) {
	broken := s.Errors()
	for _, path := range slices.Sorted(maps.Keys(broken)) {
		first, _, more := strings.Cut(broken[path].Error(), "\n")
		if more {
			first += " …"
		}
		d.say("not used: %s", first)
	}
}

func newCDIList(d *devices) *cobra.Command {
	return cdiListVerb(d, &cobra.Command{
		Use:     "list [DEVICE...]",
		Aliases: []string{"ls"},
		Short:   "List every device, those in conflict too",
		Long: `List the devices of all valid specs: where each is taken from, and which cannot
be had because several specs have it at one priority. That a spec is invalid is
said on stderr.`,
		Example:           "  fairlead cdi list\n  fairlead cdi list -o wide\n  fairlead cdi list 'vendor.com/*' -o json",
		ValidArgsFunction: d.completeDevices,
	}, func(s *cdi.Snapshot, args []string) (listing, error) {
		names, err := choose(everyDevice(s), args, "device")
		return deviceListing(s, names), err
	})
}

func newCDIDevices(d *devices) *cobra.Command {
	return cdiListVerb(d, &cobra.Command{
		Use:               "devices [DEVICE...]",
		Short:             "List the devices that can be injected",
		Long:              "List the devices that a container can be given.",
		Example:           "  fairlead cdi devices\n  fairlead cdi devices 'vendor.com/gpu=*' -o name",
		ValidArgsFunction: d.completeDevices,
	}, func(s *cdi.Snapshot, args []string) (listing, error) {
		names, err := choose(s.Devices(), args, "device")
		return deviceListing(s, names), err
	})
}

// cdiGroup is what "vendors" and "classes" print of one.
type cdiGroup struct {
	Name    string   `json:"name"`
	Kinds   []string `json:"kinds"`
	Devices int      `json:"devices"`
}

// cdiGroups counts the devices that can be injected by a part of their kind.
func cdiGroups(s *cdi.Snapshot, part func(vendor, class string) string) map[string]*cdiGroup {
	groups := map[string]*cdiGroup{}
	of := func(kind string) *cdiGroup {
		vendor, class, _ := strings.Cut(kind, "/")
		name := part(vendor, class)
		if groups[name] == nil {
			groups[name] = &cdiGroup{Name: name}
		}
		return groups[name]
	}
	for _, kind := range s.Kinds() {
		g := of(kind)
		g.Kinds = append(g.Kinds, kind)
	}
	for _, device := range s.Devices() {
		kind, _, _ := strings.Cut(device, "=")
		of(kind).Devices++
	}
	return groups
}

func cdiGroupVerb(d *devices, what string, cmd *cobra.Command, part func(vendor, class string) string) *cobra.Command {
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		x, err := d.index()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return slices.Sorted(maps.Keys(cdiGroups(x.Snapshot(), part))), cobra.ShellCompDirectiveNoFileComp
	}
	return cdiListVerb(d, cmd, func(s *cdi.Snapshot, args []string) (listing, error) {
		groups := cdiGroups(s, part)
		names, err := choose(slices.Sorted(maps.Keys(groups)), args, what)
		value := []cdiGroup{}
		l := listing{columns: []string{strings.ToUpper(what), "DEVICES"}, wide: []string{"KINDS"}, empty: "no specs"}
		for _, name := range names {
			g := groups[name]
			value = append(value, *g)
			l.rows = append(l.rows, row{name: name, cells: []string{name, count(g.Devices)}, wide: []string{strings.Join(g.Kinds, ",")}})
		}
		l.value = value
		return l, err
	})
}

func newCDIVendors(d *devices) *cobra.Command {
	return cdiGroupVerb(d, "vendor", &cobra.Command{
		Use:     "vendors [VENDOR...]",
		Short:   "List the vendors",
		Long:    "List the vendors of all valid specs: what stands before the slash of a kind.",
		Example: "  fairlead cdi vendors\n  fairlead cdi vendors -o name",
	}, func(vendor, _ string) string { return vendor })
}

func newCDIClasses(d *devices) *cobra.Command {
	return cdiGroupVerb(d, "class", &cobra.Command{
		Use:     "classes [CLASS...]",
		Short:   "List the classes",
		Long:    "List the classes of all valid specs: what stands after the slash of a kind.",
		Example: "  fairlead cdi classes\n  fairlead cdi classes -o wide",
	}, func(_, class string) string { return class })
}

// cdiSpecFile is what "specs" prints of one.
type cdiSpecFile struct {
	Path    string   `json:"path"`
	State   string   `json:"state"` // ready or invalid
	Kind    string   `json:"kind,omitempty"`
	Devices []string `json:"devices,omitempty"`
	Error   string   `json:"error,omitempty"`
}

func newCDISpecs(d *devices) *cobra.Command {
	return cdiListVerb(d, &cobra.Command{
		Use:   "specs [KIND|VENDOR|PATH...]",
		Short: "List the spec files, invalid ones too",
		Long: `List the spec files of the directories, the lowest priority first, by kind,
vendor or path if any is given. What is wrong with an invalid one is told by
"fairlead cdi validate", and under "error" with -o json.`,
		Example: "  fairlead cdi specs\n  fairlead cdi specs vendor.com -o json\n  fairlead cdi specs 'vendor.com/*' -o name",
	}, func(s *cdi.Snapshot, args []string) (listing, error) {
		files, err := chooseSpecs(specFiles(s), args)
		l := listing{columns: []string{"PATH", "KIND", "STATE", "DEVICES"}, wide: []string{"NAMES"}, value: files, empty: "no specs"}
		for _, f := range files {
			l.rows = append(l.rows, row{
				name:  f.Path,
				cells: []string{f.Path, dash(f.Kind), f.State, count(len(f.Devices))},
				wide:  []string{dash(strings.Join(f.Devices, ","))},
			})
		}
		return l, err
	})
}

func specFiles(s *cdi.Snapshot) []cdiSpecFile {
	files := []cdiSpecFile{}
	for _, f := range s.Specs() {
		files = append(files, cdiSpecFile{Path: f.Path, State: "ready", Kind: f.Kind, Devices: f.Devices})
	}
	broken := s.Errors()
	for _, path := range slices.Sorted(maps.Keys(broken)) {
		files = append(files, cdiSpecFile{Path: path, State: "invalid", Error: broken[path].Error()})
	}
	return files
}

// chooseSpecs keeps those of a kind, vendor or path.
func chooseSpecs(files []cdiSpecFile, args []string) ([]cdiSpecFile, error) {
	if len(args) == 0 {
		return files, nil
	}
	var names []string
	for _, f := range files {
		vendor, _, _ := strings.Cut(f.Kind, "/")
		names = append(names, f.Path, f.Kind, vendor)
	}
	chosen, err := choose(slices.DeleteFunc(names, func(n string) bool { return n == "" }), args, "spec")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(files, func(f cdiSpecFile) bool {
		vendor, _, _ := strings.Cut(f.Kind, "/")
		return !slices.ContainsFunc([]string{f.Path, f.Kind, vendor}, func(n string) bool { return slices.Contains(chosen, n) })
	}), nil
}

// cdiDir is what "dirs" prints of one.
type cdiDir struct {
	Path     string `json:"path"`
	Priority int    `json:"priority"` // the higher wins
	State    string `json:"state"`    // ready, absent or unreadable
	Specs    int    `json:"specs"`    // the valid ones
	Error    string `json:"error,omitempty"`
}

func newCDIDirs(d *devices) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "dirs",
		Short:   "List the directories of specs",
		Long:    "List the directories of specs and their priorities; the higher wins.",
		Example: "  fairlead cdi dirs\n  fairlead cdi dirs --spec-dir /etc/cdi --spec-dir /run/cdi -o json",
		Args:    args(0, 0, "nothing"),
	}
	return cdiListVerb(d, cmd, func(s *cdi.Snapshot, _ []string) (listing, error) {
		dirs, err := d.specDirs()
		broken := s.Errors()
		value := []cdiDir{}
		l := listing{columns: []string{"PATH", "PRIORITY", "STATE", "SPECS"}, wide: []string{"ERROR"}}
		for i, path := range dirs {
			dir := cdiDir{Path: path, Priority: i, State: "ready", Specs: specsIn(s, path)}
			if err := broken[filepath.Clean(path)]; err != nil {
				dir.State, dir.Error = "unreadable", err.Error()
			} else if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				dir.State = "absent"
			}
			value = append(value, dir)
			l.rows = append(l.rows, row{name: path, cells: []string{path, count(i), dir.State, count(dir.Specs)}, wide: []string{dash(dir.Error)}})
		}
		l.value = value
		return l, err
	})
}

func specsIn(s *cdi.Snapshot, dir string) (n int) {
	for _, f := range s.Specs() {
		if filepath.Dir(f.Path) == filepath.Clean(dir) {
			n++
		}
	}
	return n
}
