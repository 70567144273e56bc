// Package testenv says what a test does where something that it needs is not
// to be had: on a person's machine it is skipped with the reason, in continuous
// integration (CI=true), where the prerequisites are installed, it fails.
package testenv

import (
	"fmt"
	"os"
	"testing"
)

// Lacks ends the test for the reason given, as fmt.Sprint prints it.
func Lacks(t testing.TB, reason ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("a prerequisite is missing, and CI is true: ", fmt.Sprint(reason...))
	}
	t.Skip(reason...)
}

// Lacksf is Lacks, with a format.
func Lacksf(t testing.TB, format string, args ...any) {
	t.Helper()
	Lacks(t, fmt.Sprintf(format, args...))
}
