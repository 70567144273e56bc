package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/fairlead/fairlead/cdi"
)

const schemaFile = "../../docs/reference/cdi-spec.schema.json"

// schema is as much of JSON Schema as a CDI spec needs.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	ID          string             `json:"$id,omitempty"`
	Ref         string             `json:"$ref,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Deprecated  bool               `json:"deprecated,omitempty"`
	Type        string             `json:"type,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	// Additional is false for an object of fixed fields, or the schema of all.
	Additional any                `json:"additionalProperties,omitempty"`
	Items      *schema            `json:"items,omitempty"`
	MinItems   int                `json:"minItems,omitempty"`
	Enum       []string           `json:"enum,omitempty"`
	Not        *schema            `json:"not,omitempty"`
	Pattern    string             `json:"pattern,omitempty"`
	MinLength  int                `json:"minLength,omitempty"`
	MaxLength  int                `json:"maxLength,omitempty"`
	Minimum    *int64             `json:"minimum,omitempty"`
	Maximum    *int64             `json:"maximum,omitempty"`
	Defs       map[string]*schema `json:"$defs,omitempty"`
}

const (
	nameWords  = `[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?`
	labelWords = `[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?`
)

func number(n int64) *int64 { return &n }

// constraints are what the types do not say, by type and field.
var constraints = map[string]func(*schema){
	"Spec.cdiVersion": func(s *schema) { s.Pattern = `^(0\.[3-8]|1\.[01])\.(0|[1-9][0-9]*)$` },
	"Spec.kind": func(s *schema) {
		s.Pattern, s.MaxLength = `^`+labelWords+`(\.`+labelWords+`)*/`+nameWords+`$`, 253+1+63
	},
	"Spec.devices":                  func(s *schema) { s.MinItems = 1 },
	"Device.name":                   func(s *schema) { s.Pattern = `^` + nameWords + `$` },
	"ContainerEdits.env":            assignments,
	"ContainerEdits.netDevices":     since("1.1.0"),
	"ContainerEdits.intelRdt":       since("0.7.0"),
	"DeviceNode.path":               absolutePath,
	"DeviceNode.hostPath":           func(s *schema) { s.Pattern = `^(/|$)`; since("0.5.0")(s) },
	"DeviceNode.type":               func(s *schema) { s.Enum = []string{"", "b", "c", "u", "p"} },
	"DeviceNode.major":              deviceNumber,
	"DeviceNode.minor":              deviceNumber,
	"DeviceNode.permissions":        func(s *schema) { s.Pattern = `^[rwm]*$` },
	"NetDevice.hostInterfaceName":   interfaceName,
	"NetDevice.name":                interfaceName,
	"Mount.hostPath":                func(s *schema) { s.MinLength = 1 },
	"Mount.containerPath":           absolutePath,
	"Mount.type":                    since("0.4.0"),
	"Hook.hookName":                 hookNames,
	"Hook.path":                     absolutePath,
	"Hook.env":                      assignments,
	"Hook.timeout":                  func(s *schema) { s.Minimum, s.Maximum = number(1), number(math.MaxInt32) },
	"IntelRdt.closID":               closID,
	"IntelRdt.schemata":             func(s *schema) { s.Items.Pattern = `^[^\n]*$`; since("1.1.0")(s) },
	"IntelRdt.enableMonitoring":     since("1.1.0"),
	"IntelRdt.enableCMT":            func(s *schema) { s.Deprecated, s.Description = true, "Up to version 1.0.0." },
	"IntelRdt.enableMBM":            func(s *schema) { s.Deprecated, s.Description = true, "Up to version 1.0.0." },
	"Spec.annotations":              since("0.6.0"),
	"Device.annotations":            since("0.6.0"),
	"ContainerEdits.additionalGids": since("0.7.0"),
}

func since(version string) func(*schema) {
	return func(s *schema) { s.Description = "Since version " + version + "." }
}

