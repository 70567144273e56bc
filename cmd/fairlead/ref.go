package main

import (
	"strings"

	"github.com/fairlead/fairlead/internal/claim"
)

// ref names an access as NAME.ACCESS, or the first one as NAME. The form that
// -o name prints, bucket/NAME, is understood too.
type ref struct{ claim, access string }

// String is the name of the CDI device and of what a person types.
func (r ref) String() string { return claim.DeviceName(r.claim, r.access) }

// parseRef reads NAME or NAME.ACCESS. It refuses what can be no name before
// anything becomes a path or a URL of it.
func parseRef(text string) (ref, error) {
	name, access := claim.SplitDeviceName(strings.TrimPrefix(text, "bucket/"))
	if err := claim.CheckName("a bucket", name); err != nil {
		return ref{}, err
	}
	return ref{name, access}, claim.CheckName("an access", access)
}

// parseName reads NAME, the name of a claim.
func parseName(text string) (string, error) {
	name := strings.TrimPrefix(text, "bucket/")
	return name, claim.CheckName("a bucket", name)
}
