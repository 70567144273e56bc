package main

import (
	"context"
	"net"
	"net/url"
	"os/exec"
	"strings"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/control"
)

// containerRuntime is a container runtime, and how it takes a CDI device.
type containerRuntime struct {
	name string
	// run is the command line up to the device, hostNet the flag that gives a
	// container the host's network, rest what follows.
	run, hostNet, rest string
}

// containerRuntimes are those that take CDI devices on their command line.
func containerRuntimes() []containerRuntime {
	return []containerRuntime{
		{"podman", "podman run --rm", "--network=host", "IMAGE"},
		{"docker", "docker run --rm", "--network=host", "IMAGE"},
		{"nerdctl", "nerdctl run --rm", "--network=host", "IMAGE"},
		{"ctr", "ctr run --rm", "--net-host", "IMAGE ID"},
	}
}

// next prints the exact commands that use an access on this host.
func (a *app) next(ctx context.Context, c *control.Client, r ref, x claim.Access) {
	a.say("next:")
	if x.Device != "" {
		loopback := a.loopback(ctx, c, r)
		for _, rt := range containerRuntimes() {
			if _, err := exec.LookPath(rt.name); err == nil {
				a.say("  %s", rt.command(x.Device, loopback))
			}
		}
	}
	a.say("  fairlead exec %s -- CMD", r)
	a.say("  fairlead env %s", r)
}

// nextOfDevice prints the exact commands that use a claimed device on this host.
func (a *app) nextOfDevice(name string, d *claim.Device) {
	a.say("next:")
	if d.Name != "" {
		for _, rt := range containerRuntimes() {
			if _, err := exec.LookPath(rt.name); err == nil {
				a.say("  %s", rt.command(d.Name, false))
			}
		}
	}
	a.say("  fairlead exec %s -- CMD", name)
}

func (rt containerRuntime) command(device string, loopback bool) string {
	if !strings.Contains(device, "=") {
		device = "fairlead.dev/bucket=" + device
	}
	words := []string{rt.run, "--device", device}
	if loopback {
		words = append(words, rt.hostNet)
	}
	return strings.Join(append(words, rt.rest), " ")
}

// loopback says whether the endpoint can be reached from this host only, so
// that a container needs the host's network.
func (a *app) loopback(ctx context.Context, c *control.Client, r ref) bool {
	creds, err := c.Credentials(ctx, r.claim, r.access)
	if err != nil {
		return false
	}
	u, err := url.Parse(strings.TrimSpace(string(creds.Files["AWS_ENDPOINT_URL"])))
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
