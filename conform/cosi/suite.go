// Package cosi checks a COSI driver from outside: it calls the driver through
// its socket, as a COSI system would, and says which sentences of the
// specification the driver does not keep. It knows nothing of the driver but
// what Config tells it, and sends wrong things on purpose, so it speaks gRPC
// itself and shares no code with what it checks.
//
// In a test of a driver written in Go:
//
//	func TestConformance(t *testing.T) {
//		cosi.Run(t, cosi.Config{Endpoint: "unix:///run/mine/cosi.sock"})
//	}
//
// It makes buckets and accesses with names that begin with Config.Prefix and
// removes them again. Never point it at a store whose bucket names you must
// not touch.
package cosi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// Config says how to reach a driver, and what it takes and refuses. Only
// Endpoint is required: a case that needs more than it is given is skipped.
type Config struct {
	// Endpoint is the driver's, as in COSI_ENDPOINT: unix:///run/x/cosi.sock.
	Endpoint string

	// BucketParameters are good for a new bucket; none by default.
	BucketParameters map[string]string
	// OtherBucketParameters are good too, and not compatible with
	// BucketParameters: a bucket made with those is none made with these.
	OtherBucketParameters map[string]string
	// MalformedBucketParameters have a known key with a value that cannot be
	// read: INVALID_ARGUMENT.
	MalformedBucketParameters map[string]string
	// UnsupportedBucketParameters can be read but not served: OUT_OF_RANGE.
	UnsupportedBucketParameters map[string]string
	// BadBucketNames are refused by the back end's rules: INVALID_ARGUMENT.
	BadBucketNames []string

	// AccessParameters are good for a new access; none by default.
	AccessParameters map[string]string
	// OtherAccessParameters are good too, and ask for another access.
	OtherAccessParameters map[string]string

	// Probe uses granted credentials; without one nothing is known of what a
	// key opens, and those cases are skipped.
	Probe Probe
	// Restart ends the driver, as hard as it can, and starts it again on the
	// same endpoint and state. It returns when the driver has been started.
	Restart func(context.Context) error
	// DedicatedDir says that the socket's directory was empty before the
	// driver started, so that all else found there is the driver's.
	DedicatedDir bool
	// Draft says that the driver serves the older draft's calls too.
	Draft bool

	// Lenient logs a case of level SHOULD that fails, instead of failing.
	Lenient bool
	// Prefix begins every bucket's and access' name; "fl-check" by default.
	Prefix string
	// Timeout is for one call; 30 s by default.
	Timeout time.Duration
}

// Level is how binding a clause is.
type Level string

// The levels of RFC 2119 that a case can have.
const (
	Must   Level = "MUST"
	Should Level = "SHOULD"
)

// Case is one check.
type Case struct {
	Name   string   // "create/again"
	Req    string   // ids of the rows of requirements.tsv that it proves
	Level  Level    // of the clause
	Clause string   // the specification's words, or what follows from them
	Run    func(*T) // the check itself
}

// Cases are all checks, in the order in which they run: those that sum up what
// all others saw come last.
func Cases() []Case {
	return slices.Concat(identityCases, endpointCases, createCases, deleteCases,
		grantCases, revokeCases, useCases, concurrencyCases, retryCases,
		draftCases, restartCases, statusCases)
}

// Outcome is how a case ended.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "pass"
	Failed  Outcome = "fail"
	Skipped Outcome = "skip"
)

// Result is how one case ended. Messages say why it failed or was skipped.
type Result struct {
	Case     Case
	Outcome  Outcome
	Messages []string
	Took     time.Duration
}

// Report is the result of every case, in order.
type Report struct {
	Results []Result
}

// Failures are the results of that level which failed.
func (r Report) Failures(level Level) []Result {
	var failed []Result
	for _, res := range r.Results {
		if res.Outcome == Failed && res.Case.Level == level {
			failed = append(failed, res)
		}
	}
	return failed
}

// String is the report for a person: one line per case, and for each failure
// what happened and the clause that it breaks.
func (r Report) String() string {
	var w strings.Builder
	count := map[Outcome]int{}
	for _, res := range r.Results {
		count[res.Outcome]++
		fmt.Fprintf(&w, "%s  %s\n", res.Outcome, res.Case.Name)
		for _, m := range res.Messages {
			fmt.Fprintf(&w, "      %s\n", m)
		}
		if res.Outcome == Failed {
			fmt.Fprintf(&w, "      %s %s: %s\n", res.Case.Level, res.Case.Req, res.Case.Clause)
		}
	}
	fmt.Fprintf(&w, "%d passed, %d failed, %d skipped\n", count[Passed], count[Failed], count[Skipped])
	return w.String()
}

// Check runs every case against the driver. Its error says that there was
// nothing to check: a bad endpoint, or nobody there.
func Check(ctx context.Context, cfg Config) (Report, error) {
	s, err := open(ctx, cfg)
	if err != nil {
		return Report{}, err
	}
	defer s.close()
	var report Report
	for _, c := range Cases() {
		if err := ctx.Err(); err != nil {
			return report, err
		}
		report.Results = append(report.Results, s.run(ctx, c))
	}
	return report, nil
}

// Run runs every case as a subtest of t.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	s, err := open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			res := s.run(t.Context(), c)
			text := strings.Join(res.Messages, "\n")
			switch {
			case res.Outcome == Skipped:
				t.Skip(text)
			case res.Outcome == Failed && c.Level == Should && cfg.Lenient:
				t.Logf("%s\n%s %s: %s", text, c.Level, c.Req, c.Clause)
			case res.Outcome == Failed:
				t.Errorf("%s\n%s %s: %s", text, c.Level, c.Req, c.Clause)
			}
		})
	}
}

// ErrRefused is what a Probe's errors wrap when the back end answered and
// refused: a wrong key, or one without that permission.
var ErrRefused = errors.New("the back end refused")

// Probe uses granted credentials at the back end. Its methods return errors
// that wrap ErrRefused where the back end said no.
type Probe interface {
	Put(ctx context.Context, a Access, object string, data []byte) error
	Get(ctx context.Context, a Access, object string) ([]byte, error)
}

// Remover is a Probe that can delete an object too. Without it, buckets that
// objects were put into may be left behind.
type Remover interface {
	Remove(ctx context.Context, a Access, object string) error
}

// Access is a grant, as the driver answered it.
type Access struct {
	BucketID  string
	AccountID string
	// Credentials are those of the answer, by protocol ("s3") and key.
	Credentials map[string]map[string]string
}

// onto is the same access with its credentials pointed at another bucket.
func (a Access) onto(bucketID string) Access {
	a.BucketID = bucketID
	return a
}

// refusals are the codes for what cannot be done as asked.
var refusals = []codes.Code{codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition}
