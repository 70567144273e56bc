package main

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

const preamble = `# Requirements

Every normative sentence of the specifications that Fairlead implements, and the test that proves it.
Made by ` + "`go tool requirements`" + ` from ` + "`spec/requirements.tsv`, `spec/exempt.tsv`" + ` and the tests; do not edit it.
Names such as ` + "`create/again`" + ` are cases of a conformance suite in ` + "`conform/`" + `, which can be run against any driver; the tests run it against ours.
`

// The order in which things are shown.
var (
	specs  = []string{"COSI-v1alpha1", "COSI-draft", "CSI-v1", "CDI-0.8.0"}
	levels = []string{"MUST", "SHOULD", "MAY", "DEFINES"}
)

// count is one line of the summary.
type count struct {
	Spec, Level          string
	Rows, Proved, Excuse int
}

func (b book) counts() []count {
	byKey := map[[2]string]*count{}
	for _, r := range b.rows {
		key := [2]string{r.Spec, r.Level}
		if byKey[key] == nil {
			byKey[key] = &count{Spec: r.Spec, Level: r.Level}
		}
		byKey[key].Rows++
		switch {
		case len(b.proofs[r.ID]) > 0:
			byKey[key].Proved++
		case b.exempt[r.ID] != "":
			byKey[key].Excuse++
		}
	}
	var all []count
	for _, c := range byKey {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b count) int {
		return cmp.Or(
			cmp.Compare(slices.Index(specs, a.Spec), slices.Index(specs, b.Spec)),
			cmp.Compare(slices.Index(levels, a.Level), slices.Index(levels, b.Level)))
	})
	return all
}

// parseCounts reads the summary of a page back.
func parseCounts(page string) []count {
	var all []count
	for lines := bufio.NewScanner(strings.NewReader(page)); lines.Scan(); {
		var c count
		var open int
		line := strings.ReplaceAll(lines.Text(), "|", " ")
		n, _ := fmt.Sscan(line, &c.Spec, &c.Level, &c.Rows, &c.Proved, &c.Excuse, &open)
		if n == 6 && slices.Contains(levels, c.Level) {
			all = append(all, c)
		}
	}
	return all
}

// page is the whole page.
func (b book) page() string {
	var w strings.Builder
	w.WriteString(preamble)
	w.WriteString("\n| specification | level | rows | proved by a test | excused with a reason | neither |\n|---|---|--:|--:|--:|--:|\n")
	for _, c := range b.counts() {
		fmt.Fprintf(&w, "| %s | %s | %d | %d | %d | %d |\n", c.Spec, c.Level, c.Rows, c.Proved, c.Excuse, c.Rows-c.Proved-c.Excuse)
	}
	for _, spec := range specs {
		b.section(&w, spec)
	}
	return w.String()
}

// section shows one specification: row by row where any row is due, else only
// the rows that some test proves, and the number of those left out.
func (b book) section(w *strings.Builder, spec string) {
	rows := slices.DeleteFunc(slices.Clone(b.rows), func(r row) bool { return r.Spec != spec })
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n## %s\n\n", spec)
	if !slices.ContainsFunc(rows, row.due) {
		all := len(rows)
		rows = slices.DeleteFunc(rows, func(r row) bool { return len(b.proofs[r.ID]) == 0 && b.exempt[r.ID] == "" })
		fmt.Fprintf(w, "Not implemented whole yet: %d of its %d rows are not shown, since no test claims them.\n", all-len(rows), all)
		if len(rows) == 0 {
			return
		}
		w.WriteString("\n")
	}
	w.WriteString("| id | level | actor | requirement | proved by |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", r.ID, r.Level, strings.ToLower(r.Actor), escape(shorten(r.Text)), b.proved(r))
	}
}

// proved is the last cell of a row: links to its tests, or why there is none.
func (b book) proved(r row) string {
	if reason := b.exempt[r.ID]; reason != "" && len(b.proofs[r.ID]) == 0 {
		return "*" + escape(reason) + "*"
	}
	byFile := map[string][]string{}
	for _, p := range b.proofs[r.ID] {
		if p.Name == path.Base(p.File) {
			byFile[p.File] = nil // a script is its file
			continue
		}
		byFile[p.File] = append(byFile[p.File], p.Name)
	}
	var cells []string
	for _, file := range sortedKeys(byFile) {
		// No line numbers: an edit elsewhere in a file must not age this page.
		cell := fmt.Sprintf("[%s](../../%s)", strings.TrimSuffix(file, "_test.go"), file)
		if names := slices.Sorted(slices.Values(byFile[file])); len(names) > 0 {
			cell += " `" + strings.Join(names, "`, `") + "`"
		}
		cells = append(cells, cell)
	}
	return strings.Join(cells, "<br>")
}

// shorten drops a row's remarks on inconsistencies of the text; the sentences
// themselves are short enough for a table.
func shorten(text string) string {
	for {
		start := strings.Index(text, " (text is inconsistent")
		if start < 0 {
			return text
		}
		text = text[:start] + text[closing(text, start+1):]
	}
}

// closing is the index after the parenthesis that closes the one at open.
func closing(text string, open int) int {
	depth := 0
	for i := open; i < len(text); i++ {
		switch text[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// escape keeps a text from being read as markup of a table.
func escape(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "*", `\*`, "_", `\_`).Replace(text)
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
