package main

import (
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/control"
	"github.com/fairlead/fairlead/internal/manifest"
)

// docsRoot is the repository, where the documentation and its examples are.
const docsRoot = "../.."

// madeElsewhere are pages that may not be there yet: a benchmark writes them.
var madeElsewhere = []string{"docs/reference/performance.md"}

// docPages are all pages that people write, by path from the root.
func docPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	names := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	err := fs.WalkDir(os.DirFS(docsRoot), "docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Ext(name) == ".md" && name != "docs/reference/requirements.md" && !slices.Contains(madeElsewhere, name) {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		pages[name] = docText(t, name)
	}
	return pages
}

func docText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docsRoot, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// block is a fenced block of code.
type block struct {
	language, text string
	line           int
}

func docBlocks(page string) (blocks []block) {
	var open *block
	n := 0
	for line := range strings.Lines(page) {
		n++
		switch fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```"); {
		case isFence && open == nil:
			open = &block{language: fence, line: n + 1}
		case isFence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += line
		}
	}
	return blocks
}

// prose is the page without its fenced blocks.
func prose(page string) string {
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(page, "")
}

// Every relative link leads somewhere, to the heading or anchor too.
func TestDocLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for name, page := range docPages(t) {
		for _, m := range link.FindAllStringSubmatch(prose(page), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(docsRoot, file)); err != nil && !slices.Contains(madeElsewhere, file) {
				t.Errorf("%s: link to %s: %v", name, m[1], err)
			} else if anchor != "" && !docAnchors(docText(t, file))[anchor] {
				t.Errorf("%s: link to %s: no such heading", name, m[1])
			}
		}
	}
}

// docAnchors are what can stand after # in a link to the page.
func docAnchors(page string) map[string]bool {
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`<a id="([^"]+)">`).FindAllStringSubmatch(page, -1) {
		anchors[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(prose(page), -1) {
		anchors[strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, m[1])] = true
	}
	return anchors
}

// Every manifest is one that apply takes.
func TestDocManifests(t *testing.T) {
	seen := 0
	for name, page := range docPages(t) {
		for _, b := range docBlocks(page) {
			if b.language != "yaml" {
				continue
			}
			seen++
			if _, err := manifest.Parse(manifest.Source{Name: name, Text: []byte(b.text)}); err != nil {
				t.Errorf("block at line %d: %v", b.line, err)
			}
		}
	}
	if seen == 0 {
		t.Error("no manifest was found")
	}
}

