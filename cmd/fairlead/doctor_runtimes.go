package main

import (
	"context"
	"os/exec"
	"regexp"
	"strconv"
)

// cdiSince is the first version of each runtime that takes CDI devices on its
// command line without further configuration.
func cdiSince() map[string][2]int {
	return map[string][2]int{"podman": {4, 1}, "docker": {28, 2}, "nerdctl": {2, 1}, "ctr": {2, 0}}
}

// checkRuntimes asks every runtime that is found for its version.
func checkRuntimes(ctx context.Context) (checks []check) {
	for _, rt := range containerRuntimes() {
		if path, err := exec.LookPath(rt.name); err == nil {
			checks = append(checks, checkRuntime(ctx, rt.name, path))
		}
	}
	if len(checks) == 0 {
		return []check{warn("runtimes", "install podman 4.1 or docker 28.2 or later; fairlead exec needs neither", "no container runtime is found")}
	}
	return checks
}

func checkRuntime(ctx context.Context, name, path string) check {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = doctorTime
	text, err := cmd.Output()
	if err != nil {
		return warn(name, "does it run by hand?", "%s --version: %v", path, err)
	}
	got, known := parseVersion(string(text))
	since := cdiSince()[name]
	if !known {
		return warn(name, "", "%s does not say its version", path)
	}
	if got[0] < since[0] || got[0] == since[0] && got[1] < since[1] {
		return warn(name, "upgrade it, or use fairlead exec and fairlead env", "%d.%d takes no CDI device before %d.%d", got[0], got[1], since[0], since[1])
	}
	return ok(name, "%d.%d takes CDI devices", got[0], got[1])
}

// parseVersion finds the first major.minor in what a runtime prints.
func parseVersion(text string) (v [2]int, ok bool) {
	m := regexp.MustCompile(`(\d{1,4})\.(\d{1,4})`).FindStringSubmatch(text)
	if m == nil {
		return v, false
	}
	v[0], _ = strconv.Atoi(m[1])
	v[1], _ = strconv.Atoi(m[2])
	return v, true
}
