package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/internal/claim"
)

// description is what "describe -o json" prints.
type description struct {
	Claim  claim.Claim   `json:"claim"`
	Events []claim.Event `json:"events"`
}

func newDescribe(a *app) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:               "describe NAME",
		Short:             "Say all about a claim, with its last events",
		Long:              "Say all that is known of a claim: what was asked, how far it is, its accesses,\nwho uses it, and what happened to it last.",
		Example:           "  fairlead describe photos\n  fairlead describe photos -o json",
		Args:              args(1, 1, "a NAME"),
		ValidArgsFunction: a.completeClaims,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := parseName(args[0])
			if err != nil {
				return err
			}
			d := description{Events: []claim.Event{}}
			if d.Claim, err = a.client().Get(cmd.Context(), name); err != nil {
				return err
			}
			events, err := a.client().Events(cmd.Context(), name)
			if err != nil {
				return err
			}
			d.Events = append(d.Events, events...)
			if o.format != "text" {
				return a.value(o.format, d)
			}
			return a.describe(a.out, d)
		},
	}
	o.addTo(cmd, "text", "json", "yaml")
	return cmd
}

func (a *app) describe(w io.Writer, d description) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	field := func(key, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(tw, "%s:\t%s\n", key, value)
		}
	}
	c := &d.Claim
	field("Name", c.Name)
	field("Kind", string(c.Kind))
	field("UID", c.UID)
	field("Created", stamp(c.CreatedAt))
	field("Phase", string(c.Phase))
	field("Message", c.Message)
	if c.Device != nil {
		describeClaimedDevice(field, c.Device)
	}
	field("Class", c.Class)
	field("Driver", c.Driver)
	field("Parameters", joined(c.Parameters))
	field("Deletion policy", string(c.DeletionPolicy))
	field("Existing bucket", c.Existing)
	field("Bucket name", c.BucketName)
	field("Bucket id", c.BucketID)
	field("Protocol", protocol(c.Protocol))
	for _, x := range c.Accesses {
		_, _ = fmt.Fprintf(tw, "\nAccess %s:\n", x.Name)
		a.describeAccess(field, x)
	}
	if len(c.Leases) > 0 {
		_, _ = fmt.Fprintln(tw, "\nLeases:")
		for _, l := range c.Leases {
			_, _ = fmt.Fprintf(tw, "  process %d\t%s\n", l.PID, l.Holder)
		}
	}
	a.describeEvents(tw, d.Events)
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func describeClaimedDevice(field func(key, value string), d *claim.Device) {
	field("Match", d.Match)
	if d.All {
		field("All that fit", "yes")
	}
	field("Path in containers", d.Path)
	field("Chosen", d.Chosen)
	field("Found", strings.Join(d.Found, ", "))
	for _, n := range d.Nodes {
		at := ""
		if n.Path != n.HostPath {
			at = ", in containers " + n.Path
		}
		field("Node", fmt.Sprintf("%s (%s %d:%d)%s", n.HostPath, n.Type, n.Major, n.Minor, at))
	}
	field("Device", d.Name)
	for _, u := range d.Stale {
		field("Out of date", fmt.Sprintf("process %d (%s), in a container, still has %s (%d:%d), which is gone; start it again",
			u.PID, u.Comm, u.Node.Path, u.Node.Major, u.Node.Minor))
	}
}

func (a *app) describeAccess(field func(key, value string), x claim.Access) {
	field("  Phase", string(x.Phase))
	field("  Message", x.Message)
	field("  Mode", modeOf(x.Mode))
	field("  Prefix", x.Prefix)
	field("  Class", x.Class)
	if !x.Expiry.IsZero() {
		field("  Expires", stamp(x.Expiry)+" ("+a.until(x.Expiry)+")")
	}
	field("  Account", or(x.Account.ID, x.Account.Name))
	field("  Generation", count(x.Account.Generation))
	for _, old := range x.Retiring {
		field("  Retiring", fmt.Sprintf("generation %d, until %s", old.Generation, stamp(old.RevokeAt)))
	}
	field("  Files", x.Directory)
	field("  Device", x.Device)
}

func (a *app) describeEvents(w io.Writer, events []claim.Event) {
	if len(events) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w, "\nEvents:")
	for _, e := range events {
		kind, times := "normal", ""
		if e.Warning {
			kind = "warning"
		}
		if e.Count > 1 {
			times = fmt.Sprintf(" (%d times)", e.Count)
		}
		_, _ = fmt.Fprintf(w, "  %s\t%s\t%s\t%s%s\n", a.age(e.Time), kind, e.Reason, e.Message, times)
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func protocol(p claim.Protocol) string {
	switch {
	case p.S3 != nil:
		return strings.TrimSpace("S3 " + p.S3.Region)
	case p.Azure != nil:
		return strings.TrimSpace("Azure " + p.Azure.StorageAccount)
	case p.GCS != nil:
		return strings.TrimSpace("GCS " + p.GCS.ProjectID)
	}
	return ""
}

// joined prints a map in a fixed order.
func joined(m map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k+"="+m[k])
	}
	return strings.Join(parts, ", ")
}
