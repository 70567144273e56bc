package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/cdi"
)

// lints are the rules of the warnings, for --help.
var lints = []struct{ rule, text string }{
	{"hook-env", "a hook without env gets that of the container, LD_PRELOAD too"},
	{"hook-prestart", "prestart is deprecated, and no hook of the specification"},
	{"hook-executable", "a hook that is no program"},
	{"hook-writable", "a hook that others than its owner can change: it runs as root"},
	{"mount-options", "a mount without options fails in some runtimes"},
	{"mount-bind", "a bind mount without bind or rbind among its options"},
	{"host-path", "a path or interface that does not exist on this host"},
	{"node-type", "a device node that is none, or of another type, on this host"},
	{"node-number", "device numbers that differ from those of this host"},
	{"env-secret", "what looks like a secret: every user can read a spec"},
	{"version-high", "a cdiVersion above what is needed shuts older runtimes out"},
	{"file-readable", "a file that not everybody can read: rootless runtimes fail"},
	{"file-writable", "a file that others than its owner can change"},
	{"dir-writable", "a directory that others than its owner can change"},
	{"file-ignored", "a file that runtimes pass over, for its name"},
}

func lintRules() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, l := range lints {
		_, _ = fmt.Fprintf(w, "  %s\t%s\n", l.rule, l.text)
	}
	_ = w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// linter looks at one valid spec.
type linter struct {
	*validation
	file   string
	places *textPlaces
}

// at warns of the value at a path within the spec.
func (l *linter) at(path, rule, format string, args ...any) {
	f := finding{File: l.file, Path: path, Rule: rule, Message: fmt.Sprintf(format, args...)}
	f.Line, f.Column = l.places.position(path)
	l.warn(f)
}

func (l *linter) spec(s *cdi.Spec) {
	if least := cdi.MinimumVersion(s); newer(s.Version, least) {
		l.at("$.cdiVersion", "version-high", "cdiVersion is %s where %s would do", s.Version, least)
	}
	l.edits("$.containerEdits", &s.ContainerEdits)
	for i := range s.Devices {
		l.edits(fmt.Sprintf("$.devices[%d].containerEdits", i), &s.Devices[i].ContainerEdits)
	}
}

// newer compares two versions of the specification, patch versions aside.
func newer(a, b string) bool {
	number := func(s string) (n int) {
		var major, minor int
		_, _ = fmt.Sscanf(s, "%d.%d", &major, &minor)
		return major*1000 + minor
	}
	return number(a) > number(b)
}

func (l *linter) edits(path string, e *cdi.ContainerEdits) {
	for i, kv := range e.Env {
		l.env(fmt.Sprintf("%s.env[%d]", path, i), kv)
	}
	for i, h := range e.Hooks {
		l.hook(fmt.Sprintf("%s.hooks[%d]", path, i), h)
	}
	for i, m := range e.Mounts {
		l.mount(fmt.Sprintf("%s.mounts[%d]", path, i), m)
	}
	if !l.host {
		return
	}
	for i, n := range e.DeviceNodes {
		l.node(fmt.Sprintf("%s.deviceNodes[%d]", path, i), n)
	}
	for i, n := range e.NetDevices {
		if _, err := os.Stat(filepath.Join("/sys/class/net", n.HostInterfaceName)); err != nil {
			l.at(fmt.Sprintf("%s.netDevices[%d].hostInterfaceName", path, i), "host-path", "there is no interface %s on this host", n.HostInterfaceName)
		}
	}
}

// env warns of secrets; a name that ends so and holds a path is a pointer.
func (l *linter) env(path, kv string) {
	name, value, _ := strings.Cut(kv, "=")
	if value == "" || strings.HasPrefix(value, "/") {
		return
	}
	for _, word := range []string{"PASSWORD", "PASSWD", "SECRET", "TOKEN", "ACCESS_KEY", "API_KEY", "PRIVATE_KEY"} {
		if strings.HasSuffix(strings.ToUpper(name), word) {
			l.at(path, "env-secret", "%s looks like a secret, and every user can read a spec; mount a file", name)
			return
		}
	}
}

