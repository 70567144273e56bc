package cdi

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
)

// Validate checks s against every rule of its version. The error is Problems.
func Validate(s *Spec) error {
	c := checker{spec: s, strict: true}
	c.walk()
	return c.err()
}

// checker walks a spec once: it finds the problems and the lowest version that
// has all that is used.
type checker struct {
	spec     *Spec
	strict   bool // look for problems, not just for the version
	trail    trail
	version  version // 0 if the spec's own is not understood
	minimum  version
	problems Problems
	named    map[string]int // the first device of each name
}

func (c *checker) err() error {
	if len(c.problems) == 0 {
		return nil
	}
	return c.problems
}

// wrong notes a problem of the value that the trail leads to.
func (c *checker) wrong(rule Rule, message, fix string) {
	if c.strict && len(c.problems) < maxProblems {
		c.problems = append(c.problems, &Problem{Path: c.trail.String(), Rule: rule, Message: message, Fix: fix, steps: c.trail.copy()})
	}
}

// wrongAt is wrong for a field of the value.
func (c *checker) wrongAt(field string, rule Rule, message, fix string) {
	c.trail.enter(field)
	c.wrong(rule, message, fix)
	c.trail.leave()
}

// need notes that a field is used which came with a version (CDI-014).
func (c *checker) need(v version, field, what string) {
	c.minimum = max(c.minimum, v)
	if c.version != 0 && c.version < v {
		c.wrongAt(field, RuleVersionField, fmt.Sprintf("%s came with version %s, but cdiVersion is %s", what, v, c.spec.Version),
			fmt.Sprintf(`"cdiVersion": "%s"`, v))
	}
}

func (c *checker) walk() {
	s := c.spec
	c.minimum = v030
	c.checkVersion()
	c.checkKind()
	if len(s.Annotations) > 0 {
		c.need(v060, "annotations", "annotations")
	}
	if len(s.Devices) == 0 {
		c.wrongAt("devices", RuleDevices, "a spec has at least one device", `"devices": [{"name": …}]`)
	}
	c.trail.enter("devices")
	for i := range s.Devices {
		c.trail.at(i)
		c.checkDevice(i)
		c.trail.leave()
	}
	c.trail.leave()
	c.checkEdits(&s.ContainerEdits)
}

func (c *checker) checkVersion() {
	if c.spec.Version == "" {
		c.wrongAt("cdiVersion", RuleRequired, "cdiVersion is missing", `"cdiVersion": "…"`)
		return
	}
	v, rule, fix := parseVersion(c.spec.Version)
	if rule != "" {
		c.wrongAt("cdiVersion", rule, fmt.Sprintf("%q is no version of the specification", c.spec.Version), fix)
	}
	c.version = v
}

// checkKind holds the kind to CDI-040 to CDI-044.
func (c *checker) checkKind() {
	kind := c.spec.Kind
	if kind == "" {
		c.wrongAt("kind", RuleRequired, "kind is missing", `"kind": "vendor.com/class"`)
		return
	}
	vendor, class, ok := strings.Cut(kind, "/")
	if !ok || strings.Contains(class, "/") {
		c.wrongAt("kind", RuleKind, fmt.Sprintf("kind %q does not have exactly one slash", kind), "vendor.com/class")
		return
	}
	if message := wrongVendor(vendor); message != "" {
		c.wrongAt("kind", RuleVendor, message, "a DNS name before the slash, as in vendor.com/class")
	}
	if message := wrongName("class", class); message != "" {
		c.wrongAt("kind", RuleClass, message, nearestName(vendor+"/", class))
	}
	if strings.Contains(class, ".") {
		c.need(v060, "kind", "a class with a dot")
	}
}

func (c *checker) checkDevice(i int) {
	d := &c.spec.Devices[i]
	switch message := wrongName("device name", d.Name); {
	case d.Name == "":
		c.wrongAt("name", RuleRequired, "a device has a name", `"name": "…"`)
	case message != "":
		c.wrongAt("name", RuleDeviceName, message, nearestName("", d.Name))
	case digit(d.Name[0]):
		c.need(v050, "name", "a device name that begins with a digit")
	}
	if c.strict && d.Name != "" {
		if first := c.firstNamed(i); first < i {
			c.wrongAt("name", RuleDevices, fmt.Sprintf("device %q is there already, as $.devices[%d]", d.Name, first), "another name")
		}
	}
	if len(d.Annotations) > 0 {
		c.need(v060, "annotations", "annotations")
	}
	c.checkEdits(&d.ContainerEdits)
}

