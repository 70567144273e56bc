package main

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/cdi"
)

// specOutput says where a made spec goes, and how it is written.
type specOutput struct {
	output
	file    string
	inPlace bool
}

func (o *specOutput) addTo(cmd *cobra.Command) {
	o.output.addTo(cmd, "json", "yaml")
	cmd.Flags().BoolVarP(&o.inPlace, "in-place", "i", false, "write the spec back into its file")
	o.addFileTo(cmd)
}

func (o *specOutput) addFileTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.file, "output-file", "", "write to a file instead of stdout")
	_ = cmd.RegisterFlagCompletionFunc("output-file", completeFiles)
}

// settle decides the format by the name of the file, unless -o says it.
func (o *specOutput) settle(cmd *cobra.Command) error {
	switch ext := filepath.Ext(o.file); {
	case (ext == ".yaml" || ext == ".yml") && !cmd.Flags().Changed("output"):
		o.format = "yaml"
	case ext == ".json" && o.format == "yaml":
		return usage(cmd, "readers take %s for JSON; name it .yaml", o.file)
	}
	return nil
}

// write writes a spec to stdout, or in one step to a file.
func (o *specOutput) write(d *devices, s *cdi.Spec) error {
	text, err := cdi.Marshal(s)
	if err != nil {
		return cdiError(err)
	}
	if o.format == "yaml" {
		if text, err = yamlOf(text); err != nil {
			return fmt.Errorf("encode as YAML: %w", err)
		}
	}
	if o.file != "" {
		return cdiError(saveFile(o.file, text))
	}
	if _, err := d.out.Write(text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// edit reads a spec, or several as one, makes another of it and writes that.
func (o *specOutput) edit(d *devices, cmd *cobra.Command, names []string, make func(*cdi.Spec) (*cdi.Spec, error)) error {
	if err := exclusive(cmd, "in-place", "output-file"); err != nil {
		return err
	}
	if o.inPlace {
		if len(names) > 1 || names[0] == "-" {
			return usage(cmd, "only one file, and not stdin, can be changed in place")
		}
		o.file = names[0]
		unlock, err := lockFile(o.file)
		if err != nil {
			return inputError(err, codeSpec)
		}
		defer unlock()
	}
	if err := o.settle(cmd); err != nil {
		return err
	}
	s, err := d.readSpecs(names)
	if err != nil {
		return err
	}
	made, err := make(s)
	if err != nil {
		return cdiError(err)
	}
	return o.write(d, made)
}

func newCDIConvert(d *devices) *cobra.Command {
	var o specOutput
	to := "minimum"
	cmd := &cobra.Command{
		Use:   "convert FILE|-...",
		Short: "Write specs in another version of the specification, or as one",
		Long: `Write a spec in another version of the specification: --to is a version, "latest",
or "minimum" for the lowest that has all that the spec uses, which most runtimes
read. Where something would be lost the spec is refused, with what that is (exit
code 4).

Several files become one spec. They are to be of one kind, and what they have in
common is to be the same in each (else exit code 4).`,
		Example: `  fairlead cdi convert vendor.json --to 0.5.0
  fairlead cdi convert vendor.yaml --to minimum --in-place
  fairlead cdi convert gpu0.json gpu1.json --output-file gpus.json
  fairlead cdi convert - -o yaml < vendor.json`,
		Args:              args(1, -1, "a FILE"),
		ValidArgsFunction: completeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.edit(d, cmd, args, func(s *cdi.Spec) (*cdi.Spec, error) {
				return cdi.Convert(s, versionOf(s, to))
			})
		},
	}
	o.addTo(cmd)
	cmd.Flags().StringVar(&to, "to", to, `version to write, "minimum" or "latest"`)
	words := append([]string{"minimum", "latest"}, cdi.Versions...)
	_ = cmd.RegisterFlagCompletionFunc("to", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func versionOf(s *cdi.Spec, word string) string {
	switch word {
	case "minimum":
		return cdi.MinimumVersion(s)
	case "latest":
		return cdi.Versions[len(cdi.Versions)-1]
	}
	return word
}

// roots is a repeatable flag FROM=TO of absolute paths.
type roots [][2]string

func (r *roots) String() string { return "" }
func (r *roots) Type() string   { return "from=to" }
func (r *roots) Set(s string) error {
	from, to, ok := strings.Cut(s, "=")
	if !ok || !filepath.IsAbs(from) || !filepath.IsAbs(to) {
		return fmt.Errorf("%q is not FROM=TO with two absolute paths", s)
	}
	*r = append(*r, [2]string{from, to})
	return nil
}

// make moves the paths of s, and tells which moves found none.
func (r roots) make(d *devices, s *cdi.Spec) (*cdi.Spec, error) {
	for _, move := range r {
		moved, err := cdi.TransformRoot(s, move[0], move[1])
		if err != nil {
			return nil, err
		}
		if reflect.DeepEqual(moved, s) {
			d.say("nothing moved: no host path is %s or below it", move[0])
		}
		s = moved
	}
	return s, nil
}

func newCDITransform(d *devices) *cobra.Command {
	var o specOutput
	var moves roots
	cmd := &cobra.Command{
		Use:   "transform FILE|- --root FROM=TO",
		Short: "Move the host paths of a spec to another root",
		Long: `Move every host path of a spec that is FROM, or below it, to the same place below
TO: those of device nodes, mounts and hooks. It is for a driver that is installed,
or seen by the runtime, under another root. Paths in the container stay. --root
may be repeated; each is made after the one before.`,
		Example: `  fairlead cdi transform vendor.json --root /=/run/vendor/driver
  fairlead cdi transform vendor.json --root /host/usr=/usr --root /host/dev=/dev -i`,
		Args:              args(1, 1, "a FILE"),
		ValidArgsFunction: completeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(moves) == 0 {
				return usage(cmd, "%s needs --root FROM=TO", cmd.CommandPath())
			}
			return o.edit(d, cmd, args, func(s *cdi.Spec) (*cdi.Spec, error) {
				return moves.make(d, s)
			})
		},
	}
	o.addTo(cmd)
	cmd.Flags().Var(&moves, "root", "where host paths begin now, and where they are to begin; may be repeated")
	return cmd
}
