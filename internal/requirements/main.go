// Command requirements shows which test proves which normative sentence of
// the specifications, and fails when one is left unproven.
//
//	go tool requirements           # write docs/reference/requirements.md
//	go tool requirements -check    # fail unless that page is true and complete
//
// The sentences are the rows of spec/requirements.tsv. A test claims a row by
// a comment line in or right above it, and a script by the same line:
//
//	// Req: COSI-078, DRAFT-029
//	func TestServe…
//
// A case of a conformance suite claims it by a field: Req: "COSI-078 DRAFT-029".
// A row that no test can prove is excused, with the reason, in spec/exempt.tsv.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
)

// Where things are, below the root of the repository.
const (
	rowsFile   = "spec/requirements.tsv"
	exemptFile = "spec/exempt.tsv"
	pageFile   = "docs/reference/requirements.md"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("requirements: ")
	root := flag.String("root", ".", "root of the repository")
	check := flag.Bool("check", false, "write nothing; fail unless the page is true and complete")
	lower := flag.Bool("lower", false, "write the page even if it proves fewer rows than before")
	flag.Parse()

	do := func() error { return generate(*root, *lower) }
	if *check {
		do = func() error { return verify(*root) }
	}
	if err := do(); err != nil {
		log.Fatal(err)
	}
}

// generate writes the page. It refuses to lower a count of proven rows unless
// told to, because nobody rereads a page of seven hundred rows.
func generate(root string, lower bool) error {
	b, err := load(os.DirFS(root))
	if err != nil {
		return err
	}
	if err := errors.Join(b.unknownIDs()...); err != nil {
		return err
	}
	old, err := readPage(root)
	if err != nil {
		return err
	}
	if err := errors.Join(b.fewerThan(old)...); err != nil && !lower {
		return fmt.Errorf("%w\n(give -lower if that is meant)", err)
	}
	path := filepath.Join(root, pageFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make directory of page: %w", err)
	}
	if err := os.WriteFile(path, []byte(b.page()), 0o644); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// verify is everything that must hold of the repository below root; its error
// names each thing that does not.
func verify(root string) error {
	b, err := load(os.DirFS(root))
	if err != nil {
		return err
	}
	old, err := readPage(root)
	if err != nil {
		return err
	}
	return errors.Join(b.problems(old)...)
}

// readPage is the page as it stands; "" where there is none yet.
func readPage(root string) (string, error) {
	page, err := os.ReadFile(filepath.Join(root, pageFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read page: %w", err)
	}
	return string(page), nil
}
