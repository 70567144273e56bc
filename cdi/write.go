package cdi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// WriteOption changes how Write writes.
type WriteOption int

// NoSync leaves out fsync, for directories that a reboot empties. It is for Remove
// too.
const NoSync WriteOption = 1

// Write writes s to the file name in dir, in one step: a reader finds the old
// content or the new one, and a caching runtime notices. The file is readable by
// all (0644), since rootless runtimes read it too, so no secret may be in it.
// name ends in .json; FileName makes one. A link of that name is replaced, not
// followed. dir is made if missing, for all to read (0755). Without a
// version of its own, s is written with its MinimumVersion, which the most
// runtimes read. A spec that breaks a rule is not written; the error is Problems.
// s is not changed. Equal specs give equal files.
func Write(dir, name string, s *Spec, options ...WriteOption) error {
	if err := checkFileName(name); err != nil {
		return fmt.Errorf("write CDI spec: %w", err)
	}
	data, err := Marshal(s)
	if err != nil {
		return fmt.Errorf("write CDI spec %s: %w", name, err)
	}
	durable := !slices.Contains(options, NoSync)
	if err := makeDir(dir, durable); err != nil {
		return fmt.Errorf("write CDI spec %s: %w", name, err)
	}
	if err := replace(dir, name, data, durable); err != nil {
		return fmt.Errorf("write CDI spec %s: %w", name, err)
	}
	return nil
}

// Remove removes the file name from dir. That it is absent is an error which
// wraps fs.ErrNotExist.
func Remove(dir, name string, options ...WriteOption) error {
	if err := checkFileName(name); err != nil {
		return fmt.Errorf("remove CDI spec: %w", err)
	}
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		return fmt.Errorf("remove CDI spec: %w", err)
	}
	if slices.Contains(options, NoSync) {
		return nil
	}
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("remove CDI spec %s: %w", name, err)
	}
	return nil
}

// Marshal returns the JSON text of s as Write writes it.
func Marshal(s *Spec) ([]byte, error) {
	written := *s
	if written.Version == "" {
		written.Version = MinimumVersion(s)
	}
	if err := Validate(&written); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(&written); err != nil {
		return nil, fmt.Errorf("encode CDI spec: %w", err)
	}
	if line := notUTF8(b.Bytes()); line != "" {
		return nil, Problems{{Path: "$", Rule: RuleSyntax, Message: "not UTF-8, which JSON is: " + line}}
	}
	return b.Bytes(), nil
}

// notUTF8 is the first line with something that was not UTF-8: the encoder has
// written an escape for it that it uses for nothing else.
func notUTF8(text []byte) string {
	for line := range bytes.Lines(text) {
		if bytes.Contains(bytes.ReplaceAll(line, []byte(`\\`), nil), []byte(`\ufffd`)) {
			return string(bytes.TrimSpace(line))
		}
	}
	return ""
}

// checkFileName allows the name of a file that readers of a directory of specs
// take up.
func checkFileName(name string) error {
	if strings.ContainsAny(name, "/\x00") || strings.HasPrefix(name, ".") || filepath.Ext(name) != ".json" {
		return fmt.Errorf("%q is not the name of a spec file: it ends in .json, has no slash and does not begin with a dot", name)
	}
	return nil
}

// makeDir makes a directory and those above it that are missing, readable by all
// whatever the umask.
func makeDir(dir string, durable bool) error {
	if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
		return nil
	}
	above := filepath.Dir(dir)
	if above != dir {
		if err := makeDir(above, durable); err != nil {
			return err
		}
	}
	switch err := os.Mkdir(dir, 0o755); {
	case errors.Is(err, fs.ErrExist):
		return nil // somebody else was quicker, or it is no directory: what follows tells
	case err != nil:
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil || !durable {
		return err
	}
	return syncDir(above)
}

// temporary is the pattern of the temporary file of a spec, .NAME.tmp-*, which
// tells who finds one after a crash whose it is. A file's name has at most 255 bytes.
func temporary(name string) string { return "." + name[:min(len(name), 200)] + ".tmp-*" }

// replace saves data in dir: a temporary file beside it, which readers pass over
// since it does not end in .json, and a rename.
func replace(dir, name string, data []byte, durable bool) (err error) {
	f, err := os.CreateTemp(dir, temporary(name))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreAbsent(os.Remove(f.Name())))
		}
	}()
	if err := fill(f, data, durable); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	if durable {
		return syncDir(dir)
	}
	return nil
}

func fill(f *os.File, data []byte, durable bool) error {
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if durable {
		return f.Sync()
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
