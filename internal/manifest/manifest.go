// Package manifest reads what "fairlead apply" is given: YAML or JSON documents
// of upstream's BucketClass, BucketClaim, BucketAccessClass and BucketAccess,
// apiVersion objectstorage.k8s.io/v1alpha1. It is strict, since a misspelt
// field that is passed over in silence is a bucket without its quota: an
// unknown field, a wrong kind, a wrong type and a name given twice are errors
// with file, line and column.
package manifest

import (
	"fmt"
	"strings"

	"github.com/fairlead/fairlead/internal/claim"
)

// APIVersion is the one that is understood.
const APIVersion = "objectstorage.k8s.io/v1alpha1"

// Source is one file. Name is used in errors only.
type Source struct {
	Name string
	Text []byte
}

// Set is what the sources state, each kind in the order of its documents. The
// order among kinds has no meaning: classes come before claims, and claims
// before accesses, however they were written.
type Set struct {
	BucketClasses []claim.BucketClass
	AccessClasses []claim.AccessClass
	// Claims have no access of their own; a BucketAccess makes one.
	Claims   []claim.Request
	Accesses []Access
}

// Access is a BucketAccess: the claim it belongs to, and what it asks for.
type Access struct {
	Claim string
	Spec  claim.AccessSpec
}

// Error is one mistake. Line and Column count from 1; the column counts
// characters.
type Error struct {
	File         string
	Line, Column int
	Message      string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// Errors are all the mistakes, in the order of the sources; never empty.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Parse reads the sources together: a name may be used once per kind in all of
// them. The error is of type Errors, and the set is then empty.
func Parse(sources ...Source) (Set, error) {
	r := &reader{seen: map[string]string{}}
	for _, s := range sources {
		r.file = s.Name
		r.source(s.Text)
	}
	if len(r.errs) > 0 {
		return Set{}, r.errs
	}
	return r.set, nil
}