// firstNamed is the index of the first device with the name of device i. It is
// asked for each in turn.
func (c *checker) firstNamed(i int) int {
	devices, name := c.spec.Devices, c.spec.Devices[i].Name
	if len(devices) <= fewDevices {
		first := 0
		for devices[first].Name != name {
			first++
		}
		return first
	}
	if c.named == nil {
		c.named = make(map[string]int, len(devices))
	}
	if first, ok := c.named[name]; ok {
		return first
	}
	c.named[name] = i
	return i
}

// fewDevices are compared with each other sooner than put into a map.
const fewDevices = 16

func (c *checker) checkEdits(e *ContainerEdits) {
	c.trail.enter("containerEdits")
	defer c.trail.leave()
	c.checkEnv(e.Env)
	each(c, "deviceNodes", e.DeviceNodes, c.checkNode)
	if len(e.NetDevices) > 0 {
		c.need(v110, "netDevices", "netDevices")
		c.checkNetDevices(e.NetDevices)
	}
	each(c, "mounts", e.Mounts, c.checkMount)
	each(c, "hooks", e.Hooks, c.checkHook)
	if len(e.AdditionalGIDs) > 0 {
		c.need(v070, "additionalGids", "additionalGids")
	}
	if e.IntelRdt != nil {
		c.need(v070, "intelRdt", "intelRdt")
		c.trail.enter("intelRdt")
		c.checkRdt(e.IntelRdt)
		c.trail.leave()
	}
}

// each checks the elements of a list; null is none (as in "deviceNodes": [null]).
func each[T any](c *checker, field string, list []*T, check func(*T)) {
	c.trail.enter(field)
	for i, v := range list {
		c.trail.at(i)
		if v == nil {
			c.wrong(RuleType, "null is no "+strings.TrimSuffix(field, "s"), "an object")
		} else {
			check(v)
		}
		c.trail.leave()
	}
	c.trail.leave()
}

// checkEnv holds NAME=VALUE (CDI-059, CDI-084).
func (c *checker) checkEnv(env []string) {
	for i, v := range env {
		if strings.IndexByte(v, '=') > 0 && strings.IndexByte(v, 0) < 0 {
			continue
		}
		c.trail.enter("env")
		c.trail.at(i)
		c.wrong(RuleEnv, fmt.Sprintf("%q is not of the form NAME=VALUE", v), `"NAME=VALUE"`)
		c.trail.leave()
		c.trail.leave()
	}
}

// checkPath holds an absolute path; an empty one is a missing field (CDI-026).
func (c *checker) checkPath(field string, rule Rule, path string) {
	switch {
	case path == "":
		c.wrongAt(field, RuleRequired, field+" is missing", `"`+field+`": "/…"`)
	case path[0] != '/':
		c.wrongAt(field, rule, fmt.Sprintf("%q is not an absolute path", path), strconv.Quote(filepath.Join("/", path)))
	case strings.IndexByte(path, 0) >= 0:
		c.wrongAt(field, rule, fmt.Sprintf("%q holds a NUL", path), "")
	}
}

func (c *checker) checkNode(d *DeviceNode) {
	c.checkPath("path", RulePath, d.Path)
	if d.HostPath != "" {
		c.need(v050, "hostPath", "hostPath of a device node")
		c.checkPath("hostPath", RulePath, d.HostPath)
	}
	switch d.Type {
	case "", "b", "c", "u", "p":
	default:
		c.wrongAt("type", RuleNodeType, fmt.Sprintf("%q is no type of device", d.Type), `"b" (block), "c" (char), "u" (unbuffered char) or "p" (FIFO)`)
	}
	c.checkNumber("major", d.Major)
	c.checkNumber("minor", d.Minor)
	if strings.Trim(d.Permissions, "rwm") != "" {
		c.wrongAt("permissions", RulePermissions, fmt.Sprintf("%q holds something other than r, w and m", d.Permissions), `"rw" or the like`)
	}
}

// checkNumber keeps out -1, which the devices cgroup takes for every device.
func (c *checker) checkNumber(field string, n int64) {
	if n < 0 || n > math.MaxUint32 {
		c.wrongAt(field, RuleNodeNumber, fmt.Sprintf("%d is no device number", n), "a number from 0")
	}
}

