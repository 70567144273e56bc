package cdi

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder reads a spec from JSON text. What is wrong with a value's shape is
// noted and passed over, so that one reading finds all; what is wrong with its
// content is the checker's to find, in what could be read.
type decoder struct {
	scanner
	arena
	trail    trail
	path     string // of what broke the syntax
	problems Problems
	spec     Spec
	// origin leads back to YAML; nil for text that was JSON.
	origin *origin
	// words and list are what is being read, before it is known how long it is.
	words    []string
	list     []Device
	groupIDs []uint32
}

// The fields of each object. A field's place in its list is its number in the
// function that reads it.
var (
	specFields   = []string{"cdiVersion", "kind", "annotations", "devices", "containerEdits"}
	deviceFields = []string{"name", "annotations", "containerEdits"}
	editFields   = []string{"env", "deviceNodes", "netDevices", "mounts", "hooks", "additionalGids", "intelRdt"}
	nodeFields   = []string{"path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"}
	netFields    = []string{"hostInterfaceName", "name"}
	mountFields  = []string{"hostPath", "containerPath", "type", "options"}
	hookFields   = []string{"hookName", "path", "args", "env", "timeout"}
	rdtFields    = []string{"closID", "l3CacheSchema", "memBwSchema", "enableCMT", "enableMBM", "schemata", "enableMonitoring"}
)

// decode reads the whole of text into d.spec. What it holds is part of text and
// of d's arena: both must live, and change, no more.
func (d *decoder) decode(text string) {
	d.scanner = scanner{src: text}
	d.trail, d.path, d.spec, d.problems = trail{}, "", Spec{}, nil
	if at := invalidUTF8(text); at >= 0 {
		d.fail(at, "the text is not UTF-8")
		return
	}
	if strings.HasPrefix(text, "\uFEFF") {
		d.fail(0, "the text begins with a byte order mark, which JSON does not have (RFC 8259)")
		return
	}
	if d.object(specFields, d.specField) == 0 {
		d.wrong(RuleRequired, "the spec is null", "an object")
	}
	if d.peek(); d.pos < len(d.src) && !d.ended() {
		d.at = d.pos
		d.wrong(RuleTrailing, "something follows the spec: "+d.found(), "one spec in a file")
	}
}

func invalidUTF8(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return i
		}
	}
	return -1
}

// leave goes back from a field or an element. The way to where the syntax broke
// is kept: the trail is empty when that is told.
func (d *decoder) leave() {
	if d.ended() && d.path == "" {
		d.path = d.trail.String()
	}
	d.trail.leave()
}

func (d *decoder) brokenPath() string { return cmp.Or(d.path, "$") }

// wrong notes a problem of the value or key that was read last.
func (d *decoder) wrong(rule Rule, message, fix string) {
	if d.ended() || len(d.problems) >= maxProblems {
		return
	}
	line, column := d.position(d.at)
	d.problems = append(d.problems, &Problem{Line: line, Column: column, Path: d.trail.String(), Rule: rule, Message: message, Fix: fix, steps: d.trail.copy()})
}

// wrongType passes over a value that is not what it should be.
func (d *decoder) wrongType(want string) {
	if got := d.skip(); got != "" {
		d.wrong(RuleType, fmt.Sprintf("this is %s, not %s", got, want), want)
	}
}

// null passes over a null, which stands for an absent field.
func (d *decoder) null() bool { return d.peek() == 'n' && d.word("null") }

// object reads an object and calls read for each field by its number. It
// returns the number of fields and braces read: 0 for null.
func (d *decoder) object(fields []string, read func(i int)) int {
	if d.null() {
		return 0
	}
	if d.peek() != '{' {
		d.wrongType("an object")
		return 1
	}
	if !d.open() {
		return 1
	}
	var seen uint32
	for first := true; d.more('}', first); first = false {
		key, ok := d.key()
		if !ok {
			break
		}
		d.trail.enter(key)
		switch i := fieldNumber(fields, key); {
		case i < 0:
			d.wrong(RuleUnknownField, fmt.Sprintf("%q is no field of the specification", key), suggest(fields, key))
			d.skip()
		case seen&(1<<i) != 0:
			d.wrong(RuleDuplicateKey, fmt.Sprintf("%q stands here twice", key), "it once")
			d.skip()
		default:
			seen |= 1 << i
			read(i)
		}
		d.leave()
	}
	return 1
}