func absolutePath(s *schema) { s.Pattern = `^/` }
func assignments(s *schema)  { s.Items.Pattern = `^[^=]+=` }
func deviceNumber(s *schema) { s.Minimum, s.Maximum = number(0), number(math.MaxUint32) }
func hookNames(s *schema) {
	s.Enum = []string{"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
}

func interfaceName(s *schema) {
	s.Pattern, s.Not = `^[^/:\s]{1,15}$`, &schema{Enum: []string{".", ".."}}
}

func closID(s *schema) {
	s.Pattern, s.MaxLength, s.Not = `^(/|[^/\n]*)$`, 255, &schema{Enum: []string{".", ".."}}
}

// required are the fields that a spec cannot do without (CDI-026).
var required = map[string][]string{
	"Spec":       {"cdiVersion", "kind", "devices"},
	"Device":     {"name"},
	"DeviceNode": {"path"},
	"NetDevice":  {"hostInterfaceName", "name"},
	"Mount":      {"hostPath", "containerPath"},
	"Hook":       {"hookName", "path"},
}

// schemaOf makes the schema of the library's types.
func schemaOf(t *testing.T) *schema {
	t.Helper()
	defs := map[string]*schema{}
	used := map[string]bool{}
	root := objectSchema(reflect.TypeFor[cdi.Spec](), defs, used)
	for name := range constraints {
		if !used[name] {
			t.Errorf("%s is constrained, and no field", name)
		}
	}
	// The specification has both spellings (CDI-094).
	edits := defs["ContainerEdits"]
	other := *edits.Properties["additionalGids"]
	other.Deprecated, other.Description = true, "Read as additionalGids."
	edits.Properties["additionalGIDs"] = &other
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.ID = "https://fairlead.dev/schemas/cdi-spec.schema.json"
	root.Title = "Container Device Interface spec, versions 0.3.0 to 1.1.0"
	root.Description = "What a schema can say of a spec; `fairlead cdi validate` checks the rest: that fields are of the spec's version, that names of devices differ, and the host's side."
	root.Defs = defs
	return root
}

func objectSchema(t reflect.Type, defs map[string]*schema, used map[string]bool) *schema {
	s := &schema{Type: "object", Properties: map[string]*schema{}, Required: required[t.Name()], Additional: false}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		field := valueSchema(f.Type, defs, used)
		if constrain := constraints[t.Name()+"."+name]; constrain != nil {
			constrain(field)
			used[t.Name()+"."+name] = true
		}
		s.Properties[name] = field
	}
	return s
}

func valueSchema(t reflect.Type, defs map[string]*schema, used map[string]bool) *schema {
	switch t.Kind() {
	case reflect.Pointer:
		return valueSchema(t.Elem(), defs, used)
	case reflect.Struct:
		if defs[t.Name()] == nil {
			defs[t.Name()] = &schema{} // against recursion
			defs[t.Name()] = objectSchema(t, defs, used)
		}
		return &schema{Ref: "#/$defs/" + t.Name()}
	case reflect.Slice:
		return &schema{Type: "array", Items: valueSchema(t.Elem(), defs, used)}
	case reflect.Map:
		return &schema{Type: "object", Additional: valueSchema(t.Elem(), defs, used)}
	case reflect.String:
		return &schema{Type: "string"}
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.Uint32:
		return &schema{Type: "integer", Minimum: number(0), Maximum: number(math.MaxUint32)}
	}
	return &schema{Type: "integer"}
}

// TestCDISchema: the published schema is that of the library's types. Make it
// with: UPDATE_DOCS=1 go test -run TestCDISchema .
func TestCDISchema(t *testing.T) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(schemaOf(t)); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(schemaFile, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(schemaFile)
	if err != nil || !bytes.Equal(kept, b.Bytes()) {
		t.Errorf("%s is not that of the code (%v); make it with: UPDATE_DOCS=1 go test -run TestCDISchema ./cmd/fairlead", schemaFile, err)
	}
}

// outOfReach are rules, or cases, that no schema can express.
var outOfReach = map[cdi.Rule]bool{
	cdi.RuleSyntax: true, cdi.RuleTrailing: true, cdi.RuleDuplicateKey: true, cdi.RuleSize: true, cdi.RuleFile: true,
	cdi.RuleVersionField: true,
}

