package cosi

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A correct driver passes every case, and none is skipped when all is
// configured.
func TestReferencePasses(t *testing.T) {
	report, err := Check(t.Context(), newReference().config(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range report.Results {
		if res.Outcome != Passed {
			t.Errorf("%s: %s %q", res.Case.Name, res.Outcome, res.Messages)
		}
	}
	if !strings.Contains(report.String(), " passed, 0 failed, 0 skipped\n") {
		t.Errorf("report sums up wrongly:\n%s", report)
	}
}

// The form for go test, too, and with no more configured than the endpoint:
// what needs more is skipped, and nothing fails.
func TestRunWithEndpointOnly(t *testing.T) {
	Run(t, Config{Endpoint: newReference().config(t).Endpoint})
}

// A second check of one driver does not stumble over what the first one left.
func TestCheckLeavesNothing(t *testing.T) {
	r := newReference()
	if _, err := Check(t.Context(), r.config(t)); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.buckets)+len(r.grants)+len(r.objects) > 0 {
		t.Errorf("left %d buckets, %d grants, %d objects", len(r.buckets), len(r.grants), len(r.objects))
	}
}

// Two checks of one driver at once do not disturb each other.
func TestChecksAtOnce(t *testing.T) {
	cfg := newReference().config(t)
	cfg.Restart = nil
	for range 2 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			Run(t, cfg)
		})
	}
}

func TestCheckNeedsADriver(t *testing.T) {
	for _, endpoint := range []string{
		"", "tcp://127.0.0.1:1", "/run/x.sock", "unix://relative.sock",
		"unix://" + filepath.Join(t.TempDir(), "none.sock"),
	} {
		_, err := Check(t.Context(), Config{Endpoint: endpoint, Timeout: time.Second})
		if err == nil {
			t.Errorf("endpoint %q: checked", endpoint)
		}
	}
}

func TestCheckStopsWithItsContext(t *testing.T) {
	cfg := newReference().config(t)
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Restart = func(context.Context) error {
		cancel()
		return context.Canceled
	}
	report, err := Check(ctx, cfg)
	if err == nil || len(report.Results) == len(Cases()) {
		t.Errorf("after its context ended: %v, with %d results", err, len(report.Results))
	}
}

// Case names and ids are used by people and by the page of requirements.
func TestCasesAreWellFormed(t *testing.T) {
	name := regexp.MustCompile(`^[a-z]+/[a-z-]+$`)
	req := regexp.MustCompile(`^(COSI|DRAFT)-\d{3}( (COSI|DRAFT)-\d{3})*$`)
	seen := map[string]bool{}
	for _, c := range Cases() {
		if !name.MatchString(c.Name) || seen[c.Name] {
			t.Errorf("%q: no good name, or not the only one", c.Name)
		}
		seen[c.Name] = true
		if !req.MatchString(c.Req) {
			t.Errorf("%s: Req %q", c.Name, c.Req)
		}
		if c.Level != Must && c.Level != Should || c.Clause == "" || c.Run == nil {
			t.Errorf("%s is not whole", c.Name)
		}
	}
}
