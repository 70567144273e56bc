package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// config is a container's configuration as text and as what the library edits.
// The types know the fields of one version of the OCI specification; the text
// may have others, newer ones or a runtime's own, and keeps them.
type config struct {
	name   string
	text   []byte
	root   *jsonValue // the text
	spec   *oci.Spec
	before *jsonValue // spec as it was, as JSON
}

func parseConfig(name string, text []byte) (*config, error) {
	c := &config{name: name, text: text, spec: &oci.Spec{}}
	var err error
	if c.root, err = parseJSON(text); err != nil {
		return nil, fmt.Errorf("read OCI configuration %s: %w", jsonPlace(name, text, err), err)
	}
	if c.root.members == nil {
		return nil, fmt.Errorf("read OCI configuration %s: it is no JSON object", name)
	}
	if err := json.Unmarshal(text, c.spec); err != nil {
		return nil, fmt.Errorf("read OCI configuration %s: %w", jsonPlace(name, text, err), err)
	}
	if c.spec.Version == "" {
		// Some other JSON, such as of "podman inspect", would be edited in vain.
		return nil, fmt.Errorf("read OCI configuration %s: it has no ociVersion, which every config.json has", name)
	}
	c.before, err = encoded(c.spec)
	return c, err
}

// jsonPlace is name:line:column of what encoding/json found wrong, or just the
// name.
func jsonPlace(name string, text []byte, err error) string {
	var after int64 // bytes up to and with what is wrong
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		after = e.Offset
	} else if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		after = e.Offset
	}
	if after < 1 || after > int64(len(text)) {
		return name
	}
	before := text[:after-1]
	return fmt.Sprintf("%s:%d:%d", name, 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n'))
}

// errLossy says that a change cannot be made in the text without changing more.
var errLossy = errors.New("keys that differ only in case, or a value written in two ways, keep it from being edited faithfully")

// edited is the text with what has changed in spec, and nothing else. Its
// indentation is that of the text before.
func (c *config) edited() ([]byte, error) {
	after, err := encoded(c.spec)
	if err != nil {
		return nil, err
	}
	if reflect.DeepEqual(c.before, after) {
		return c.text, nil
	}
	c.root.change(c.before, after)
	text := c.format(c.root)
	// What a runtime will read must be just what was meant.
	var again oci.Spec
	if err := json.Unmarshal(text, &again); err != nil {
		return nil, fmt.Errorf("edit OCI configuration %s: %w", c.name, err)
	}
	read, err := encoded(&again)
	if err == nil && !reflect.DeepEqual(read, after) {
		err = errLossy
	}
	if err != nil {
		return nil, fmt.Errorf("edit OCI configuration %s: %w", c.name, err)
	}
	return text, nil
}

