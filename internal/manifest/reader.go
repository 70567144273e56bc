package manifest

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/internal/claim"
)

// reader goes through the sources, gathering the set and the mistakes.
type reader struct {
	file string
	set  Set
	errs Errors
	seen map[string]string // "kind/name" to "file:line:column"
}

func (r *reader) fail(p position, format string, args ...any) {
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, &Error{r.file, p.line, p.column, fmt.Sprintf(format, args...)})
	}
}

// object is a mapping under inspection. Values of the wrong type are noted and
// read as absent.
type object struct {
	r      *reader
	path   string // for errors: spec, metadata
	at     position
	fields map[string]field
}

// field is one value of a mapping; at is where the key stands.
type field struct {
	at    position
	value *yaml.Node
}

// object reads a mapping that has no other keys than these; nil where it is none.
func (r *reader) object(n *yaml.Node, path string, known ...string) *object {
	o := r.mapping(n, path)
	if o == nil {
		return nil
	}
	for _, key := range o.keys() {
		if !slices.Contains(known, key) {
			r.fail(o.fields[key].at, "unknown field %q%s (known: %s)", short(key), in(path), strings.Join(known, ", "))
		}
	}
	return o
}

func (r *reader) mapping(n *yaml.Node, path string) *object {
	if n == nil || n.Kind != yaml.MappingNode {
		r.fail(at(n), "%s must be an object, not %s", or(path, "a document"), kindOf(n))
		return nil
	}
	o := &object{r: r, path: path, at: at(n), fields: map[string]field{}}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		first, twice := o.fields[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.fail(at(key), "a key must be a string, not %s", kindOf(key))
		case twice:
			r.fail(at(key), "field %q is given already at line %d%s", short(key.Value), first.at.line, in(path))
		default:
			o.fields[key.Value] = field{at(key), value}
		}
	}
	return o
}

// keys are in the order of the source.
func (o *object) keys() []string {
	var keys []string
	for key := range o.fields {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		p, q := o.fields[a].at, o.fields[b].at
		if p.line != q.line {
			return p.line - q.line
		}
		return p.column - q.column
	})
	return keys
}

// text reads a string; "" where it is absent.
func (o *object) text(key string) string {
	f, ok := o.fields[key]
	if !ok {
		return ""
	}
	return o.r.text(f.value, join(o.path, key))
}

// required reads a string that must be there and not empty.
func (o *object) required(key string) string {
	f, ok := o.fields[key]
	if !ok {
		o.r.fail(o.at, "%s is required", join(o.path, key))
		return ""
	}
	before := len(o.r.errs)
	s := o.text(key)
	if s == "" && len(o.r.errs) == before {
		o.r.fail(f.at, "%s is empty", join(o.path, key))
	}
	return s
}

// texts reads a map of strings; nil where it is absent or empty.
func (o *object) texts(key string) map[string]string {
	f, ok := o.fields[key]
	if !ok || f.value.ShortTag() == "!!null" {
		return nil
	}
	m := o.r.mapping(f.value, join(o.path, key))
	if m == nil || len(m.fields) == 0 {
		return nil
	}
	out := make(map[string]string, len(m.fields))
	for _, k := range m.keys() {
		out[k] = m.text(k)
	}
	return out
}

// list reads a list of strings, with the place of each.
func (o *object) list(key string) (items []string, places []position) {
	f, ok := o.fields[key]
	if !ok {
		return nil, nil
	}
	if f.value.Kind != yaml.SequenceNode {
		o.r.fail(f.at, "%s must be a list, not %s", join(o.path, key), kindOf(f.value))
		return nil, nil
	}
	for _, item := range f.value.Content {
		items = append(items, o.r.text(item, join(o.path, key)))
		places = append(places, at(item))
	}
	return items, places
}

// place is where the value of a key stands, or else the object.
func (o *object) place(key string) position {
	if f, ok := o.fields[key]; ok {
		return at(f.value)
	}
	return o.at
}

// check notes err, if there is one, at the value of a key.
func (o *object) check(key string, err error) {
	if err == nil {
		return
	}
	message := err.Error()
	if e, ok := err.(*claim.Error); ok && e.Hint != "" { //nolint:errorlint // claim's rules return it bare
		message += " (" + e.Hint + ")"
	}
	o.r.fail(o.place(key), "%s", message)
}

// text reads a string. YAML reads true, 10 and null as something else, which
// a cluster would refuse: so must we.
func (r *reader) text(n *yaml.Node, path string) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.fail(at(n), "%s must be a string, not %s", path, kindOf(n))
		return ""
	}
	if n.ShortTag() != "!!str" {
		r.fail(at(n), "%s must be a string: write %q in quotes", path, short(n.Value))
		return ""
	}
	return n.Value
}

func kindOf(n *yaml.Node) string {
	switch {
	case n == nil || n.ShortTag() == "!!null":
		return "nothing"
	case n.Kind == yaml.MappingNode:
		return "an object"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "an alias (write it out)"
	}
	return "a string"
}

func in(path string) string {
	if path == "" {
		return ""
	}
	return " in " + path
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + short(key)
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// short keeps hostile input out of messages.
func short(s string) string {
	if c := []rune(s); len(c) > 40 {
		return string(c[:40]) + "…"
	}
	return s
}
