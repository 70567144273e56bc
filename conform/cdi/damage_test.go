package cdi

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// damaged is an injector with one fault.
type damaged func(dirs []string, config []byte, devices []string) ([]byte, error)

func (f damaged) Inject(dirs []string, config []byte, devices []string) ([]byte, error) {
	return f(dirs, config, devices)
}

// TestDamage: the cases find faults, and those that are about something else do
// not fail for them.
func TestDamage(t *testing.T) {
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []struct {
		name          string
		in            damaged
		fails, passes []string
	}{
		{"nothing is injected", func(_ []string, config []byte, _ []string) ([]byte, error) {
			return config, nil
		}, []string{"env", "hooks", "mounts", "unknown-device", "kind", "json"}, []string{"no-device"}},
		{"nothing works", func([]string, []byte, []string) ([]byte, error) {
			return nil, errors.New("broken")
		}, []string{"env", "no-device", "kind", "bad-beside-good"}, []string{"unknown-device", "node-absent"}},
		{"devices one after the other", func(dirs []string, config []byte, devices []string) (_ []byte, err error) {
			for _, device := range devices {
				if config, err = (library{}).Inject(dirs, config, []string{device}); err != nil {
					return nil, err
				}
			}
			return config, nil
		}, []string{"global-once", "device-twice"}, []string{"env", "no-device", "kind", "json"}},
		{"the first directory wins", func(dirs []string, config []byte, devices []string) ([]byte, error) {
			dirs = slices.Clone(dirs)
			slices.Reverse(dirs)
			return library{}.Inject(dirs, config, devices)
		}, []string{"later-directory-wins", "directories-add-up"}, []string{"env", "global-once", "directory-absent"}},
		{"numbers are taken for others", func(dirs []string, config []byte, devices []string) ([]byte, error) {
			out, err := library{}.Inject(dirs, config, devices)
			return bytes.ReplaceAll(out, []byte(`"major":1,`), []byte(`"major":2,`)), err
		}, []string{"node-from-host", "node-again"}, []string{"node-given", "env"}},
	} {
		t.Run(d.name, func(t *testing.T) {
			for _, c := range cases {
				err := c.Check(t.TempDir(), d.in)
				if slices.Contains(d.fails, c.Name) && err == nil {
					t.Errorf("%s found nothing", c.Name)
				}
				if slices.Contains(d.passes, c.Name) && err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			}
		})
	}
}

// TestParseCase: a case that says nothing is refused.
func TestParseCase(t *testing.T) {
	for name, text := range map[string]string{
		"no configuration": "About.\n\nReq: CDI-001\nError: host\n-- 0/x.json --\n{}\n",
		"no row":           "About.\n\nError: host\n-- config.json --\n{}\n",
		"nothing wanted":   "About.\n\nReq: CDI-001\n-- config.json --\n{}\n",
		"two wants":        "About.\n\nReq: CDI-001\nError: host\n-- config.json --\n{}\n-- want.json --\n{}\n",
		"outside":          "About.\n\nReq: CDI-001\nError: host\n-- ../x.json --\n{}\n-- config.json --\n{}\n",
		"link":             "About.\n\nReq: CDI-001\nLink: x\nError: host\n-- config.json --\n{}\n",
	} {
		if _, err := parse("x", text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
