package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/cdi"
	"github.com/fairlead/fairlead/internal/claim"
)

// cdiAnnotation are the flags of "annotate".
type cdiAnnotation struct {
	output
	plugin, id, parse string
}

func newCDIAnnotate(d *devices) *cobra.Command {
	var o cdiAnnotation
	cmd := &cobra.Command{
		Use:   "annotate --plugin PLUGIN --id ID DEVICE... | --parse FILE|-",
		Short: "Write or read the annotations that ask for devices",
		Long: `Print the annotation by which a runtime is asked for devices:

  ` + cdi.AnnotationPrefix + `PLUGIN_ID: DEVICE,DEVICE

PLUGIN is by custom vendor.class, and ID tells one allocation from the next. The
devices need not be known on this host, except those of patterns.

With --parse, print the devices that annotations ask for. The file holds an OCI
configuration, a Kubernetes object, or just a map of annotations, as JSON or YAML.`,
		Example: `  fairlead cdi annotate --plugin vendor.gpu --id pod1 vendor.com/gpu=0 vendor.com/gpu=1
  fairlead cdi annotate --parse config.json
  kubectl get pod web -o json | fairlead cdi annotate --parse - -o json`,
		ValidArgsFunction: d.completeDevices,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.parse != "" {
				if len(args) > 0 || o.plugin != "" || o.id != "" {
					return usage(cmd, "--parse takes all from the file")
				}
				return d.parseAnnotations(o)
			}
			if len(args) == 0 || o.plugin == "" || o.id == "" {
				return usage(cmd, "%s needs --plugin, --id and a DEVICE, or --parse FILE", cmd.CommandPath())
			}
			return d.annotate(o, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.plugin, "plugin", "", "name of who asks, such as vendor.class")
	f.StringVar(&o.id, "id", "", "id of the allocation")
	f.StringVar(&o.parse, "parse", "", "read annotations from a file, - for stdin")
	_ = cmd.RegisterFlagCompletionFunc("parse", completeFiles)
	o.addTo(cmd, "table", "json", "yaml", "name")
	return cmd
}

func (d *devices) annotate(o cdiAnnotation, args []string) error {
	x, err := d.index()
	if err != nil {
		return err
	}
	names, err := expand(func() []string { return x.Snapshot().Devices() }, args)
	if err != nil {
		return err
	}
	annotations, err := cdi.Annotate(nil, o.plugin, o.id, names...)
	if err != nil {
		return cdiError(err)
	}
	return d.list(o.output, annotationListing(annotations))
}

// annotationListing prints annotations: key=value by name, as kubectl annotate
// takes it.
func annotationListing(annotations map[string]string) listing {
	l := listing{columns: []string{"KEY", "VALUE"}, value: annotations}
	for key, value := range annotations {
		l.rows = append(l.rows, row{name: key + "=" + value, cells: []string{key, value}})
	}
	return l
}

// cdiRequest is what "annotate --parse" prints of one device.
type cdiRequest struct {
	Device string `json:"device"`
	Key    string `json:"key"`
}

func (d *devices) parseAnnotations(o cdiAnnotation) error {
	text, err := d.readNamed(o.parse)
	if err != nil {
		return inputError(err, claim.CodeInvalid)
	}
	annotations, err := annotationsIn(text)
	if err != nil {
		return claim.Errorf(claim.CodeInvalid, "read annotations of %s: %v", o.parse, err)
	}
	requests := []cdiRequest{}
	l := listing{columns: []string{"DEVICE", "KEY"}, empty: "no device is asked for"}
	keys, _, err := cdi.ParseAnnotations(annotations)
	if err != nil {
		return cdiError(err)
	}
	for _, key := range keys {
		for device := range strings.SplitSeq(annotations[key], ",") {
			requests = append(requests, cdiRequest{device, key})
			l.rows = append(l.rows, row{name: device, cells: []string{device, key}})
		}
	}
	l.value = requests
	return d.list(o.output, l)
}
