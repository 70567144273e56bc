package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// row is one normative sentence of a specification.
type row struct {
	ID, Spec, Section, Level, Actor, Text string
}

// due says whether the row needs a test or an excuse. The project plays every
// role of COSI and of CDI, so the actor does not matter; CSI is not built yet.
func (r row) due() bool {
	family, _, _ := strings.Cut(r.ID, "-")
	ours := family == "COSI" || family == "DRAFT" || family == "CDI"
	return ours && (r.Level == "MUST" || r.Level == "SHOULD")
}

// proof is one claim, by the test called Name in File, to prove row ID.
type proof struct {
	ID, Name, File string
}

// book is all that is known of the rows.
type book struct {
	rows   []row
	proofs map[string][]proof // by row id
	exempt map[string]string  // reason by row id
}

// load reads the rows and the excuses, and looks for proofs in the whole tree.
func load(tree fs.FS) (book, error) {
	rows, err := readRows(tree)
	if err != nil {
		return book{}, err
	}
	exempt, err := readExempt(tree)
	if err != nil {
		return book{}, err
	}
	proofs, err := scan(tree)
	if err != nil {
		return book{}, err
	}
	b := book{rows: rows, exempt: exempt, proofs: map[string][]proof{}}
	for _, p := range proofs {
		if !slices.Contains(b.proofs[p.ID], p) {
			b.proofs[p.ID] = append(b.proofs[p.ID], p)
		}
	}
	return b, nil
}

func readRows(tree fs.FS) ([]row, error) {
	records, err := readTSV(tree, rowsFile, 6)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, f := range records {
		if f[0] == "id" {
			continue // the heading
		}
		rows = append(rows, row{f[0], f[1], f[2], f[3], f[4], f[5]})
	}
	return rows, nil
}

func readExempt(tree fs.FS) (map[string]string, error) {
	records, err := readTSV(tree, exemptFile, 2)
	if err != nil {
		return nil, err
	}
	exempt := map[string]string{}
	for _, f := range records {
		if f[0] == "id" {
			continue // the heading
		}
		if exempt[f[0]] != "" {
			return nil, fmt.Errorf("%s: %s is excused twice", exemptFile, f[0])
		}
		if f[1] == "" {
			return nil, fmt.Errorf("%s: %s is excused without a reason", exemptFile, f[0])
		}
		exempt[f[0]] = f[1]
	}
	return exempt, nil
}

// readTSV splits a file into lines and tabs; the texts hold neither, so there
// is no quoting.
func readTSV(tree fs.FS, name string, columns int) ([][]string, error) {
	text, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	var records [][]string
	for i, line := range bytes.Split(text, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		fields := strings.Split(string(line), "\t")
		if len(fields) != columns {
			return nil, fmt.Errorf("%s:%d: %d columns, want %d", name, i+1, len(fields), columns)
		}
		records = append(records, fields)
	}
	return records, nil
}
