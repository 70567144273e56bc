package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The pages in docs/man are those of this program.
func TestManPagesAreCurrent(t *testing.T) {
	const kept = "../../docs/man"
	dir := t.TempDir()
	root := newRoot(newApp(nil, io.Discard, io.Discard, func(string) string { return "" }))
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	want, have := pageNames(t, dir), pageNames(t, kept)
	if !slices.Equal(want, have) {
		t.Fatalf("docs/man holds %v\nwant %v\nmake them with: go generate ./cmd/fairlead", have, want)
	}
	for _, name := range want {
		a, errA := os.ReadFile(filepath.Join(dir, name))
		b, errB := os.ReadFile(filepath.Join(kept, name))
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("docs/man/%s is old (%v, %v); make it with: go generate ./cmd/fairlead", name, errA, errB)
		}
	}
}

func pageNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
