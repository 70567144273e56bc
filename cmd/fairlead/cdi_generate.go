package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/cdi"
	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/device"
)

// cdiGeneration are the flags of "generate".
type cdiGeneration struct {
	specOutput
	host                device.Host
	vendor, class, name string
	store, add, list    bool
}

func newCDIGenerate(d *devices) *cobra.Command {
	o := cdiGeneration{vendor: "fairlead.dev"}
	cmd := &cobra.Command{
		Use:   "generate MATCH...",
		Short: "Make a spec of devices of this host",
		Long: `Find devices of this host and make a CDI spec of them. A MATCH is a path or a
pattern of paths below /dev, or a kind, and may say more:

  /dev/fuse, '/dev/ttyUSB*'    device nodes
  dri, kvm, tpm                every device of a kind
  dri:pci-0000_03_00.0         one by its name, or a pattern of names
  usb:0403:6001                a USB device by vendor and product (and :serial)
  'nvidia,model=*H100*'        a kind and attributes

The kinds are ` + kindWords(8) + `.

Names come from what identifies the hardware, so that they are the same after a
reboot. Device numbers are left out: they are read when a container starts. The
class is the kind of the devices unless --class says another. With --write the
spec goes into the spec directory with the highest priority, one file for each
kind, whose names are printed. It takes the place of one that was written before;
with --add the devices of that stay, unless they are found anew. --list shows what would be found.`,
		Example: `  fairlead cdi generate --list
  fairlead cdi generate /dev/fuse --write
  fairlead cdi generate dri --vendor example.com --class gpu > gpu.json
  fairlead cdi generate '/dev/snd/*' --class audio --name all --output-file audio.yaml`,
		ValidArgsFunction: completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !o.list {
				return usage(cmd, "%s needs a MATCH", cmd.CommandPath())
			}
			return d.generate(cmd, &o, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.vendor, "vendor", o.vendor, "vendor of the devices")
	f.StringVar(&o.class, "class", "", "class of the devices (default: their kind)")
	f.StringVar(&o.name, "name", "", "make one device of this name of all that is found")
	f.BoolVarP(&o.store, "write", "w", false, "write into the spec directory with the highest priority")
	f.BoolVar(&o.add, "add", false, "with --write, keep the other devices that the file has")
	f.BoolVar(&o.list, "list", false, "list the devices that are found, and make nothing")
	f.StringVar(&o.host.Root, "host-root", "", "directory that holds the host's dev, sys and proc (default /)")
	f.StringVar(&o.host.DriverRoot, "driver-root", "", "where NVIDIA's driver is installed")
	f.StringVar(&o.host.Hook, "hook", "", "the hook program on the host (default where it is installed)")
	_ = cmd.RegisterFlagCompletionFunc("host-root", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs))
	_ = cmd.RegisterFlagCompletionFunc("driver-root", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs))
	_ = cmd.RegisterFlagCompletionFunc("hook", completeFiles)
	o.addFileTo(cmd)
	o.output.addTo(cmd, "json", "yaml", "table", "wide", "name")
	return cmd
}

func kindWords(line int) string {
	var b strings.Builder
	for i, k := range device.Kinds() {
		switch {
		case i > 0 && i%line == 0:
			b.WriteString(",\n")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(k))
	}
	return b.String()
}

func completeKinds(*cobra.Command, []string, string) (words []string, _ cobra.ShellCompDirective) {
	for _, k := range device.Kinds() {
		words = append(words, string(k))
	}
	return words, cobra.ShellCompDirectiveDefault
}

func (d *devices) generate(cmd *cobra.Command, o *cdiGeneration, args []string) error {
	if err := exclusive(cmd, "write", "output-file", "list"); err != nil {
		return err
	}
	if err := o.settle(cmd); err != nil {
		return err
	}
	switch {
	case o.add && !o.store:
		return usage(cmd, "--add is for --write")
	case o.store && cmd.Flags().Changed("output"):
		return usage(cmd, "--write writes JSON; for -o %s name an --output-file", o.format)
	}
	if o.host.Hook == "" && o.host.Root == "" {
		o.host.Hook = findHook(hookDirs())
	}
	found, err := o.find(cmd.Context(), args)
	if err != nil {
		return err
	}
	if o.list {
		if !cmd.Flags().Changed("output") {
			o.format = "table"
		}
		return d.list(o.output, hostListing(found))
	}
	if o.format == "table" || o.format == "wide" || o.format == "name" {
		return usage(cmd, "-o %s is for --list", o.format)
	}
	specs, err := o.specs(found)
	if err != nil {
		return err
	}
	if o.store {
		return d.writeSpecs(specs, o.add)
	}
	if len(specs) > 1 {
		return claim.Errorf(claim.CodeInvalid, "the devices are of several kinds, and a spec has one: %s", strings.Join(kindsOf(specs), ", ")).
			WithHint("give --class, or --write for one file each")
	}
	return o.write(d, specs[0])
}