func fieldNumber(fields []string, key string) int {
	for i, f := range fields {
		if f == key {
			return i
		}
	}
	// The specification has both spellings (CDI-094).
	if key == "additionalGIDs" {
		return fieldNumber(fields, "additionalGids")
	}
	return -1
}

// suggest is the field that was meant, if it can be told, or all.
func suggest(fields []string, key string) string {
	for _, f := range fields {
		if strings.EqualFold(f, key) {
			return strconv.Quote(f)
		}
	}
	return "one of " + strings.Join(fields, ", ")
}

// array reads a list and calls read for each element.
func (d *decoder) array(read func()) {
	if d.null() {
		return
	}
	if d.peek() != '[' {
		d.wrongType("a list")
		return
	}
	if !d.open() {
		return
	}
	for i := 0; d.more(']', i == 0); i++ {
		d.trail.at(i)
		read()
		d.leave()
	}
}

// str reads a string; null is "".
func (d *decoder) str() string {
	switch c := d.peek(); {
	case c == '"':
		return d.text()
	case d.null():
	case (c == '-' || digit(c)) && d.origin != nil:
		return d.plainNumber()
	default:
		d.wrongType("a string")
	}
	return ""
}

// plainNumber takes a YAML scalar such as the name 0 for a string, if it can be
// read in one way only.
func (d *decoder) plainNumber() string {
	text := d.number()
	if _, err := strconv.ParseInt(text, 10, 64); err != nil || d.origin.rewritten(d.at) {
		d.wrong(RuleType, "YAML takes this for a number, not for a string", "it in quotes")
	}
	return text
}

// integer reads a whole number within bounds; ok is false for null and for what
// is none.
func (d *decoder) integer(low, high int64) (n int64, ok bool) {
	if d.null() {
		return 0, false
	}
	if c := d.peek(); c != '-' && !digit(c) {
		d.wrongType("a number")
		return 0, false
	}
	text := d.number()
	n, err := strconv.ParseInt(text, 10, 64)
	if (err != nil || n < low || n > high) && !d.ended() {
		d.wrong(RuleType, fmt.Sprintf("%s is no whole number from %d to %d", text, low, high), "a whole number in decimal digits")
		return 0, false
	}
	return n, true
}

// id reads a number of 32 bits, or nil.
func (d *decoder) id() *uint32 {
	n, ok := d.integer(0, math.MaxUint32)
	if !ok {
		return nil
	}
	v := d.nums.one()
	*v = uint32(n)
	return v
}

// flag reads a boolean.
func (d *decoder) flag() bool {
	switch c := d.peek(); {
	case c == 't' && d.word("true"):
		return true
	case c == 'f' && d.word("false"), d.null():
	default:
		d.wrongType("a boolean")
	}
	return false
}

// strs reads a list of strings.
func (d *decoder) strs() []string {
	d.words = d.words[:0]
	d.array(func() {
		if d.null() {
			d.wrong(RuleType, "null is no string", "a string")
			d.words = append(d.words, "") // so that those after it have their numbers
			return
		}
		d.words = append(d.words, d.str())
	})
	return d.strings.list(d.words)
}

// annotations reads an object of strings.
func (d *decoder) annotations() map[string]string {
	if d.null() {
		return nil
	}
	if d.peek() != '{' {
		d.wrongType("an object of strings")
		return nil
	}
	m := map[string]string{}
	if !d.open() {
		return m
	}
	for first := true; d.more('}', first); first = false {
		key, ok := d.key()
		if !ok {
			break
		}
		d.trail.enter(key)
		if _, twice := m[key]; twice {
			d.wrong(RuleDuplicateKey, fmt.Sprintf("%q stands here twice", key), "it once")
		}
		m[key] = d.str()
		d.leave()
	}
	return m
}

func (d *decoder) specField(i int) {
	switch i {
	case 0:
		d.spec.Version = d.str()
	case 1:
		d.spec.Kind = d.str()
	case 2:
		d.spec.Annotations = d.annotations()
	case 3:
		d.list = d.list[:0]
		d.array(d.device)
		d.spec.Devices = d.devices.list(d.list)
	case 4:
		d.edits(&d.spec.ContainerEdits)
	}
}

