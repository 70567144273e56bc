package main

import (
	"strings"

	"github.com/fairlead/fairlead/internal/claim"
)

// ref names an access as NAME.ACCESS, or the first one as NAME. The forms that
// -o name prints, bucket/NAME and device/NAME, are understood too.
type ref struct{ claim, access string }

// String is the name of the CDI device and of what a person types.
func (r ref) String() string { return claim.DeviceName(r.claim, r.access) }

// parseRef reads NAME or NAME.ACCESS. It refuses what can be no name before
// anything becomes a path or a URL of it.
func parseRef(text string) (ref, error) {
	name, access := claim.SplitDeviceName(withoutKind(text))
	if err := claim.CheckName("a claim", name); err != nil {
		return ref{}, err
	}
	return ref{name, access}, claim.CheckName("an access", access)
}

// parseName reads NAME, the name of a claim.
func parseName(text string) (string, error) {
	name := withoutKind(text)
	return name, claim.CheckName("a claim", name)
}

func withoutKind(text string) string {
	for _, kind := range []claim.Kind{claim.KindBucket, claim.KindDevice} {
		if name, ok := strings.CutPrefix(text, string(kind)+"/"); ok {
			return name
		}
	}
	return text
}
