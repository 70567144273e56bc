package cdi

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// caseFile is one file of an archive of cases: a comment, then each file below a
// line "-- NAME --".
type caseFile struct {
	name string
	data []byte
}

func readCases(t testing.TB, path string) (comment string, files []caseFile) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- ")
		if name, end := strings.CutSuffix(name, " --"); ok && end {
			files = append(files, caseFile{name: name})
			continue
		}
		if len(files) == 0 {
			comment += line
			continue
		}
		last := &files[len(files)-1]
		last.data = append(last.data, line...)
	}
	return comment, files
}

func writeCases(t testing.TB, path, comment string, files []caseFile) {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(comment)
	for _, f := range files {
		b.WriteString("-- " + f.name + " --\n")
		b.Write(f.data)
	}
	must(t, os.WriteFile(path, b.Bytes(), 0o644))
}

func caseArchives(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	return files
}
