package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/control"
	"github.com/fairlead/fairlead/internal/device"
)

// claimDeviceOptions are the flags of "claim device".
type claimDeviceOptions struct {
	spec   claim.DeviceSpec
	wait   time.Duration
	output output
}

const claimDeviceLong = `Claim a device of this host: it becomes a CDI device under the name of the claim,
and stays that when it is taken out and put in again, under whatever number and
path it then has. The command returns when the device is there. While it is not,
no container can be started with it.

A match is one of:

  /dev/fuse, /dev/serial/by-id/*      a node, a link to one, or a pattern of paths
  kvm                                 a kind
  dri:pci-0000_03_00.0                a kind and a name, or a pattern of names
  usb:0403:6001, usb:0403:6001:A5028  vendor, product and serial number
  nvidia,model=*H100*,driver=nvidia   a kind and attributes

"fairlead cdi generate --list MATCH" shows what fits. One device is to fit, unless
--all is given; once it is chosen, another that is plugged in beside it changes
nothing. While it is out, another that fits takes its place: match a serial number
if it must not.

No runtime gives a running container a node, or takes one away: a container that
runs while its device is taken out keeps a node of what is gone, and does not get
the new one when the device is back. "fairlead describe" names such containers.
Start them again.`

func newClaimDevice(a *app) *cobra.Command {
	var o claimDeviceOptions
	cmd := &cobra.Command{
		Use:   "device NAME --match MATCH",
		Short: "Claim a device of this host",
		Long:  claimDeviceLong,
		Example: `  fairlead claim device fuse --match /dev/fuse
  fairlead claim device modem --match usb:0403:6001 --path /dev/modem
  fairlead claim device gpus --match nvidia --all`,
		Args:              args(1, 1, "a NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.spec.Match == "" {
				return usage(cmd, "claim device needs a --match: which device")
			}
			return a.claimDevice(cmd.Context(), args[0], &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.spec.Match, "match", "", "which device: a path, a kind, a kind and a name (required)")
	f.BoolVar(&o.spec.All, "all", false, "claim every device that fits")
	f.StringVar(&o.spec.Path, "path", "", "where a container finds the node (default where the host has it)")
	waitFlag(cmd, &o.wait)
	o.output.addTo(cmd, "name", "json", "yaml")
	_ = cmd.RegisterFlagCompletionFunc("match", completeMatches)
	return cmd
}

// completeMatches offers the kinds of devices, and what there is of each.
func completeMatches(cmd *cobra.Command, _ []string, _ string) (words []string, _ cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	for _, kind := range device.Kinds() {
		words = append(words, string(kind))
	}
	found, _ := device.Host{}.List(ctx)
	for _, d := range found {
		if d.Kind != device.Char && d.Kind != device.Block {
			words = append(words, string(d.Kind)+":"+d.Name)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) claimDevice(ctx context.Context, arg string, o *claimDeviceOptions) error {
	name, err := parseName(arg)
	if err != nil {
		return err
	}
	c := a.client()
	start := a.now()
	done := a.waiting(ctx, "waiting for device "+name)
	resp, err := c.Claim(ctx, control.ClaimRequest{Kind: claim.KindDevice, Name: name, Device: &o.spec}, o.wait)
	done()
	if err != nil {
		return notReady(err, name)
	}
	return a.claimed(ctx, c, resp, a.now().Sub(start), o.output)
}