// TestCDISchemaAgrees: of the library's own cases the schema takes what the
// library takes, and refuses what it refuses but for rules beyond a schema.
//
// Req: CDI-025, CDI-026, CDI-029, CDI-032, CDI-033, CDI-034, CDI-035, CDI-036, CDI-037
func TestCDISchemaAgrees(t *testing.T) {
	text, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, c := range parseCases(t) {
		var v any
		dec := json.NewDecoder(bytes.NewReader(c.Data))
		dec.UseNumber()
		if filepath.Ext(c.Name) != ".json" || dec.Decode(&v) != nil {
			continue
		}
		_, err := cdi.Parse(c.Name, c.Data)
		reachable := err == nil
		if problems, ok := errors.AsType[cdi.Problems](err); ok {
			reachable = slices.ContainsFunc(problems, func(p *cdi.Problem) bool { return !outOfReach[p.Rule] })
		}
		wrong := root.check(&root, v, "$")
		switch {
		case err == nil && wrong != nil && !strings.Contains(string(c.Data), "null"):
			// null stands for an absent field, which a schema need not know.
			t.Errorf("%s: the schema refuses what is right: %v", c.Name, wrong)
		case err != nil && wrong == nil && reachable && !beyond(err):
			t.Errorf("%s: the schema takes what is wrong: %v", c.Name, err)
		}
		seen++
	}
	if seen < 60 {
		t.Errorf("only %d cases were found: the test looks in the wrong place", seen)
	}
}

// beyond tells cases of expressible rules that are not expressible themselves.
func beyond(err error) bool {
	for _, text := range []string{"is there already", "more than 253", "is moved twice", "two interfaces become", "NUL", "was taken out", `hostPath: "`} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return strings.Contains(err.Error(), `\x00`)
}

func parseCases(t *testing.T) (cases []txtar.File) {
	t.Helper()
	archives, err := filepath.Glob("../../cdi/testdata/parse/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range archives {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(a.Files); i += 2 { // each with what is wrong with it
			cases = append(cases, a.Files[i])
		}
	}
	return cases
}

// check holds v to the schema, as a validator would.
func (s *schema) check(root *schema, v any, path string) error {
	if s.Ref != "" {
		return root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")].check(root, v, path)
	}
	switch v := v.(type) {
	case map[string]any:
		if s.Type == "object" {
			return s.checkObject(root, v, path)
		}
	case []any:
		if s.Type == "array" {
			return s.checkArray(root, v, path)
		}
	case string:
		if s.Type == "string" || s.Type == "" {
			return s.checkText(v, path)
		}
	case bool:
		if s.Type == "boolean" {
			return nil
		}
	case json.Number:
		n, err := v.Int64()
		if s.Type == "integer" && err == nil && (s.Minimum == nil || n >= *s.Minimum) && (s.Maximum == nil || n <= *s.Maximum) {
			return nil
		}
	}
	return fmt.Errorf("%s: %v is not of %s", path, v, s.Type)
}

func (s *schema) checkObject(root *schema, v map[string]any, path string) error {
	for _, key := range s.Required {
		if _, ok := v[key]; !ok {
			return fmt.Errorf("%s: %s is missing", path, key)
		}
	}
	for key, value := range v {
		field := s.Properties[key]
		if more, ok := s.Additional.(map[string]any); field == nil && ok {
			field = &schema{Type: more["type"].(string)}
		}
		if field == nil {
			return fmt.Errorf("%s: %s is unknown", path, key)
		}
		if err := field.check(root, value, path+"."+key); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) checkArray(root *schema, v []any, path string) error {
	if len(v) < s.MinItems {
		return fmt.Errorf("%s: too short", path)
	}
	for i, item := range v {
		if err := s.Items.check(root, item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) checkText(v, path string) error {
	n := utf8.RuneCountInString(v)
	switch {
	case n < s.MinLength || s.MaxLength > 0 && n > s.MaxLength:
		return fmt.Errorf("%s: %q has a wrong length", path, v)
	case s.Enum != nil && !slices.Contains(s.Enum, v):
		return fmt.Errorf("%s: %q is none of %q", path, v, s.Enum)
	case s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v):
		return fmt.Errorf("%s: %q does not match %s", path, v, s.Pattern)
	case s.Not != nil && s.Not.checkText(v, path) == nil:
		return fmt.Errorf("%s: %q is excluded", path, v)
	}
	return nil
}
