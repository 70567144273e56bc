package creds

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// readBack lets the real shell read what Format wrote, and print the value.
func readBack(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script+`printf '%s.' "$K"`)
	cmd.Env = []string{}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sh: %v\n%s", err, script)
	}
	return strings.TrimSuffix(string(out), ".")
}

// FuzzQuoting: whatever a secret holds, a shell reads it back and runs none of it.
func FuzzQuoting(f *testing.F) {
	for _, s := range []string{
		"", "plain", "a b", "it's", `"`, "''", `'\''`, "$HOME", "$(false)", "`false`", `\`, `\\'`, "a\nb", "a\n", "\r\t",
		"!x", "#c", "a;b|c&d<e>f", "*?[x]", "~", "=", "ünï", "\xff\xfe", "'\"$`\\\n'", "-n", `\n`, "a\\", "'\\\n'",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		files := map[string][]byte{"K": []byte(value)}
		for _, format := range []string{"shell", "dotenv"} {
			script, err := Format(files, format)
			if strings.Contains(value, "\x00") {
				if err == nil {
					t.Fatal("a NUL was accepted")
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := readBack(t, string(script)); got != value {
				t.Errorf("%s: %q came back as %q from %q", format, value, got, script)
			}
		}
	})
}

func TestFormat(t *testing.T) {
	files, err := Render(s3Input())
	if err != nil {
		t.Fatal(err)
	}
	files["lower_case"] = []byte("no variable")
	for _, format := range Formats {
		out, err := Format(files, format)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "format."+format, out)
		if format == "json" && !json.Valid(out) {
			t.Error("not JSON")
		}
	}
	if _, err := Format(files, "xml"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "dotenv") {
		t.Errorf("unknown format: %v", err)
	}
	azure, err := Render(azureInput("sig=x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Format(azure, "aws"); !errors.Is(err, ErrFormat) {
		t.Errorf("an Azure bucket as AWS files: %v", err)
	}
}
