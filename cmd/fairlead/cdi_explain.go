package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/cdi"
	"github.com/fairlead/fairlead/internal/claim"
)

// cdiExplanation is what "explain" prints of one device.
type cdiExplanation struct {
	cdiDevice
	Line    int      `json:"line,omitempty"` // where the device stands in the file
	Version string   `json:"cdiVersion,omitempty"`
	Edits   []string `json:"edits,omitempty"` // in words
	Why     string   `json:"why,omitempty"`   // it cannot be had
	// Invalid are the files that have, or may have, the device and break a rule.
	Invalid []cdiInvalid `json:"invalid,omitempty"`
}

type cdiInvalid struct {
	File     string    `json:"file"`
	Problems []finding `json:"problems"`
}

func newCDIExplain(d *devices) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "explain DEVICE...",
		Short: "Say where a device comes from, or why it cannot be had",
		Long: `Say which spec file a device is taken from and which others it hides; or why it
cannot be had: the files that are in conflict, or what is wrong, by line and
column, with the file that has it.

The exit code is that of "resolve": 3 where no spec has it, 4 for a conflict, 10
where the spec that has it is invalid.`,
		Example:           "  fairlead cdi explain vendor.com/gpu=0\n  fairlead cdi explain 'vendor.com/*' -o json",
		Args:              args(1, -1, "a DEVICE"),
		ValidArgsFunction: d.completeDevices,
		RunE: func(_ *cobra.Command, args []string) error {
			x, err := d.index()
			if err != nil {
				return err
			}
			return d.explain(x, args, o)
		},
	}
	o.addTo(cmd, "text", "json", "yaml", "name")
	return cmd
}

func (d *devices) explain(x *cdi.Index, args []string, o output) error {
	s := x.Snapshot()
	names, err := expand(func() []string { return everyDevice(s) }, args)
	if err != nil {
		return err
	}
	list := make([]cdiExplanation, len(names))
	errs := make([]error, len(names))
	lines := fileLines{}
	for i, name := range names {
		list[i], errs[i] = explainDevice(x, name, lines)
	}
	var value any = list
	if len(args) == 1 && !isPattern(args[0]) {
		value = list[0]
	}
	switch o.format {
	case "text":
		for i := range list {
			if i > 0 {
				err = errors.Join(err, d.print(""))
			}
			err = errors.Join(err, d.printExplanation(&list[i]))
		}
	case "name":
		for i := range list {
			err = errors.Join(err, d.print("%s", or(list[i].File, "-")))
		}
	default:
		err = d.value(o.format, value)
	}
	if err != nil {
		return err
	}
	return errors.Join(errs...)
}

// explainDevice gathers what is known; the error says why the device cannot be
// had.
func explainDevice(x *cdi.Index, name string, lines fileLines) (cdiExplanation, error) {
	s := x.Snapshot()
	e := cdiExplanation{cdiDevice: describeDevice(s, name)}
	refs, err := x.Resolve(name)
	if err == nil {
		e.Line = lines.device(e.File, refs[0].Device.Name)
		e.Version = refs[0].Spec.Version
		e.Edits = editWords(refs[0])
	}
	for _, b := range blamed(s, name) {
		e.Invalid = append(e.Invalid, cdiInvalid{b.path, findingsOf(b.path, b.err)})
	}
	switch {
	case err == nil:
		return e, nil
	case errors.Is(err, cdi.ErrAmbiguous):
		err = cdiError(err) // and no hint at this very verb
	case errors.Is(err, cdi.ErrUnknownDevice), errors.Is(err, cdi.ErrUnknownKind):
		if e.State = "unknown"; len(e.Invalid) > 0 {
			e.State = "invalid"
			err = claim.Errorf(codeSpec, "device %q is in %s, which cannot be used", name, e.Invalid[0].File).
				WithHint("mend the file, then see: fairlead cdi validate %s", e.Invalid[0].File)
		}
		err = deviceError(name, err)
	default:
		e.State = "invalid"
		err = cdiError(err)
	}
	e.Why = err.Error()
	return e, err
}

