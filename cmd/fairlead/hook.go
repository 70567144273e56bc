package main

import (
	"os"
	"path/filepath"
)

// hookName is the program that CDI specs name in their hooks.
const hookName = "fairlead-hook"

// hookDirs are where it may be: beside this program, as "make build" and "make
// install" leave it, or where distributions put what no person calls.
func hookDirs() []string {
	dirs := []string{"/usr/local/libexec/fairlead", "/usr/libexec/fairlead", "/usr/local/bin", "/usr/bin"}
	if self, err := os.Executable(); err == nil {
		dirs = append([]string{filepath.Dir(self)}, dirs...)
	}
	return dirs
}

// findHook is the absolute path of the hook (CDI-105, CDI-117) in the first of
// these directories that has it; "" if none has.
func findHook(dirs []string) string {
	for _, dir := range dirs {
		path := filepath.Join(dir, hookName)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}
