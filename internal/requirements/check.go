package main

import (
	"fmt"
	"slices"
)

// problems is all that is wrong, given the page as it stands.
func (b book) problems(page string) []error {
	found := b.unknownIDs()
	found = append(found, b.unproven()...)
	found = append(found, b.fewerThan(page)...)
	if len(found) == 0 && page != b.page() {
		found = append(found, fmt.Errorf("%s is out of date: run `go tool requirements`", pageFile))
	}
	return found
}

// unknownIDs finds claims and excuses of rows that do not exist.
func (b book) unknownIDs() []error {
	known := map[string]bool{}
	for _, r := range b.rows {
		known[r.ID] = true
	}
	var found []error
	for _, id := range sortedKeys(b.proofs) {
		for _, p := range b.proofs[id] {
			if !known[id] {
				found = append(found, fmt.Errorf("%s: %s claims %s, which is no row of %s", p.File, p.Name, id, rowsFile))
			}
		}
	}
	for _, id := range sortedKeys(b.exempt) {
		if !known[id] {
			found = append(found, fmt.Errorf("%s: %s is no row of %s", exemptFile, id, rowsFile))
		}
	}
	return found
}

// unproven finds the rows that need a test or an excuse and have neither, and
// those that have both.
func (b book) unproven() []error {
	var found []error
	for _, r := range b.rows {
		proved, excused := len(b.proofs[r.ID]) > 0, b.exempt[r.ID] != ""
		switch {
		case proved && excused:
			found = append(found, fmt.Errorf("%s is excused in %s and proved by %s", r.ID, exemptFile, b.proofs[r.ID][0].Name))
		case !proved && !excused && r.due():
			found = append(found, fmt.Errorf("%s (%s, %s) has neither a test nor an excuse: %s", r.ID, r.Level, r.Actor, shorten(r.Text)))
		}
	}
	return found
}

// fewerThan compares the counts with those of a page: they never go down.
func (b book) fewerThan(page string) []error {
	now := b.counts()
	var found []error
	for _, old := range parseCounts(page) {
		i := slices.IndexFunc(now, func(c count) bool { return c.Spec == old.Spec && c.Level == old.Level })
		proved := 0
		if i >= 0 {
			proved = now[i].Proved
		}
		if proved < old.Proved {
			found = append(found, fmt.Errorf("%s %s: %d rows are proved, %d were", old.Spec, old.Level, proved, old.Proved))
		}
	}
	return found
}
