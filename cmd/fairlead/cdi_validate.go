package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/cdi"
	"github.com/fairlead/fairlead/internal/claim"
)

// finding is one thing that "validate" has to say.
type finding struct {
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"`   // from 1
	Column   int      `json:"column,omitempty"` // from 1, in bytes
	Path     string   `json:"path,omitempty"`   // as in $.devices[0].name
	Severity severity `json:"severity"`
	Rule     string   `json:"rule"`
	Clause   string   `json:"clause,omitempty"` // of the specification
	Message  string   `json:"message"`
	Fix      string   `json:"fix,omitempty"` // what to write instead
}

type severity string

const (
	severityError   severity = "error"
	severityWarning severity = "warning"
)

// ruleConflict is the one error that lies in no single file.
const ruleConflict = "conflict"

func (f *finding) place() string {
	if f.Line == 0 {
		return f.File
	}
	return f.File + ":" + strconv.Itoa(f.Line) + ":" + strconv.Itoa(f.Column)
}

// text is the finding as compilers write theirs.
func (f *finding) text() string {
	s := f.place() + ": " + string(f.Severity) + ": "
	if f.Path != "" {
		s += f.Path + ": "
	}
	s += f.Message + " [" + f.Rule + "]"
	if f.Fix != "" {
		s += "; write " + f.Fix
	}
	return s
}

// findingsOf takes the error of a spec file apart.
func findingsOf(path string, err error) []finding {
	problems, ok := errors.AsType[cdi.Problems](err)
	if !ok {
		rule := string(cdi.RuleFile)
		message := strings.TrimPrefix(errnoOf(err).Error(), cdi.ErrNotSpecFile.Error()+": ")
		return []finding{{File: path, Severity: severityError, Rule: rule, Message: message}}
	}
	var list []finding
	for _, p := range problems {
		list = append(list, finding{
			File: path, Line: p.Line, Column: p.Column, Path: p.Path, Severity: severityError,
			Rule: string(p.Rule), Clause: p.Rule.Clause(), Message: p.Message, Fix: p.Fix,
		})
	}
	return list
}

func newCDIValidate(d *devices) *cobra.Command {
	var o output
	var strict, noHost bool
	cmd := &cobra.Command{
		Use:   "validate [FILE|DIRECTORY|-]...",
		Short: "Check spec files against the specification, and for pitfalls",
		Long: `Check spec files, or all of directories; without arguments those of the spec
directories. What breaks the specification is an error. What it allows, and is
likely to fail or to be unsafe on this host, is a warning with one of these rules:

` + lintRules() + `

The exit code is 3 if a file that is named does not exist, 10 if one is invalid,
4 if devices are in conflict, and otherwise 0 or, with --strict and any warning,
1. Whatever it is, all the rest is checked.`,
		Example: `  fairlead cdi validate
  fairlead cdi validate /etc/cdi/vendor.json --strict
  vendor-tool | fairlead cdi validate - --no-host -o json`,
		ValidArgsFunction: completeFiles,
		RunE: func(_ *cobra.Command, args []string) error {
			v := validation{devices: d, host: !noHost}
			unread := v.all(args)
			if err := v.report(o, strict); unread == nil {
				return err
			}
			return unread
		},
	}
	f := cmd.Flags()
	f.BoolVar(&strict, "strict", false, "fail with warnings too")
	f.BoolVar(&noHost, "no-host", false, "leave out what depends on this host: paths, modes, owners")
	o.addTo(cmd, "text", "table", "json", "yaml", "name")
	return cmd
}

// validation is one run of "validate".
type validation struct {
	*devices
	host     bool
	files    int
	seen     map[string]bool // files
	findings []finding
	owners   map[string][]string // device in a directory to the files that have it
}

// all checks all that is named, and returns what could not be read.
func (v *validation) all(args []string) error {
	v.owners, v.seen = map[string][]string{}, map[string]bool{}
	var unread []error
	if len(args) == 0 {
		dirs, err := v.specDirs()
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			if err := v.directory(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				unread = append(unread, cdiError(err))
			}
		}
	}
	for _, arg := range args {
		if err := v.argument(arg); err != nil {
			unread = append(unread, inputError(err, codeSpec))
		}
	}
	v.conflicts()
	return errors.Join(unread...)
}