// Every variable of the code is documented, and every documented one is there;
// what is no secret can be set by environment.
// Req: COSI-153
func TestDocEnvironment(t *testing.T) {
	variable := regexp.MustCompile(`\b(?:FAIRLEAD_[A-Z0-9_]*[A-Z0-9]|OTEL_[A-Z0-9_]*[A-Z0-9]|COSI_ENDPOINT)\b`)
	inCode := map[string]bool{}
	for _, dir := range []string{"cmd", "cosi", "internal"} {
		err := fs.WalkDir(os.DirFS(docsRoot), dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			for _, v := range variable.FindAllString(docText(t, name), -1) {
				inCode[v] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	page := docText(t, "docs/reference/environment.md")
	inPage := map[string]bool{}
	for _, v := range variable.FindAllString(page, -1) {
		inPage[v] = true
		if !inCode[v] {
			t.Errorf("%s is documented and unknown to the code", v)
		}
	}
	for v := range inCode {
		if !inPage[v] {
			t.Errorf("%s is not in environment.md", v)
		}
	}
	newServeCOSI(newApp(nil, nil, nil, func(string) string { return "" })).Flags().VisitAll(func(f *pflag.Flag) {
		v := variable.FindString(f.Usage)
		if v == "" && f.Name != "name" {
			t.Errorf("serve cosi --%s has no variable", f.Name)
		}
	})
}

// The page of exit codes says what the program does.
func TestDocExitCodes(t *testing.T) {
	page := docText(t, "docs/reference/exit-codes.md")
	for _, e := range exitCodes {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| %d \|(.*?)\| \S+ \| (.*) \|$`, e.status)).FindStringSubmatch(page)
		if row == nil || strings.Trim(row[1], "` |") != string(e.code) || row[2] != e.text {
			t.Errorf("exit-codes.md: no row for %d, %s, %s (have %q)", e.status, e.code, e.text, row)
		}
	}
}

// The page of the API has every route, every field and every event.
func TestDocAPI(t *testing.T) {
	page := docText(t, "docs/reference/api.md")
	routes := map[string]bool{}
	for _, m := range regexp.MustCompile(`HandleFunc\("([A-Z]+ /v1/[^"]*)"`).FindAllStringSubmatch(docText(t, "internal/control/server.go"), -1) {
		routes[m[1]] = true
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /v1/[^`]*)`").FindAllStringSubmatch(page, -1) {
		documented[m[1]] = true
	}
	if len(routes) == 0 || !reflect.DeepEqual(routes, documented) {
		t.Errorf("the API has %v, the page %v", routes, documented)
	}
	for _, v := range []any{control.Status{}, control.ClaimRequest{}, control.ClaimResponse{}, control.RotateRequest{}, control.ReleaseRequest{}, control.LeaseRequest{},
		control.Credentials{}, control.DriverRequest{}, claim.Claim{}, claim.Access{}, claim.Account{}, claim.BucketClass{}, claim.AccessClass{}, claim.Driver{}, claim.Event{}, claim.Error{}} {
		for _, field := range jsonFields(reflect.TypeOf(v)) {
			if !regexp.MustCompile("[`\"\\].]" + field + "[`\"]").MatchString(page) {
				t.Errorf("api.md: field %s of %T is not on the page", field, v)
			}
		}
	}
	events, err := filepath.Glob(filepath.Join(docsRoot, "internal/keeper/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range events {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`k\.(?:event|warning)\("([A-Za-z]+)"`).FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(page, "`"+m[1]+"`") {
				t.Errorf("api.md: event %s is not on the page", m[1])
			}
		}
	}
}

func jsonFields(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			names = append(names, jsonFields(f.Type)...)
		case name != "" && name != "-":
			names = append(names, name)
		}
	}
	return names
}

// The driver's page has the sections that the specification wants, and every
// key that the driver knows.
// Req: COSI-132, COSI-155, COSI-172, COSI-174, COSI-181, COSI-183, COSI-188
func TestDocDriver(t *testing.T) {
	page := docText(t, "docs/reference/objects-driver.md")
	for heading, wants := range map[string][]string{
		"Secrets required":                  {"None.", "COSI-132"},
		"Resource requirements":             {"memory", "CPU", "disk", "file system", "no other path of the host is needed (COSI-155)", "TCP port", "descriptors"},
		"Capabilities and security context": {"None in addition", "COSI-181", "CAP_NET_BIND_SERVICE"},
		"Logging":                           {"Standard error only", "`FAIRLEAD_LOG`", "No log file is written", "COSI-172, COSI-174"},
		"Ephemeral volumes":                 {"No ephemeral volume of CSI is needed", "COSI-183"},
	} {
		_, section, found := strings.Cut(page, "\n## "+heading+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, want := range wants {
			if !found || !strings.Contains(section, want) {
				t.Errorf("objects-driver.md: section %q lacks %q", heading, want)
			}
		}
	}
	keys := regexp.MustCompile(`known\("[a-z_]+", m, (.*)\)`).FindAllStringSubmatch(docText(t, "internal/driver/objects/parameters.go"), -1)
	if len(keys) < 3 {
		t.Errorf("the driver's keys were not found: %v", keys)
	}
	for _, m := range keys {
		for _, key := range strings.Split(m[1], ", ") {
			if !strings.Contains(page, "| `"+strings.Trim(key, `"`)+"` |") {
				t.Errorf("objects-driver.md has no row for %s", key)
			}
		}
	}
}

// What the guide shows of the example driver is in it, and all Go is Go.
func TestDocGo(t *testing.T) {
	example := docText(t, "examples/driver/main.go")
	for name, page := range docPages(t) {
		for _, b := range docBlocks(page) {
			if b.language != "go" {
				continue
			}
			quoted := path.Base(name) == "write-a-driver.md" && !strings.Contains(b.text, "func Test")
			if quoted && !strings.Contains(example, b.text) {
				t.Errorf("%s, block at line %d is not in examples/driver/main.go", name, b.line)
			}
			if _, err := format.Source([]byte(b.text)); err != nil && !quoted {
				t.Errorf("%s, block at line %d: %v", name, b.line, err)
			}
		}
	}
}
