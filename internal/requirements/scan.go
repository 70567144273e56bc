package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// claimed finds the ids that a line claims: "Req: COSI-078, DRAFT-029", in
// whatever comment syntax, or as a field or key. Ids are matched loosely, so
// that a mistyped one is reported and not overlooked.
var claimed = regexp.MustCompile(`\bReq"?:\s*"?([A-Z]{2,}-[0-9]+(?:[,\s]+[A-Z]{2,}-[0-9]+)*)`)

var id = regexp.MustCompile(`[A-Z]{2,}-[0-9]+`)

// idsIn lists the ids that text claims.
func idsIn(text string) []string {
	var ids []string
	for _, m := range claimed.FindAllStringSubmatch(text, -1) {
		ids = append(ids, id.FindAllString(m[1], -1)...)
	}
	return ids
}

// scan collects the proofs of the tree: of Go tests, of the cases of the
// conformance suites and of scripts and data files. It leaves out hidden
// directories, what is built, and this tool, whose texts are about claims.
func scan(tree fs.FS) ([]proof, error) {
	var proofs []proof
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == "bin" || name == "dist" || name == "internal/requirements" || strings.HasPrefix(d.Name(), ".") && name != "." {
				return fs.SkipDir
			}
			return nil
		}
		found, err := scanFile(tree, name)
		proofs = append(proofs, found...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for tests: %w", err)
	}
	return proofs, nil
}

func scanFile(tree fs.FS, name string) ([]proof, error) {
	ext := path.Ext(name)
	switch ext {
	case ".go", ".txtar", ".json", ".yaml":
	default:
		return nil, nil
	}
	text, err := fs.ReadFile(tree, name)
	if err != nil || !bytes.Contains(text, []byte("Req")) {
		return nil, err
	}
	if ext == ".go" {
		return scanGo(name, text)
	}
	return proofsOf(idsIn(string(text)), path.Base(name), name), nil
}

func proofsOf(ids []string, name, file string) []proof {
	var proofs []proof
	for _, id := range ids {
		proofs = append(proofs, proof{ID: id, Name: name, File: file})
	}
	return proofs
}

// scanGo finds the comments of a test file and, in any file, the composite
// literals that have both a Name and a Req.
func scanGo(name string, text []byte) ([]proof, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	proofs := caseProofs(name, file)
	if !strings.HasSuffix(name, "_test.go") {
		return proofs, nil
	}
	for _, group := range file.Comments {
		ids := idsIn(group.Text())
		if len(ids) == 0 {
			continue
		}
		test := testOf(fset, file, group)
		if test == "" {
			return nil, fmt.Errorf("%s: Req %s stands in or right above no test", fset.Position(group.Pos()), strings.Join(ids, ", "))
		}
		proofs = append(proofs, proofsOf(ids, test, name)...)
	}
	return proofs, nil
}

// caseProofs reads literals such as {Name: "create/twice", Req: "COSI-030"}.
func caseProofs(name string, file *ast.File) []proof {
	var proofs []proof
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		fields := map[string]string{}
		for _, e := range lit.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				if key, ok := kv.Key.(*ast.Ident); ok {
					fields[key.Name] = stringOf(kv.Value)
				}
			}
		}
		if fields["Name"] != "" && fields["Req"] != "" {
			proofs = append(proofs, proofsOf(id.FindAllString(fields["Req"], -1), fields["Name"], name)...)
		}
		return true
	})
	return proofs
}

// stringOf is the value of a string literal, "" for any other expression.
func stringOf(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return s
}

// testOf names the test that a comment belongs to, with the innermost subtest
// that it stands in or right above, as `go test -run` wants it.
func testOf(fset *token.FileSet, file *ast.File, comment *ast.CommentGroup) string {
	for _, decl := range file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok {
			if fn.Doc == comment || within(comment, fn) {
				return fn.Name.Name + subtest(fset, fn, comment)
			}
		}
		if gen, ok := decl.(*ast.GenDecl); ok && (gen.Doc == comment || within(comment, gen)) {
			return nameOf(gen)
		}
	}
	return ""
}

func within(inner, outer ast.Node) bool {
	return outer.Pos() <= inner.Pos() && inner.End() <= outer.End()
}

// subtest is the path of t.Run calls with a literal name around the comment.
func subtest(fset *token.FileSet, fn *ast.FuncDecl, comment *ast.CommentGroup) string {
	var names strings.Builder
	ast.Inspect(fn, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Run" {
			return true
		}
		above := fset.Position(comment.End()).Line+1 == fset.Position(call.Pos()).Line
		if name := stringOf(call.Args[0]); name != "" && (above || within(comment, call)) {
			names.WriteString("/" + strings.ReplaceAll(name, " ", "_"))
		}
		return true
	})
	return names.String()
}

// nameOf is the first name that a var, const or type declaration declares:
// tables of cases are declared so.
func nameOf(gen *ast.GenDecl) string {
	for _, spec := range gen.Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			return s.Names[0].Name
		case *ast.TypeSpec:
			return s.Name.Name
		}
	}
	return ""
}