func (d *devices) printExplanation(e *cdiExplanation) error {
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	line := func(key, format string, args ...any) { _, _ = fmt.Fprintf(w, key+"\t"+format+"\n", args...) }
	line("Device:", "%s", e.Device)
	line("State:", "%s", e.State)
	if e.File != "" {
		place := e.File
		if e.Line > 0 {
			place += fmt.Sprintf(":%d", e.Line)
		}
		line("From:", "%s", place)
		line("Version:", "%s", e.Version)
		line("Edits:", "%s", or(strings.Join(e.Edits, ", "), "none"))
	}
	for _, f := range e.Shadowed {
		line("Shadows:", "%s", f)
	}
	for _, f := range e.Conflicts {
		line("Conflict:", "%s", f)
	}
	if e.Why != "" {
		line("Why:", "%s", strings.ReplaceAll(e.Why, "\n", "\n\t"))
	}
	for _, f := range e.Invalid {
		for _, p := range f.Problems {
			line("Invalid:", "%s", p.text())
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// editWords counts what is injected with a device, its spec's edits included.
func editWords(r cdi.Ref) (words []string) {
	for _, part := range []struct {
		what  string
		count func(*cdi.ContainerEdits) int
	}{
		{"env", func(e *cdi.ContainerEdits) int { return len(e.Env) }},
		{"device nodes", func(e *cdi.ContainerEdits) int { return len(e.DeviceNodes) }},
		{"network interfaces", func(e *cdi.ContainerEdits) int { return len(e.NetDevices) }},
		{"mounts", func(e *cdi.ContainerEdits) int { return len(e.Mounts) }},
		{"hooks", func(e *cdi.ContainerEdits) int { return len(e.Hooks) }},
		{"group ids", func(e *cdi.ContainerEdits) int { return len(e.AdditionalGIDs) }},
	} {
		if n := part.count(&r.Spec.ContainerEdits) + part.count(&r.Device.ContainerEdits); n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, part.what))
		}
	}
	if r.Spec.ContainerEdits.IntelRdt != nil || r.Device.ContainerEdits.IntelRdt != nil {
		words = append(words, "intelRdt")
	}
	return words
}

// brokenFile is a spec file that cannot be used.
type brokenFile struct {
	path string
	err  error
}

// blamed are the files that have a device, or would if they were valid. A file
// whose syntax is broken counts if it speaks of the kind and the name.
func blamed(s *cdi.Snapshot, device string) (files []brokenFile) {
	kind, name, _ := strings.Cut(device, "=")
	broken := s.Errors()
	for _, path := range slices.Sorted(maps.Keys(broken)) {
		if text, err := readSome(path); err == nil && mentions(text, kind, name) {
			files = append(files, brokenFile{path, broken[path]})
		}
	}
	return files
}

func mentions(text []byte, kind, name string) bool {
	var loose struct {
		Kind    string
		Devices []struct{ Name string }
	}
	// A decoder reads the first document only and takes no offence at the rest.
	err := yaml.NewDecoder(strings.NewReader(string(text))).Decode(&loose)
	if _, types := errors.AsType[*yaml.TypeError](err); err != nil && !types || loose.Kind == "" {
		return strings.Contains(string(text), kind) && strings.Contains(string(text), name)
	}
	return loose.Kind == kind && slices.ContainsFunc(loose.Devices, func(d struct{ Name string }) bool { return d.Name == name })
}

// fileLines are, by file, the lines on which its devices begin.
type fileLines map[string]map[string]int

// device is the line on which a device begins, 0 if it cannot be told.
func (l fileLines) device(path, name string) int {
	if l[path] == nil {
		l[path] = deviceLines(path)
	}
	return l[path][name]
}

func deviceLines(path string) map[string]int {
	lines := map[string]int{}
	text, err := readSome(path)
	if err != nil {
		return lines
	}
	places := textPlaces{text: text}
	list := places.find("$.devices")
	if list == nil {
		return lines
	}
	for _, n := range list.Content {
		if name := child(n, "name"); name != nil {
			lines[name.Value] = n.Line
		}
	}
	return lines
}

// cdiResolved is what "resolve" prints of one device.
type cdiResolved struct {
	Device      string             `json:"device"`
	File        string             `json:"file"`
	Version     string             `json:"cdiVersion"`
	Annotations map[string]string  `json:"annotations,omitempty"`
	SpecEdits   cdi.ContainerEdits `json:"specEdits,omitzero"` // made once for all devices of the file
	Edits       cdi.ContainerEdits `json:"containerEdits"`
}

func newCDIResolve(d *devices) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "resolve DEVICE...",
		Short: "Find devices, and what they bring into a container",
		Long: `Find devices by name or pattern: the file that each is taken from and, with -o
json, the edits that it makes. All must be found.`,
		Example:           "  fairlead cdi resolve vendor.com/gpu=0\n  fairlead cdi resolve 'vendor.com/gpu=*' -o json",
		Args:              args(1, -1, "a DEVICE"),
		ValidArgsFunction: d.completeDevices,
		RunE: func(_ *cobra.Command, args []string) error {
			x, err := d.index()
			if err != nil {
				return err
			}
			refs, err := d.resolve(x, args)
			if err != nil {
				return err
			}
			return d.list(o, resolvedListing(x.Snapshot(), refs))
		},
	}
	o.addTo(cmd, listFormats()...)
	return cmd
}

func resolvedListing(s *cdi.Snapshot, refs []cdi.Ref) listing {
	value := []cdiResolved{}
	l := listing{columns: []string{"DEVICE", "FILE"}, wide: []string{"VERSION", "EDITS"}}
	for _, r := range refs {
		file, _ := s.Explain(r.String()) // it was resolved
		value = append(value, cdiResolved{r.String(), file.File, r.Spec.Version, r.Device.Annotations, r.Spec.ContainerEdits, r.Device.ContainerEdits})
		l.rows = append(l.rows, row{
			name:  r.String(),
			cells: []string{r.String(), file.File},
			wide:  []string{r.Spec.Version, dash(strings.Join(editWords(r), ", "))},
		})
	}
	l.value = value
	return l
}
