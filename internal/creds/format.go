package creds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Formats are the formats that Format knows.
var Formats = []string{"shell", "dotenv", "json", "aws"}

// ErrFormat says that there is no such format, or nothing to say in it.
var ErrFormat = errors.New("no such format")

// Format prints rendered files for a program that reads none:
//
//	shell   export KEY='value', for eval in a POSIX shell
//	dotenv  KEY=value, quoted where needed so that a shell reads it the same
//	json    one object of the values
//	aws     one AWS config file with the credentials in it
//
// The values are the files named like environment variables, in the order of
// their names. The output holds secrets.
func Format(files map[string][]byte, format string) ([]byte, error) {
	switch format {
	case "shell":
		return lines(files, func(k, v string) string { return "export " + k + "=" + quote(v) })
	case "dotenv":
		return lines(files, func(k, v string) string { return k + "=" + dotenv(v) })
	case "json":
		return formatJSON(files)
	case "aws":
		return formatAWS(files)
	}
	return nil, fmt.Errorf("%w: %q is none of %s", ErrFormat, format, strings.Join(Formats, ", "))
}

func lines(files map[string][]byte, line func(key, value string) string) ([]byte, error) {
	var b bytes.Buffer
	for _, key := range variables(files) {
		if bytes.IndexByte(files[key], 0) >= 0 {
			return nil, fmt.Errorf("format %s: no environment variable can hold a NUL", key)
		}
		b.WriteString(line(key, string(files[key])))
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}

// quote is POSIX quoting (XCU 2.2.2): nothing is special between single quotes,
// so a single quote itself stands outside of them.
func quote(v string) string {
	return "'" + strings.ReplaceAll(v, "'", `'\''`) + "'"
}

// dotenv leaves plain values bare, since some readers (docker's --env-file) take
// quotes for a part of the value. The rest is quoted in the way that a shell and
// the dotenv libraries share: single quotes, or double ones around a single one.
func dotenv(v string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./:@%+,=-", r)
	}
	switch {
	case !strings.ContainsFunc(v, func(r rune) bool { return !plain(r) }):
		return v
	case !strings.Contains(v, "'"):
		return "'" + v + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(v) + `"`
}

func formatJSON(files map[string][]byte) ([]byte, error) {
	values := make(map[string]string)
	for _, key := range variables(files) {
		if !utf8.Valid(files[key]) {
			return nil, fmt.Errorf("format %s: JSON can hold UTF-8 only", key)
		}
		values[key] = string(files[key])
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(values); err != nil {
		return nil, fmt.Errorf("format credentials as JSON: %w", err)
	}
	return b.Bytes(), nil
}

// formatAWS puts the keys below each profile of the config file. One file can
// hold both (the reverse is not so), and two files cannot be told apart on one
// output.
func formatAWS(files map[string][]byte) ([]byte, error) {
	config, ok := files[ConfigFile]
	if !ok {
		return nil, fmt.Errorf("%w: %q needs a bucket that speaks S3", ErrFormat, "aws")
	}
	var keys strings.Builder
	property(&keys, "aws_access_key_id", string(files["AWS_ACCESS_KEY_ID"]))
	property(&keys, "aws_secret_access_key", string(files["AWS_SECRET_ACCESS_KEY"]))
	var b bytes.Buffer
	for line := range strings.Lines(string(config)) {
		b.WriteString(line)
		if strings.HasPrefix(line, "[") {
			b.WriteString(keys.String())
		}
	}
	return b.Bytes(), nil
}

// variables are the names of the files that can be environment variables.
func variables(files map[string][]byte) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool {
		bad := func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9') }
		return name == "" || name[0] >= '0' && name[0] <= '9' || strings.ContainsFunc(name, bad)
	})
}