func (d *decoder) device() {
	var v Device
	if d.object(deviceFields, func(i int) {
		switch i {
		case 0:
			v.Name = d.str()
		case 1:
			v.Annotations = d.annotations()
		case 2:
			d.edits(&v.ContainerEdits)
		}
	}) == 0 {
		d.wrong(RuleType, "null is no device", "an object")
	}
	d.list = append(d.list, v)
}

func (d *decoder) edits(e *ContainerEdits) {
	if d.peek() == '[' {
		at := d.pos
		d.skip()
		d.at = at
		d.wrong(RuleType, "containerEdits is one object, not a list (the specification's example is wrong there)", "an object")
		return
	}
	d.object(editFields, func(i int) {
		switch i {
		case 0:
			e.Env = d.strs()
		case 1:
			e.DeviceNodes = readObjects(d, &d.nodes, nodeFields, d.nodeField)
		case 2:
			e.NetDevices = readObjects(d, &d.nets, netFields, d.netField)
		case 3:
			e.Mounts = readObjects(d, &d.mounts, mountFields, d.mountField)
		case 4:
			e.Hooks = readObjects(d, &d.hooks, hookFields, d.hookField)
		case 5:
			e.AdditionalGIDs = d.groups()
		case 6:
			e.IntelRdt = d.rdt()
		}
	})
}

// readObjects reads a list of objects of one kind.
func readObjects[T any](d *decoder, o *objects[T], fields []string, field func(v *T, i int)) []*T {
	o.list = o.list[:0]
	d.array(func() {
		v := o.values.one()
		if d.object(fields, func(i int) { field(v, i) }) == 0 {
			d.wrong(RuleType, "null stands in a list of objects", "an object")
		}
		o.list = append(o.list, v)
	})
	return o.pointers.list(o.list)
}

func (d *decoder) nodeField(n *DeviceNode, i int) {
	switch i {
	case 0:
		n.Path = d.str()
	case 1:
		n.HostPath = d.str()
	case 2:
		n.Type = d.str()
	case 3:
		n.Major, _ = d.integer(math.MinInt64, math.MaxInt64)
	case 4:
		n.Minor, _ = d.integer(math.MinInt64, math.MaxInt64)
	case 5:
		n.FileMode = d.id()
	case 6:
		n.Permissions = d.str()
	case 7:
		n.UID = d.id()
	case 8:
		n.GID = d.id()
	}
}

func (d *decoder) netField(n *NetDevice, i int) {
	if i == 0 {
		n.HostInterfaceName = d.str()
	} else {
		n.Name = d.str()
	}
}

func (d *decoder) mountField(m *Mount, i int) {
	switch i {
	case 0:
		m.HostPath = d.str()
	case 1:
		m.ContainerPath = d.str()
	case 2:
		m.Type = d.str()
	case 3:
		m.Options = d.strs()
	}
}

func (d *decoder) hookField(h *Hook, i int) {
	switch i {
	case 0:
		h.HookName = d.str()
	case 1:
		h.Path = d.str()
	case 2:
		h.Args = d.strs()
	case 3:
		h.Env = d.strs()
	case 4:
		if n, ok := d.integer(math.MinInt32, math.MaxInt32); ok {
			h.Timeout = d.ints.one()
			*h.Timeout = int(n)
		}
	}
}

func (d *decoder) groups() []uint32 {
	d.groupIDs = d.groupIDs[:0]
	d.array(func() {
		if d.null() {
			d.wrong(RuleType, "null is no group id", "a number")
			return
		}
		if n, ok := d.integer(0, math.MaxUint32); ok {
			d.groupIDs = append(d.groupIDs, uint32(n))
		}
	})
	return d.gids.list(d.groupIDs)
}

func (d *decoder) rdt() *IntelRdt {
	r := &IntelRdt{}
	if d.object(rdtFields, func(i int) {
		switch i {
		case 0:
			r.ClosID = d.str()
		case 1:
			r.L3CacheSchema = d.str()
		case 2:
			r.MemBwSchema = d.str()
		case 3:
			r.EnableCMT = d.flag()
		case 4:
			r.EnableMBM = d.flag()
		case 5:
			r.Schemata = d.strs()
		case 6:
			r.EnableMonitoring = d.flag()
		}
	}) == 0 {
		return nil
	}
	return r
}
