package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/cdi"
	upstream "tags.cncf.io/container-device-interface/pkg/cdi"
)

const page = "../../../docs/reference/cdi-differences.md"

// rows are those of the tables of the page: the words in code in the first
// column, with the rest of the row.
func rows(t *testing.T, heading string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", page, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	found := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|(.*)\\|$").FindAllStringSubmatch(section, -1) {
		found[m[1]] = m[2]
	}
	return found
}

// differences are those that were found, by id, with a few examples.
type differences map[string][]string

func (d differences) found(id, example string) {
	if len(d[id]) < 3 {
		d[id] = append(d[id], example)
	} else {
		d[id][2] = "and more"
	}
}

// check compares with what is listed: nothing may be missing there, and nothing
// may be there that is no difference any more.
func (d differences) check(t *testing.T, listed map[string]string) {
	t.Helper()
	for _, id := range slices.Sorted(maps.Keys(d)) {
		if _, ok := listed[id]; !ok {
			t.Errorf("the difference %q is not in %s:\n  %s", id, page, strings.Join(d[id], "\n  "))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(listed)) {
		if _, ok := d[id]; !ok {
			t.Errorf("%s lists %q, which is no difference", page, id)
		}
	}
}

// TestListed: each difference is decided by a clause that exists, or left open.
func TestListed(t *testing.T) {
	clauses, err := os.ReadFile("../../../spec/requirements.tsv")
	if err != nil {
		t.Fatal(err)
	}
	clause := regexp.MustCompile(`CDI-[0-9]{3}`)
	for _, heading := range []string{"Reading specs", "Injecting"} {
		for id, row := range rows(t, heading) {
			cells := strings.Split(row, "|")
			decides := cells[len(cells)-1]
			ids := clause.FindAllString(decides, -1)
			if ids == nil && !strings.Contains(decides, "left open") && !strings.Contains(decides, "1.1.0") {
				t.Errorf("%s: what decides? %q", id, decides)
			}
			for _, c := range ids {
				if !bytes.Contains(clauses, []byte("\n"+c+"\t")) {
					t.Errorf("%s: there is no %s", id, c)
				}
			}
		}
	}
}

// TestReading reads every file of the corpus with both libraries.
func TestReading(t *testing.T) {
	d, dir, n := differences{}, t.TempDir(), 0
	for name, text := range specCorpus(t) {
		n++
		for _, id := range readingDifferences(t, dir, name, text) {
			d.found(id, fmt.Sprintf("%s: %.300s", name, text))
		}
	}
	t.Logf("%d files, %d kinds of difference", n, len(d))
	d.check(t, rows(t, "Reading specs"))
}

// readingDifferences compares how one file is read.
func readingDifferences(t *testing.T, dir, name string, text []byte) []string {
	t.Helper()
	ours, our := cdi.Parse(name, text)
	theirs, their := readUpstream(t, filepath.Join(dir, "spec"+filepath.Ext(name)), text)
	switch {
	case our == nil && their != nil:
		return []string{"read-" + reason(their)}
	case our != nil && their == nil:
		return refusals(our)
	case our != nil:
		if errors.Is(their, errPanic) {
			return []string{"panic"}
		}
		return nil
	}
	want, err := json.Marshal(theirs.Spec)
	if err != nil {
		t.Fatal(err)
	}
	got, err := cdi.Marshal(ours)
	if err != nil {
		t.Fatalf("%s: what was read cannot be written: %v", name, err)
	}
	if canonical(t, got) != canonical(t, want) {
		return []string{"content"}
	}
	return nil
}

var errPanic = errors.New("panic")

func readUpstream(t *testing.T, path string, text []byte) (s *upstream.Spec, err error) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPanic, r)
		}
	}()
	return upstream.ReadSpec(path, 0)
}

// refusals are the rules for which we refuse a file.
func refusals(err error) (ids []string) {
	if problems, ok := errors.AsType[cdi.Problems](err); ok {
		for _, p := range problems {
			ids = append(ids, "refuse-"+string(p.Rule))
		}
		return slices.Compact(slices.Sorted(slices.Values(ids)))
	}
	return []string{"refuse"}
}

// reasons are what upstream's messages say.
var reasons = []struct {
	id      string
	message *regexp.Regexp
}{
	{"panic", regexp.MustCompile(`^panic`)},
	{"device-without-edits", regexp.MustCompile(`empty device edits`)},
	{"digit-first", regexp.MustCompile(`should start with letter`)},
	{"additional-gids", regexp.MustCompile(`field additionalGIDs not found`)},
	{"monitoring", regexp.MustCompile(`field enable(CMT|MBM) not found|cannot unmarshal .* into .*enable`)},
	{"annotations", regexp.MustCompile(`invalid annotation|annotations:`)},
	{"net-device-twice", regexp.MustCompile(`duplicate (HostInterfaceName|Name)`)},
	{"version-patch", regexp.MustCompile(`invalid version`)},
	{"minimum-version", regexp.MustCompile(`spec version must be at least`)},
	{"escape", regexp.MustCompile(`unknown escape character|invalid Unicode|control characters|found unknown escape|did not find expected`)},
	{"clos-id", regexp.MustCompile(`invalid ClosID`)},
	{"number", regexp.MustCompile("cannot unmarshal !!(int|float|str) `[-+0-9.eE]+`")},
	{"null", regexp.MustCompile(`cannot unmarshal !!null`)},
}

func reason(err error) string {
	for _, r := range reasons {
		if r.message.MatchString(err.Error()) {
			return r.id
		}
	}
	return err.Error()
}

// canonical is JSON without what means nothing: null, and empty values.
func canonical(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(pruned(v))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func pruned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if v[key] = pruned(value); v[key] == nil {
				delete(v, key)
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = pruned(v[i])
		}
		if len(v) == 0 {
			return nil
		}
	case string:
		return emptyIsNil(v)
	case bool:
		if !v {
			return nil
		}
	}
	return v
}

func emptyIsNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}
