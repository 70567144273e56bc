package cdi

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Rule names one rule that a spec can break.
type Rule string

// The rules of the format. Those of the syntax have no clause of their own: a CDI
// file is JSON (CDI-024).
const (
	RuleSyntax        Rule = "syntax"
	RuleTrailing      Rule = "trailing-data"
	RuleDuplicateKey  Rule = "duplicate-key"
	RuleUnknownField  Rule = "unknown-field"
	RuleType          Rule = "type"
	RuleSize          Rule = "size"
	RuleFile          Rule = "file"
	RuleRequired      Rule = "required"
	RuleVersionFormat Rule = "version-format"
	RuleVersionKnown  Rule = "version-known"
	RuleVersionField  Rule = "version-field"
	RuleKind          Rule = "kind"
	RuleVendor        Rule = "vendor"
	RuleClass         Rule = "class"
	RuleDeviceName    Rule = "device-name"
	RuleDevices       Rule = "devices"
	RuleEnv           Rule = "env"
	RulePath          Rule = "path"
	RuleNodeType      Rule = "node-type"
	RuleNodeNumber    Rule = "node-number"
	RulePermissions   Rule = "permissions"
	RuleHookName      Rule = "hook-name"
	RuleHookPath      Rule = "hook-path"
	RuleHookTimeout   Rule = "hook-timeout"
	RuleClosID        Rule = "clos-id"
	RuleSchemata      Rule = "schemata"
	RuleNetDevice     Rule = "net-device"
)

// clauses say where each rule is written.
var clauses = map[Rule]string{
	RuleSyntax: "CDI-024", RuleTrailing: "CDI-024", RuleDuplicateKey: "CDI-024", RuleType: "CDI-029",
	RuleUnknownField: "CDI-013", RuleRequired: "CDI-026", RuleVersionFormat: "CDI-039", RuleVersionKnown: "CDI-038",
	RuleVersionField: "CDI-014", RuleKind: "CDI-041", RuleVendor: "CDI-044", RuleClass: "CDI-042",
	RuleDeviceName: "CDI-050", RuleDevices: "CDI-048", RuleEnv: "CDI-059", RuleNodeType: "CDI-065",
	RuleNodeNumber: "CDI-066", RulePermissions: "CDI-069", RuleHookName: "CDI-079", RuleHookPath: "CDI-082",
	RuleHookTimeout: "CDI-086", RuleClosID: "CDI-089",
}

// Clause is the requirement that the rule comes from, such as CDI-048, or "" for
// a rule that is this library's own or a later version's.
func (r Rule) Clause() string { return clauses[r] }

// Problem is one broken rule in one spec, for a person to mend.
type Problem struct {
	File         string // "" if the spec is not from a file
	Line, Column int    // from 1; 0 if the spec is not from a file. Columns are bytes.
	Path         string // as in $.devices[0].name; $ is the whole
	Rule         Rule
	Message      string
	Fix          string // what to write instead; may be empty

	steps []step // of Path
}

func (p *Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ":")
	}
	if p.Line > 0 {
		b.WriteString(strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column) + ":")
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(p.Path + ": " + p.Message + " [" + string(p.Rule) + "]")
	if p.Fix != "" {
		b.WriteString("; write " + p.Fix)
	}
	return b.String()
}

// explains reports whether another problem is there because of p: p is that a value,
// or one around it, cannot be read, or has a name that differs in case.
func (p *Problem) explains(other *Problem) bool {
	switch p.Rule {
	case RuleType, RuleRequired, RuleUnknownField:
	default:
		return false
	}
	if len(p.steps) > len(other.steps) {
		return false
	}
	for i, s := range p.steps {
		if o := other.steps[i]; o.index != s.index || !strings.EqualFold(o.name, s.name) {
			return false
		}
	}
	return true
}

// ErrInvalid is wrapped by every error about a spec that breaks a rule.
var ErrInvalid = errors.New("invalid CDI spec")

// Problems is all that is wrong with one spec, in the order of the file. It is
// an error that wraps ErrInvalid and each Problem.
type Problems []*Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is find ErrInvalid and errors.As the first Problem.
func (p Problems) Unwrap() []error {
	errs := make([]error, 0, len(p)+1)
	for _, one := range p {
		errs = append(errs, one)
	}
	return append(errs, ErrInvalid)
}

// maxProblems bounds what is told of one spec; who has mended so many runs the
// check again.
const maxProblems = 50

// trail is the way to the value that is looked at, kept so that it costs nothing
// unless something is wrong.
type trail struct {
	steps [12]step
	depth int
}

// step is an element by index or, with index -1, a field by name.
type step struct {
	name  string
	index int
}

func (t *trail) enter(name string) { t.push(step{name, -1}) }
func (t *trail) at(i int)          { t.push(step{index: i}) }
func (t *trail) leave()            { t.depth-- }

func (t *trail) push(s step) {
	if t.depth < len(t.steps) {
		t.steps[t.depth] = s
	}
	t.depth++
}

// copy is the trail to keep.
func (t *trail) copy() []step { return slices.Clone(t.steps[:min(t.depth, len(t.steps))]) }

func (t *trail) String() string {
	var b strings.Builder
	b.WriteByte('$')
	for _, s := range t.steps[:min(t.depth, len(t.steps))] {
		switch {
		case s.index >= 0:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case plainKey(s.name):
			b.WriteString("." + s.name)
		default:
			b.WriteString("[" + strconv.Quote(s.name) + "]")
		}
	}
	return b.String()
}

// plainKey tells the names that a path can hold without quotes.
func plainKey(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' {
			return false
		}
	}
	return s != ""
}
