package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionInfo is what "fairlead version -o json" prints.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion(a *app) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Print the version of this program. It asks no daemon; "fairlead doctor" says
what version the daemon has.`,
		Example: "  fairlead version\n  fairlead version -o json",
		Args:    args(0, 0, "nothing"),
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			if o.format != "text" {
				return a.value(o.format, v)
			}
			return a.print("fairlead %s %s %s", v.Version, v.Platform, v.Go)
		},
	}
	o.addTo(cmd, "text", "json", "yaml")
	return cmd
}

// readVersion takes the stamped version, or else what the toolchain noted.
func readVersion() versionInfo {
	v := versionInfo{
		Version:  or(version, "devel"),
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if m := info.Main.Version; version == "" && m != "" && m != "(devel)" {
		v.Version = m
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