// format writes v as the text was: on one line, or with its indentation.
func (c *config) format(v *jsonValue) []byte {
	var b bytes.Buffer
	v.write(&b)
	if indent := indentOf(c.text); indent != "" {
		var pretty bytes.Buffer
		_ = json.Indent(&pretty, b.Bytes(), "", indent) // it was written just now
		b = pretty
	}
	if bytes.HasSuffix(c.text, []byte("\n")) {
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// indentOf is the space before the first key, "" for a text on one line.
func indentOf(text []byte) string {
	text = bytes.TrimLeft(text, " \t\r\n")
	line, rest, ok := bytes.Cut(text, []byte("\n"))
	if !ok || string(bytes.TrimSpace(line)) != "{" {
		return ""
	}
	return string(rest[:len(rest)-len(bytes.TrimLeft(rest, " \t"))])
}

// encoded is spec as JSON, with the keys in the order of the types.
func encoded(spec *oci.Spec) (*jsonValue, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(spec); err != nil {
		return nil, fmt.Errorf("encode OCI configuration: %w", err)
	}
	return parseJSON(b.Bytes())
}

// jsonValue is a JSON value that keeps the order of its keys and how strings and
// numbers are written. Exactly one of its fields is set.
type jsonValue struct {
	members *[]jsonMember
	items   *[]*jsonValue
	scalar  string // as it is written
}

type jsonMember struct {
	key, text string // text is the key as it is written
	value     *jsonValue
}

func parseJSON(text []byte) (*jsonValue, error) {
	var syntax json.RawMessage
	if err := json.Unmarshal(text, &syntax); err != nil {
		return nil, err
	}
	r := jsonReader{rest: string(text)}
	v := r.value()
	return v, r.err
}

// jsonReader reads JSON whose syntax is known to be right.
type jsonReader struct {
	rest string
	err  error
}

// next passes over space and returns the byte that follows.
func (r *jsonReader) next() byte {
	r.rest = strings.TrimLeft(r.rest, " \t\r\n")
	return r.rest[0]
}

// more passes over a bracket or comma, and says whether an element follows.
func (r *jsonReader) more(end byte) bool {
	if r.next() == end {
		r.rest = r.rest[1:]
		return false
	}
	r.rest = r.rest[1:]
	if r.next() == end { // of an empty list
		r.rest = r.rest[1:]
		return false
	}
	return true
}

func (r *jsonReader) value() *jsonValue {
	switch r.next() {
	case '{':
		members := []jsonMember{}
		seen := map[string]bool{}
		for r.more('}') {
			m := r.key()
			if seen[m.key] {
				r.err = fmt.Errorf("the key %q stands twice in one object", m.key)
			}
			seen[m.key] = true
			m.value = r.value()
			members = append(members, m)
		}
		return &jsonValue{members: &members}
	case '[':
		items := []*jsonValue{}
		for r.more(']') {
			items = append(items, r.value())
		}
		return &jsonValue{items: &items}
	case '"':
		return &jsonValue{scalar: r.text()}
	}
	return &jsonValue{scalar: r.cut(strings.IndexAny(r.rest, " \t\r\n,]}"))}
}

// key reads a key and its colon.
func (r *jsonReader) key() jsonMember {
	r.next()
	m := jsonMember{text: r.text()}
	if m.key = m.text[1 : len(m.text)-1]; strings.Contains(m.key, `\`) {
		_ = json.Unmarshal([]byte(m.text), &m.key) // its syntax is right
	}
	r.next()
	r.rest = r.rest[1:]
	return m
}

// text reads a string as it is written.
func (r *jsonReader) text() string {
	for i := 1; ; i++ {
		switch r.rest[i] {
		case '\\':
			i++
		case '"':
			return r.cut(i + 1)
		}
	}
}

// cut takes n bytes, all for n below zero.
func (r *jsonReader) cut(n int) string {
	if n < 0 {
		n = len(r.rest)
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (v *jsonValue) write(b *bytes.Buffer) {
	switch {
	case v.members != nil:
		for i, m := range *v.members {
			b.WriteByte("{,"[min(i, 1)])
			b.WriteString(m.text)
			b.WriteByte(':')
			m.value.write(b)
		}
		if len(*v.members) == 0 {
			b.WriteByte('{')
		}
		b.WriteByte('}')
	case v.items != nil:
		for i, item := range *v.items {
			b.WriteByte("[,"[min(i, 1)])
			item.write(b)
		}
		if len(*v.items) == 0 {
			b.WriteByte('[')
		}
		b.WriteByte(']')
	default:
		b.WriteString(v.scalar)
	}
}

// change makes in v what differs between before, which the types made of v, and
// after. What the types do not know is in neither, and stays.
func (v *jsonValue) change(before, after *jsonValue) {
	switch {
	case reflect.DeepEqual(before, after):
	case before == nil:
		*v = *after
	case before.members != nil && after.members != nil && v.members != nil:
		v.changeObject(before, after)
	case before.items != nil && after.items != nil && v.items != nil && len(*v.items) == len(*before.items):
		v.changeList(*before.items, *after.items)
	default:
		*v = *after
	}
}

func (v *jsonValue) changeObject(before, after *jsonValue) {
	for _, m := range *before.members {
		if i := v.member(m.key); i >= 0 && after.get(m.key) == nil {
			*v.members = slices.Delete(*v.members, i, i+1)
		}
	}
	for _, m := range *after.members {
		was := before.get(m.key)
		if i := v.member(m.key); i >= 0 {
			(*v.members)[i].value.change(was, m.value)
		} else if !reflect.DeepEqual(was, m.value) {
			*v.members = append(*v.members, m)
		}
	}
}

// get is the value of a key, or nil.
func (v *jsonValue) get(key string) *jsonValue {
	for _, m := range *v.members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// member finds a key as encoding/json does: as it is, or else in any case.
func (v *jsonValue) member(key string) int {
	if i := slices.IndexFunc(*v.members, func(m jsonMember) bool { return m.key == key }); i >= 0 {
		return i
	}
	return slices.IndexFunc(*v.members, func(m jsonMember) bool { return strings.EqualFold(m.key, key) })
}

// changeList keeps the elements that were there, wherever they are now.
func (v *jsonValue) changeList(before, after []*jsonValue) {
	used := make([]bool, len(before))
	items := slices.Clone(after)
	first := 0 // that is not used
	for i, want := range after {
		for first < len(used) && used[first] {
			first++
		}
		for j := first; j < len(before); j++ {
			if !used[j] && reflect.DeepEqual(before[j], want) {
				used[j], items[i] = true, (*v.items)[j]
				break
			}
		}
	}
	v.items = &items
}
