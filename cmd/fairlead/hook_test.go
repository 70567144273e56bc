package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFindHook: the first directory that has a program of that name; a directory
// or a file that cannot be run is none.
func TestFindHook(t *testing.T) {
	t.Parallel()
	absent, directory, text, program, other := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(directory, hookName), 0o755); err != nil {
		t.Fatal(err)
	}
	for dir, mode := range map[string]os.FileMode{text: 0o644, program: 0o755, other: 0o755} {
		if err := os.WriteFile(filepath.Join(dir, hookName), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := findHook([]string{absent, directory, text, program, other}), filepath.Join(program, hookName); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := findHook([]string{absent, directory, text}); got != "" {
		t.Errorf("got %q where there is none", got)
	}
}
