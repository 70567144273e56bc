package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
		return nil, fmt.Errorf("read OCI configuration %s: %w", name, err)
	}
	if c.root.members == nil {
		return nil, fmt.Errorf("read OCI configuration %s: it is no JSON object", name)
	}
	if err := json.Unmarshal(text, c.spec); err != nil {
		return nil, fmt.Errorf("read OCI configuration %s: %w", name, err)
	}
	c.before, err = encoded(c.spec)
	return c, err
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
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode OCI configuration: %w", err)
	}
	return parseJSON(text)
}

// jsonValue is a JSON value that keeps the order of its keys and the digits of
// its numbers. Exactly one of its fields is set.
type jsonValue struct {
	members *[]jsonMember
	items   *[]*jsonValue
	scalar  string // as it is written
}

type jsonMember struct {
	key   string
	value *jsonValue
}

func parseJSON(text []byte) (*jsonValue, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	v, err := readJSON(dec)
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON value")
	}
	return v, nil
}

func readJSON(dec *json.Decoder) (*jsonValue, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return readObject(dec)
	case json.Delim('['):
		items := []*jsonValue{}
		for dec.More() {
			item, err := readJSON(dec)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		_, err := dec.Token()
		return &jsonValue{items: &items}, err
	}
	return &jsonValue{scalar: scalarOf(token)}, nil
}

func readObject(dec *json.Decoder) (*jsonValue, error) {
	members := []jsonMember{}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string) // the decoder takes nothing else for a key
		if seen[key] {
			return nil, fmt.Errorf("the key %q stands twice in one object", key)
		}
		seen[key] = true
		value, err := readJSON(dec)
		if err != nil {
			return nil, err
		}
		members = append(members, jsonMember{key, value})
	}
	_, err := dec.Token()
	return &jsonValue{members: &members}, err
}

// scalarOf writes a string, number, boolean or null.
func scalarOf(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // a scalar can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}

func (v *jsonValue) write(b *bytes.Buffer) {
	switch {
	case v.members != nil:
		for i, m := range *v.members {
			b.WriteByte("{,"[min(i, 1)])
			b.WriteString(scalarOf(m.key))
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
