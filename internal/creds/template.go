package creds

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"text/template"
)

// maxTemplate bounds what one template writes, in bytes: a small template can
// call itself often enough to fill the memory behind the run directory.
const maxTemplate = 1 << 20

// ErrTemplate says that a person's template, or its name, cannot be used.
var ErrTemplate = errors.New("template cannot be used")

// CheckTemplates parses the templates and checks the file names, so that a
// claim is refused when it is made and not when it is published. Errors wrap
// ErrTemplate.
func CheckTemplates(templates map[string]string) error {
	for name, text := range templates {
		if _, err := parseTemplate(name, text); err != nil {
			return err
		}
	}
	return nil
}

// renderTemplates runs every template over the BucketInfo in its JSON form. A
// name that the BucketInfo lacks is an error, never the text "<no value>".
func renderTemplates(templates map[string]string, info []byte) (map[string][]byte, error) {
	if len(templates) == 0 {
		return nil, nil
	}
	var data map[string]any
	if err := json.Unmarshal(info, &data); err != nil {
		return nil, fmt.Errorf("read %s: %w", BucketInfoFile, err)
	}
	files := make(map[string][]byte, len(templates))
	for name, text := range templates {
		t, err := parseTemplate(name, text)
		if err != nil {
			return nil, err
		}
		var out limited
		if err := t.Execute(&out, data); err != nil {
			return nil, fmt.Errorf("%w: %s", ErrTemplate, withoutValue(err))
		}
		files[name] = out.Bytes()
	}
	return files, nil
}

// withoutValue is the error of a template less the one value that text/template
// shows, which may be secret: what it was told to range over and could not.
func withoutValue(err error) string {
	const shown = "range can't iterate over "
	text := err.Error()
	if i := strings.Index(text, shown); i >= 0 {
		text = text[:i] + shown + "this value"
	}
	return text
}

func parseTemplate(name, text string) (*template.Template, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	if reserved(name) {
		return nil, fmt.Errorf("%w: file %q is written by fairlead itself: choose another name", ErrTemplate, name)
	}
	t, err := template.New(name).Option("missingkey=error").Funcs(templateFuncs).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	return t, nil
}

// templateFuncs are what configuration files need beyond text/template's own.
// Their errors hold no value, since it may be secret.
var templateFuncs = template.FuncMap{
	"host":   hostOf,
	"tls":    func(endpoint string) bool { return strings.HasPrefix(endpoint, "https://") },
	"base64": func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"json": func(v any) (string, error) {
		b, err := json.Marshal(v)
		return string(b), err
	},
}

// hostOf is the HOST:PORT of an endpoint's URL.
func hostOf(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return "", errors.New("host: not the URL of an endpoint")
	}
	return u.Host, nil
}

// reserved tells the names that Render gives itself for some bucket or other.
func reserved(name string) bool {
	switch name {
	case BucketInfoFile, CredentialsFile, ConfigFile, GoogleFile:
		return true
	}
	return slices.Contains(flatNames, name)
}

// checkName allows what can be the name of one file and cannot be mistaken for
// one of the names that Write keeps for itself, which begin with two dots.
func checkName(name string) error {
	switch {
	case name == "" || name == "." || strings.HasPrefix(name, ".."):
		return fmt.Errorf("file name %q is empty or begins with two dots", name)
	case len(name) > 255:
		return fmt.Errorf("file name of %d bytes is longer than 255", len(name))
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r < ' ' || r == 0x7f }):
		return fmt.Errorf("file name %q holds a slash or a control character", name)
	}
	return nil
}

// limited is a buffer that refuses to grow beyond maxTemplate. The error of a
// write ends the template.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxTemplate {
		return 0, fmt.Errorf("output is longer than %d bytes", maxTemplate)
	}
	return l.Buffer.Write(p)
}
