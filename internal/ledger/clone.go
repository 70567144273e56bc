package ledger

import (
	"maps"
	"slices"
)

// Clone returns a copy that can be changed without the original noticing. Maps
// of a request (parameters, templates) are shared: they are never changed.
func (r *Record) Clone() *Record {
	c := *r
	c.Sealed, c.Published = maps.Clone(r.Sealed), maps.Clone(r.Published)
	if r.Claim.Device != nil {
		device := *r.Claim.Device // its lists are replaced, never changed
		c.Claim.Device = &device
	}
	c.Claim.Leases = slices.Clone(r.Claim.Leases)
	c.Claim.Accesses = slices.Clone(r.Claim.Accesses)
	for i := range c.Claim.Accesses {
		a := &c.Claim.Accesses[i]
		a.Retiring = slices.Clone(a.Retiring)
		if a.Next != nil {
			next := *a.Next
			a.Next = &next
		}
	}
	return &c
}