func (c *checker) checkMount(m *Mount) {
	if m.Type != "" {
		c.need(v040, "type", "type of a mount")
	}
	// What is no bind mount may have a source that is no path, such as "tmpfs".
	if m.HostPath == "" || isBind(m) {
		c.checkPath("hostPath", RulePath, m.HostPath)
	}
	c.checkPath("containerPath", RulePath, m.ContainerPath)
}

// isBind tells a mount of a path of the host's (CDI-075).
func isBind(m *Mount) bool {
	switch m.Type {
	case "", "none", "bind":
		return true
	}
	return saysBind(m)
}

// saysBind tells a mount with bind or rbind among its options.
func saysBind(m *Mount) bool {
	for _, o := range m.Options {
		if o == "bind" || o == "rbind" {
			return true
		}
	}
	return false
}

func (c *checker) checkHook(h *Hook) {
	switch h.HookName {
	case "createRuntime", "createContainer", "startContainer", "poststart", "poststop":
	case "prestart": // not in CDI-079, but OCI has it and CDI-080 allows it
	case "":
		c.wrongAt("hookName", RuleRequired, "hookName is missing", `"hookName": "createContainer" or the like`)
	default:
		c.wrongAt("hookName", RuleHookName, fmt.Sprintf("%q is no hook of an OCI runtime", h.HookName),
			"one of createRuntime, createContainer, startContainer, poststart, poststop")
	}
	c.checkPath("path", RuleHookPath, h.Path)
	c.checkEnv(h.Env)
	if h.Timeout != nil && *h.Timeout <= 0 {
		c.wrongAt("timeout", RuleHookTimeout, fmt.Sprintf("timeout is %d seconds", *h.Timeout), "a number above zero, or leave it out to wait without limit")
	}
}

func (c *checker) checkRdt(r *IntelRdt) {
	// The CLOS is a directory of resctrl; "/" is its root.
	if id := r.ClosID; id != "/" && (id == "." || id == ".." || len(id) > 255 || strings.ContainsAny(id, "/\n\x00")) {
		c.wrongAt("closID", RuleClosID, fmt.Sprintf("%q cannot be the name of a class of service", id), "a plain file name")
	}
	if len(r.Schemata) > 0 {
		c.need(v110, "schemata", "schemata")
	}
	for i, line := range r.Schemata {
		if strings.ContainsAny(line, "\n\x00") {
			c.trail.enter("schemata")
			c.trail.at(i)
			c.wrong(RuleSchemata, "an element of schemata is one line", "one element for each line")
			c.trail.leave()
			c.trail.leave()
		}
	}
	if r.EnableMonitoring {
		c.need(v110, "enableMonitoring", "enableMonitoring")
	}
	c.gone(r.EnableCMT, "enableCMT")
	c.gone(r.EnableMBM, "enableMBM")
}

// gone is for a field that 1.1.0 took out: an unknown field from then on.
func (c *checker) gone(used bool, field string) {
	if used && c.version >= v110 {
		c.wrongAt(field, RuleUnknownField, field+" was taken out by version 1.1.0", `"enableMonitoring": true`)
	}
}

func (c *checker) checkNetDevices(list []*NetDevice) {
	hosts, names := map[string]bool{}, map[string]bool{}
	each(c, "netDevices", list, func(n *NetDevice) {
		c.checkInterface("hostInterfaceName", n.HostInterfaceName)
		c.checkInterface("name", n.Name)
		if n.HostInterfaceName != "" && hosts[n.HostInterfaceName] {
			c.wrongAt("hostInterfaceName", RuleNetDevice, fmt.Sprintf("interface %q is moved twice", n.HostInterfaceName), "")
		}
		if n.Name != "" && names[n.Name] {
			c.wrongAt("name", RuleNetDevice, fmt.Sprintf("two interfaces become %q", n.Name), "another name")
		}
		hosts[n.HostInterfaceName], names[n.Name] = true, true
	})
}

// checkInterface holds what Linux takes for the name of an interface.
func (c *checker) checkInterface(field, name string) {
	switch {
	case name == "":
		c.wrongAt(field, RuleRequired, field+" is missing", `"`+field+`": "eth0" or the like`)
	case name == "." || name == ".." || len(name) > 15 || strings.ContainsAny(name, "/: \t\n\v\f\r\x00"):
		c.wrongAt(field, RuleNetDevice, fmt.Sprintf("%q cannot be the name of an interface", name), "1 to 15 characters without space, colon and slash")
	}
}
