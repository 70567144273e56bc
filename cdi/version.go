package cdi

import (
	"fmt"
	"strconv"
	"strings"
)

// version is a version of the specification, comparable by <: the major number
// times 256 plus the minor one. Patch versions change no file (CDI-018).
type version uint16

// The versions, each for what it brought (CDI-004 to CDI-012).
const (
	v030 version = 3
	v040 version = 4        // type of mounts
	v050 version = 5        // hostPath of device nodes, device names that begin with a digit
	v060 version = 6        // annotations, dots in the class
	v070 version = 7        // intelRdt, additionalGids
	v080 version = 8        // nothing in a file
	v100 version = 1 << 8   // nothing in a file
	v110 version = 1<<8 | 1 // netDevices, schemata, enableMonitoring; enableCMT and enableMBM are gone
)

// Versions are the versions of the specification that are understood, oldest
// first. Their patch versions are too.
var Versions = []string{"0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"}

func (v version) String() string { return fmt.Sprintf("%d.%d.0", v>>8, v&0xff) }

func (v version) known() bool { return v >= v030 && v <= v080 || v == v100 || v == v110 }

// parseVersion reads a Semantic Version 2.0 (CDI-039). Pre-releases and builds
// are well-formed but are no version that was ever released.
func parseVersion(s string) (v version, rule Rule, fix string) {
	var n [3]int
	core, _, _ := strings.Cut(s, "-")
	core, _, _ = strings.Cut(core, "+")
	parts := strings.Split(core, ".")
	for i, part := range parts {
		num, err := strconv.Atoi(part)
		if len(parts) != 3 || err != nil || num < 0 || part != strconv.Itoa(num) {
			return 0, RuleVersionFormat, "three numbers with dots between, as in 0.6.0"
		}
		n[i] = num
	}
	if v = version(n[0]<<8 | n[1]&0xff); core != s || n[0] > 255 || n[1] > 255 || !v.known() {
		return 0, RuleVersionKnown, "one of " + strings.Join(Versions, ", ")
	}
	return v, "", ""
}

// MinimumVersion is the lowest version of the specification that has all that s
// uses (CDI-015, CDI-016).
func MinimumVersion(s *Spec) string {
	c := checker{spec: s}
	c.walk()
	return c.minimum.String()
}