func (l *linter) hook(path string, h *cdi.Hook) {
	if len(h.Env) == 0 {
		l.at(path, "hook-env", "the hook has no env: some runtimes run it in that of the container, LD_PRELOAD too")
	}
	if h.HookName == "prestart" {
		l.at(path+".hookName", "hook-prestart", "prestart is deprecated and not in the CDI specification; createRuntime runs at the same time")
	}
	if !l.host || !l.exists(path+".path", h.Path) {
		return
	}
	fi, err := os.Stat(h.Path)
	switch {
	case err != nil:
	case !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0:
		l.at(path+".path", "hook-executable", "%s is no program that can be run", h.Path)
	case fi.Mode()&0o022 != 0:
		l.at(path+".path", "hook-writable", "%s can be changed by others than its owner (mode %#o), and runs as root", h.Path, fi.Mode().Perm())
	}
}

func (l *linter) mount(path string, m *cdi.Mount) {
	bind := m.Type == "" || m.Type == "none" || m.Type == "bind"
	has := false
	for _, o := range m.Options {
		has = has || o == "bind" || o == "rbind"
	}
	switch {
	case len(m.Options) == 0:
		l.at(path, "mount-options", `the mount has no options, which fails in some runtimes; such as ["rbind", "ro"]`)
	case bind && !has:
		l.at(path+".options", "mount-bind", "bind or rbind is not among the options of a bind mount")
	}
	if l.host && (bind || has) {
		l.exists(path+".hostPath", m.HostPath)
	}
}

// exists warns if a path is not on this host.
func (l *linter) exists(path, name string) bool {
	_, err := os.Stat(name)
	if err != nil {
		l.at(path, "host-path", "%s cannot be used on this host: %v", name, errnoOf(err))
	}
	return err == nil
}

func (l *linter) node(path string, n *cdi.DeviceNode) {
	field, host := path+".hostPath", n.HostPath
	if host == "" {
		field, host = path+".path", n.Path
	}
	var st unix.Stat_t
	if err := unix.Stat(host, &st); err != nil {
		l.at(field, "host-path", "%s cannot be used on this host: %v", host, err)
		return
	}
	kind := map[uint32]string{unix.S_IFBLK: "b", unix.S_IFCHR: "c", unix.S_IFIFO: "p"}[st.Mode&unix.S_IFMT]
	major, minor := int64(unix.Major(uint64(st.Rdev))), int64(unix.Minor(uint64(st.Rdev)))
	switch {
	case kind == "":
		l.at(field, "node-type", "%s is no device on this host", host)
	case n.Type != "" && n.Type != kind && (n.Type != "u" || kind != "c"):
		l.at(path+".type", "node-type", "%s is of type %s on this host, not %s", host, kind, n.Type)
	case kind != "p" && n.Major != 0 && (n.Major != major || n.Minor != minor):
		l.at(path+".major", "node-number", "%s is %d:%d on this host, not %d:%d; leave the numbers out", host, major, minor, n.Major, n.Minor)
	}
}

func (v *validation) lintFile(path string) {
	v.lintWritable(path, "file-writable", "the file")
	if fi, err := os.Stat(path); err == nil && fi.Mode()&0o004 == 0 {
		v.warn(finding{File: path, Rule: "file-readable", Message: fmt.Sprintf("not everybody can read the file (mode %#o), so rootless runtimes cannot use it", fi.Mode().Perm())})
	}
}

// lintWritable warns of what others can change: a spec runs hooks as root.
func (v *validation) lintWritable(path, rule, what string) {
	fi, err := os.Stat(path)
	if err != nil || fi.Mode()&0o022 == 0 {
		return
	}
	v.warn(finding{File: path, Rule: rule, Message: fmt.Sprintf("%s can be changed by others than its owner (mode %#o), and a spec runs hooks as root", what, fi.Mode().Perm())})
}