// find gathers what the matches find, each device once. A match that finds
// nothing is an error.
func (o *cdiGeneration) find(ctx context.Context, args []string) ([]device.Device, error) {
	if len(args) == 0 {
		found, err := o.host.List(ctx)
		return found, cdiError(err)
	}
	var all []device.Device
	for _, arg := range args {
		m, err := device.ParseMatch(arg)
		if err != nil {
			return nil, hostError(err)
		}
		found, err := o.host.Find(ctx, m)
		if err != nil {
			return nil, hostError(err)
		}
		if len(found) == 0 && !o.list {
			return nil, claim.Errorf(claim.CodeNotFound, "no device of this host is, or fits, %q", arg).
				WithHint("list what there is: fairlead cdi generate --list")
		}
		for _, f := range found {
			if !slices.ContainsFunc(all, func(a device.Device) bool { return a.Kind == f.Kind && reflect.DeepEqual(a.Nodes, f.Nodes) }) {
				all = append(all, f)
			}
		}
	}
	return all, nil
}

func hostError(err error) error {
	if errors.Is(err, device.ErrInvalid) {
		text := strings.TrimSuffix(err.Error(), ": "+device.ErrInvalid.Error())
		return claim.Errorf(claim.CodeInvalid, "%s", text).WithHint("see: fairlead cdi generate --help")
	}
	return cdiError(err)
}

// specs makes one spec of the devices if they are to be of one class, or one for
// each kind of device.
func (o *cdiGeneration) specs(found []device.Device) ([]*cdi.Spec, error) {
	byClass := map[string][]device.Device{}
	var classes []string
	for _, f := range found {
		class := cmp.Or(o.class, string(f.Kind))
		if byClass[class] == nil {
			classes = append(classes, class)
		}
		byClass[class] = append(byClass[class], f)
	}
	var specs []*cdi.Spec
	for _, class := range classes {
		kind := o.vendor + "/" + class
		s := o.host.Spec(kind, distinct(byClass[class]))
		if o.name != "" {
			s = o.host.SpecOfOne(kind, o.name, byClass[class])
		}
		if err := cdi.Validate(s); err != nil {
			// Its vendor, class and name are those of the command line.
			return nil, claim.Errorf(claim.CodeInvalid, "make a spec: %v", err)
		}
		specs = append(specs, s)
	}
	return specs, nil
}

// distinct puts the kind before the names of devices of several kinds that have
// one name.
func distinct(found []device.Device) []device.Device {
	named := map[string]int{}
	for _, f := range found {
		named[f.Name]++
	}
	for i, f := range found {
		if named[f.Name] > 1 {
			found[i].Name = string(f.Kind) + "-" + f.Name
		}
	}
	return found
}

func kindsOf(specs []*cdi.Spec) (kinds []string) {
	for _, s := range specs {
		kinds = append(kinds, s.Kind)
	}
	return kinds
}

// writeSpecs writes each spec into the directory with the highest priority.
func (d *devices) writeSpecs(specs []*cdi.Spec, add bool) error {
	dirs, err := d.specDirs()
	if err != nil {
		return err
	}
	dir := dirs[len(dirs)-1]
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return cdiError(fmt.Errorf("write CDI specs: %w", err))
	}
	unlock, err := lockDirectory(dir)
	if err != nil {
		return cdiError(err)
	}
	defer unlock()
	for _, s := range specs {
		if err := d.writeSpec(dir, s, add); err != nil {
			return err
		}
	}
	return nil
}

// writeSpec writes a spec in the place of the one before, and tells which devices
// are no longer there; or keeps them.
func (d *devices) writeSpec(dir string, s *cdi.Spec, add bool) error {
	name := cdi.FileName(s.Kind, "")
	path := filepath.Join(dir, name)
	before, err := d.readSpec(path)
	switch {
	case claim.CodeOf(err) == claim.CodeNotFound, err != nil && !add:
		before = nil
	case err != nil:
		return err
	default:
		before.Devices = slices.DeleteFunc(before.Devices, func(b cdi.Device) bool {
			return slices.ContainsFunc(s.Devices, func(d cdi.Device) bool { return d.Name == b.Name })
		})
	}
	gone := before != nil && len(before.Devices) > 0
	if gone && add {
		if s, err = cdi.Merge(before, s); err != nil {
			return cdiError(fmt.Errorf("add to %s: %w", path, err))
		}
	}
	if err := cdi.Write(dir, name, s); err != nil {
		return cdiError(err)
	}
	d.say("wrote %s with %s", s.Kind, counted(len(s.Devices), "device"))
	if gone && !add {
		d.say("no longer in it: %s; --add keeps what is there", strings.Join(deviceNames(before), ", "))
	}
	return d.print("%s", path)
}

func deviceNames(s *cdi.Spec) (names []string) {
	for _, d := range s.Devices {
		names = append(names, d.Name)
	}
	return names
}

// hostListing lists devices of the host that could be put into a spec.
func hostListing(found []device.Device) listing {
	l := listing{
		columns: []string{"KIND", "NAME", "NODES"},
		wide:    []string{"ATTRIBUTES"},
		value:   append([]device.Device{}, found...),
		empty:   "no devices",
	}
	for _, f := range found {
		var nodes []string
		for _, n := range f.Nodes {
			nodes = append(nodes, n.HostPath)
		}
		l.rows = append(l.rows, row{
			name:  string(f.Kind) + ":" + f.Name,
			cells: []string{string(f.Kind), f.Name, strings.Join(nodes, ",")},
			wide:  []string{dash(joined(f.Attributes))},
		})
	}
	return l
}
