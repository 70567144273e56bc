package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// tree is a small repository: its files, with the rows and no excuse unless
// files says otherwise.
func tree(files map[string]string) fstest.MapFS {
	all := map[string]string{
		rowsFile: "id\tspec\tsection\tlevel\tactor\trequirement\n" +
			"COSI-001\tCOSI-v1alpha1\tA\tMUST\tPLUGIN\tOne must (text is inconsistent: it (oddly) does not) hold.\n" +
			"COSI-002\tCOSI-v1alpha1\tA\tSHOULD\tCO\tTwo <should> hold | stand.\n" +
			"COSI-003\tCOSI-v1alpha1\tA\tMAY\tBOTH\tThree may.\n" +
			"DRAFT-001\tCOSI-draft\tA\tMUST\tPLUGIN\tFour must.\n" +
			"CDI-001\tCDI-0.8.0\tA\tSHOULD\tHOOK\tSeven should.\n" +
			"CSI-001\tCSI-v1\tA\tMUST\tPLUGIN\tFive must.\n" +
			"CSI-002\tCSI-v1\tA\tMUST\tPLUGIN\tSix must.\n",
		exemptFile: "id\treason\n",
	}
	maps.Copy(all, files)
	m := fstest.MapFS{}
	for name, text := range all {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

// complete is a repository in which nothing is missing but the page.
func complete() map[string]string {
	return map[string]string{
		"a/a_test.go": "package a\n\n// TestA holds.\n// Req: COSI-001, DRAFT-001, CDI-001\nfunc TestA(t *testing.T) {}\n",
		exemptFile:    "id\treason\nCOSI-002\tIt cannot be seen.\n",
	}
}

func mustLoad(t *testing.T, tree fs.FS) book {
	t.Helper()
	b, err := load(tree)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestScan(t *testing.T) {
	const goTest = `package a

// TestDoc holds.
// Req: COSI-001, COSI-002,
// COSI-003
func TestDoc(t *testing.T) {
	t.Run("a case", func(t *testing.T) {
		// Req: COSI-004
	})
	// Req: COSI-005
	t.Run("next", func(t *testing.T) {})

	// Req: COSI-006

	t.Run("far", func(t *testing.T) {
		t.Run("in", func(t *testing.T) { /* Req: COSI-007 */ })
	})
}

var cases = []thing{
	{}, // Req: COSI-008
}
`
	const goCase = `package a

// Req: COSI-999 is prose in a file that is no test.
var all = []Case{
	{Name: "create/twice", Req: "COSI-030 COSI-117", Level: Must},
	{Name: "none"},
	{Name: computed(), Req: "COSI-998"},
}
`
	found, err := scan(fstest.MapFS{
		"a/a_test.go":                  {Data: []byte(goTest)},
		"conform/a.go":                 {Data: []byte(goCase)},
		"cmd/testdata/claim.txtar":     {Data: []byte("# Req: DRAFT-001 DRAFT-002 (both)\nexec true\n")},
		"x/cases.json":                 {Data: []byte(`[{"Req": "CDI-001"}]`)},
		"x/c.yaml":                     {Data: []byte("Req: CDI-002\n")},
		"x/readme.md":                  {Data: []byte("Req: CDI-003\n")},
		".git/b_test.go":               {Data: []byte(goTest)},
		"internal/requirements/b.yaml": {Data: []byte("Req: CDI-004\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range found {
		got[p.ID] = p.File + " " + p.Name
	}
	want := map[string]string{
		"COSI-001":  "a/a_test.go TestDoc",
		"COSI-002":  "a/a_test.go TestDoc",
		"COSI-003":  "a/a_test.go TestDoc",
		"COSI-004":  "a/a_test.go TestDoc/a_case",
		"COSI-005":  "a/a_test.go TestDoc/next",
		"COSI-006":  "a/a_test.go TestDoc",
		"COSI-007":  "a/a_test.go TestDoc/far/in",
		"COSI-008":  "a/a_test.go cases",
		"COSI-030":  "conform/a.go create/twice",
		"COSI-117":  "conform/a.go create/twice",
		"DRAFT-001": "cmd/testdata/claim.txtar claim.txtar",
		"DRAFT-002": "cmd/testdata/claim.txtar claim.txtar",
		"CDI-001":   "x/cases.json cases.json",
		"CDI-002":   "x/c.yaml c.yaml",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestScanRefusesAClaimOfNoTest(t *testing.T) {
	_, err := scan(fstest.MapFS{"a/a_test.go": {Data: []byte("package a\n\n// Req: COSI-001\n\nfunc TestA(t *testing.T) {}\n")}})
	if err == nil || !strings.Contains(err.Error(), "a/a_test.go:3") {
		t.Errorf("got %v, want the file and line", err)
	}
}

func TestCompleteRepositoryPasses(t *testing.T) {
	b := mustLoad(t, tree(complete()))
	if found := b.problems(b.page()); len(found) > 0 {
		t.Error(found)
	}
}

func TestProblems(t *testing.T) {
	good := mustLoad(t, tree(complete())).page()
	noCDI := strings.Replace(good, "| CDI-0.8.0 | SHOULD | 1 | 1 |", "| CDI-0.8.0 | SHOULD | 1 | 0 |", 1)
	more := strings.Replace(good, "| COSI-v1alpha1 | MUST | 1 | 1 |", "| COSI-v1alpha1 | MUST | 2 | 2 |", 1)
	tests := []struct {
		name, file, text, page, want string
	}{
		{"unknown id", "b/b_test.go", "package b\n\n// Req: COSI-9\nfunc TestB() {}\n", good, "TestB claims COSI-9, which is no row"},
		{"unknown excuse", exemptFile, "COSI-002\tBecause.\nCOSI-99\tBecause.\n", good, "COSI-99 is no row"},
		{"neither", exemptFile, "", good, "COSI-002 (SHOULD, CO) has neither a test nor an excuse: Two"},
		{"neither, of CDI", "a/a_test.go", "package a\n\n// Req: COSI-001, DRAFT-001\nfunc TestA() {}\n", noCDI, "CDI-001 (SHOULD, HOOK) has neither a test nor an excuse: Seven"},
		{"both", exemptFile, "COSI-001\tBecause.\nCOSI-002\tBecause.\n", good, "COSI-001 is excused in spec/exempt.tsv and proved by TestA"},
		{"out of date", "b/b_test.go", "package b\n\n// Req: COSI-001\nfunc TestB() {}\n", good, "is out of date"},
		{"no page", "b/b_test.go", "package b\n", "", "is out of date"},
		{"fewer", "b/b_test.go", "package b\n", more, "COSI-v1alpha1 MUST: 1 rows are proved, 2 were"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := complete()
			files[test.file] = test.text
			found := mustLoad(t, tree(files)).problems(test.page)
			if got := fmt.Sprint(found); len(found) != 1 || !strings.Contains(got, test.want) {
				t.Errorf("got %s, want one problem that says %q", got, test.want)
			}
		})
	}
}

func TestLoadRefusesBadTables(t *testing.T) {
	for name, text := range map[string]string{
		"columns":   "COSI-001\n",
		"twice":     "COSI-001\tA.\nCOSI-001\tB.\n",
		"no reason": "COSI-001\t\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := load(tree(map[string]string{exemptFile: text})); err == nil {
				t.Error("loaded")
			}
		})
	}
}

func TestPage(t *testing.T) {
	page := mustLoad(t, tree(complete())).page()
	for _, want := range []string{
		"| COSI-v1alpha1 | MUST | 1 | 1 | 0 | 0 |\n",
		"| COSI-v1alpha1 | SHOULD | 1 | 0 | 1 | 0 |\n",
		"| CSI-v1 | MUST | 2 | 0 | 0 | 2 |\n",
		"| CDI-0.8.0 | SHOULD | 1 | 1 | 0 | 0 |\n",
		"| COSI-001 | MUST | plugin | One must hold. | [a/a](../../a/a_test.go) `TestA` |\n",
		`| COSI-002 | SHOULD | co | Two &lt;should&gt; hold \| stand. | *It cannot be seen.* |` + "\n",
		"| COSI-003 | MAY | both | Three may. |  |\n",
		"2 of its 2 rows are not shown",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "CSI-002") {
		t.Error("page shows a row of CSI that nothing proves")
	}
}

// write makes the tree real, because generate writes.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, tree(files)); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestGenerate(t *testing.T) {
	root := write(t, complete())
	if err := generate(root, false); err != nil {
		t.Fatal(err)
	}
	if err := verify(root); err != nil {
		t.Errorf("a page just made does not hold: %v", err)
	}
	if err := os.Remove(filepath.Join(root, "a/a_test.go")); err != nil {
		t.Fatal(err)
	}
	if err := generate(root, false); err == nil || !strings.Contains(err.Error(), "-lower") {
		t.Errorf("a test was lost: got %v, want a refusal that names -lower", err)
	}
	if err := generate(root, true); err != nil {
		t.Error(err)
	}
	page, err := readPage(root)
	if err != nil || !strings.Contains(page, "| COSI-v1alpha1 | MUST | 1 | 0 | 0 | 1 |") {
		t.Errorf("page was not lowered: %v\n%s", err, page)
	}
}