func (v *validation) argument(arg string) error {
	fi, err := os.Stat(arg)
	switch named := err == nil && arg != "-"; {
	case named && fi.IsDir():
		return v.directory(arg)
	case named && fi.Mode().IsRegular():
		v.file(arg)
		return nil
	case v.seen[arg]:
		return nil // a pipe can be read once
	}
	v.seen[arg] = true
	text, err := v.readNamed(arg)
	if err == nil {
		v.text(arg, text)
	}
	return err
}

// directory checks the spec files of a directory and the directory itself.
func (v *validation) directory(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("validate: %w", err)
	}
	if v.host {
		v.lintWritable(dir, "dir-writable", "the directory")
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch filepath.Ext(path) {
		case ".json", ".yaml":
			v.file(path)
		case ".yml":
			v.warn(finding{File: path, Rule: "file-ignored", Message: "runtimes read files that end in .json or .yaml only"})
		}
	}
	return nil
}

func (v *validation) file(path string) {
	if path = filepath.Clean(path); v.seen[path] {
		return
	}
	v.seen[path] = true
	text, err := readSome(path)
	if err != nil {
		v.files++
		v.findings = append(v.findings, findingsOf(path, err)...)
		return
	}
	if v.host {
		v.lintFile(path)
	}
	for _, device := range v.text(path, text) {
		key := filepath.Dir(path) + "\x00" + device
		v.owners[key] = append(v.owners[key], path)
	}
}

// text checks the text of one spec, and names its devices if it is valid.
func (v *validation) text(path string, text []byte) (devices []string) {
	v.files++
	spec, err := parseSpec(path, text)
	if err != nil {
		v.findings = append(v.findings, findingsOf(path, err)...)
		return nil
	}
	l := linter{validation: v, file: path, places: &textPlaces{text: text}}
	l.spec(spec)
	for _, device := range spec.Devices {
		devices = append(devices, cdi.QualifiedName(spec.Kind, device.Name))
	}
	return devices
}

// conflicts finds devices that two files of a directory have.
func (v *validation) conflicts() {
	for _, key := range slices.Sorted(maps.Keys(v.owners)) {
		if files := v.owners[key]; len(files) > 1 {
			_, device, _ := strings.Cut(key, "\x00")
			v.findings = append(v.findings, finding{
				File: files[0], Severity: severityError, Rule: ruleConflict,
				Message: fmt.Sprintf("device %q cannot be used, for it is in %s too", device, strings.Join(files[1:], ", ")),
			})
		}
	}
}

func (v *validation) warn(f finding) {
	f.Severity = severityWarning
	v.findings = append(v.findings, f)
}

// report prints the findings and decides the exit status.
func (v *validation) report(o output, strict bool) error {
	slices.SortStableFunc(v.findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if err := v.print(o); err != nil {
		return err
	}
	invalid, conflicts, warnings := map[string]bool{}, 0, 0
	for _, f := range v.findings {
		switch {
		case f.Severity == severityWarning:
			warnings++
		case f.Rule == ruleConflict:
			conflicts++
		default:
			invalid[f.File] = true
		}
	}
	told := fmt.Sprintf("%s checked: %d invalid, %s, %s", counted(v.files, "spec"), len(invalid), counted(conflicts, "conflict"), counted(warnings, "warning"))
	switch {
	case len(invalid) > 0:
		return claim.Errorf(codeSpec, "%s", told)
	case conflicts > 0:
		return claim.Errorf(claim.CodeConflict, "%s", told)
	case strict && warnings > 0:
		return claim.Errorf(claim.CodeInternal, "%s", told)
	}
	v.say("%s", told)
	return nil
}

func (v *validation) print(o output) error {
	switch o.format {
	case "text":
		for i := range v.findings {
			if err := v.devices.print("%s", v.findings[i].text()); err != nil {
				return err
			}
		}
		return nil
	case "name":
		var names []string
		for _, f := range v.findings {
			if !slices.Contains(names, f.File) {
				names = append(names, f.File)
			}
		}
		for _, n := range names {
			if err := v.devices.print("%s", n); err != nil {
				return err
			}
		}
		return nil
	}
	l := listing{columns: []string{"PLACE", "SEVERITY", "RULE", "MESSAGE"}, value: append([]finding{}, v.findings...)}
	for _, f := range v.findings {
		l.rows = append(l.rows, row{cells: []string{f.place(), string(f.Severity), f.Rule, f.Message}})
	}
	return v.list(o, l)
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return count(n) + " " + what
}
