package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/control"
	"github.com/fairlead/fairlead/internal/manifest"
)

// applyCallers is how many objects of one kind are on their way at once.
const applyCallers = 16

const applyLong = `State classes, claims and accesses in YAML or JSON: BucketClass, BucketClaim,
BucketAccessClass and BucketAccess of objectstorage.k8s.io/v1alpha1, the same
documents that a cluster takes. The order of the documents has no meaning, and
applying them again changes nothing.

The file is read strictly: an unknown field, a wrong kind or a name given twice
is an error with file, line and column, and nothing is applied then. A
BucketClaim alone has no access; each BucketAccess makes one, NAME.ACCESS.`

// applyOptions are the flags of "apply".
type applyOptions struct {
	files  []string
	dryRun bool
	wait   time.Duration
	output output
}

func newApply(a *app) *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIRECTORY|-",
		Short: "State classes, claims and accesses in YAML or JSON",
		Long:  applyLong,
		Example: `  fairlead apply -f buckets.yaml
  fairlead apply -f manifests/ --dry-run
  generate-claims | fairlead apply -f -`,
		Args: args(0, 0, "nothing but -f"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(o.files) == 0 {
				return usage(cmd, "apply needs -f FILE")
			}
			return a.apply(cmd.Context(), &o)
		},
	}
	cmd.Flags().StringArrayVarP(&o.files, "filename", "f", nil, "file, directory, or - for stdin; may be repeated")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only check the files; asks no daemon")
	waitFlag(cmd, &o.wait)
	o.output.addTo(cmd, "text", "json", "yaml")
	return cmd
}

// applied is the outcome for one object. In JSON it is a stable contract.
type applied struct {
	Object string `json:"object"` // bucketclaim/photos
	Result string `json:"result"` // created, unchanged, changed, valid (dry run), failed
	err    error
}

func (a *app) apply(ctx context.Context, o *applyOptions) error {
	sources, err := a.sources(o.files)
	if err != nil {
		return err
	}
	set, err := manifest.Parse(sources...)
	if mistakes, ok := errors.AsType[manifest.Errors](err); ok {
		return a.mistakes(mistakes)
	}
	if err != nil {
		return err
	}
	all := a.applySet(ctx, a.client(), &set, o)
	if o.output.format == "text" {
		return a.outcome(all)
	}
	if err := a.value(o.output.format, all); err != nil {
		return err
	}
	return a.failures(all)
}

// mistakes prints each on a line of its own.
func (a *app) mistakes(list manifest.Errors) error {
	for _, m := range list {
		a.tell(m)
	}
	a.say("hint: nothing was applied; the fields are described by: fairlead apply --help")
	return errReported{claim.Errorf(claim.CodeInvalid, "%d mistakes", len(list))}
}

// step applies one object.
type step struct {
	object string
	do     func(context.Context) (result string, err error)
}

// applySet applies classes before claims and claims before accesses; within a
// kind several at once. What fails does not keep the others from being tried.
func (a *app) applySet(ctx context.Context, c *control.Client, set *manifest.Set, o *applyOptions) []applied {
	stages := [][]step{nil, nil, nil}
	for _, class := range set.BucketClasses {
		stages[0] = append(stages[0], step{"bucketclass/" + class.Name, func(ctx context.Context) (string, error) {
			return c.PutBucketClass(ctx, class)
		}})
	}
	for _, class := range set.AccessClasses {
		stages[0] = append(stages[0], step{"bucketaccessclass/" + class.Name, func(ctx context.Context) (string, error) {
			return c.PutAccessClass(ctx, class)
		}})
	}
	for _, req := range set.Claims {
		stages[1] = append(stages[1], step{"bucketclaim/" + req.Name, func(ctx context.Context) (string, error) {
			resp, err := c.Claim(ctx, req, o.wait)
			return resp.Result, notReady(err, req.Name)
		}})
	}
	for _, access := range set.Accesses {
		stages[2] = append(stages[2], step{"bucketaccess/" + access.Spec.Name, func(ctx context.Context) (string, error) {
			resp, err := c.AddAccess(ctx, access.Claim, access.Spec, o.wait)
			return resp.Result, notReady(err, access.Claim)
		}})
	}
	done := a.waiting(ctx, "applying")
	defer done()
	all := []applied{}
	for _, steps := range stages {
		all = append(all, runSteps(ctx, steps, o.dryRun)...)
	}
	return all
}

func runSteps(ctx context.Context, steps []step, dryRun bool) []applied {
	out := make([]applied, len(steps))
	var g errgroup.Group
	g.SetLimit(applyCallers)
	for i, s := range steps {
		out[i].Object = s.object
		if dryRun {
			out[i].Result = "valid"
			continue
		}
		g.Go(func() error {
			result, err := s.do(ctx)
			out[i].Result, out[i].err = resultWord(result), err
			if err != nil {
				out[i].Result = "failed"
			}
			return nil
		})
	}
	_ = g.Wait() // the steps keep their errors
	return out
}

// resultWord says "unchanged" for the API's "exists".
func resultWord(result string) string {
	if result == "exists" {
		return "unchanged"
	}
	return result
}

func (a *app) outcome(all []applied) error {
	for _, x := range all {
		if x.err != nil {
			continue
		}
		if err := a.print("%s %s", x.Object, x.Result); err != nil {
			return err
		}
	}
	return a.failures(all)
}

// failures tells what failed; the first decides the exit code.
func (a *app) failures(all []applied) error {
	var first error
	for _, x := range all {
		if x.err == nil {
			continue
		}
		a.tell(fmt.Errorf("%s: %w", x.Object, x.err))
		if first == nil {
			first = errReported{x.err}
		}
	}
	return first
}

// sources reads the files; of a directory those that end like manifests.
func (a *app) sources(files []string) (out []manifest.Source, err error) {
	for _, name := range files {
		if name == "-" {
			text, err := io.ReadAll(a.in)
			if err != nil {
				return nil, fmt.Errorf("read stdin: %w", err)
			}
			out = append(out, manifest.Source{Name: "stdin", Text: text})
			continue
		}
		inside, err := filesIn(name)
		if err != nil {
			return nil, err
		}
		for _, file := range inside {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, claim.Errorf(claim.CodeInvalid, "%v", err)
			}
			out = append(out, manifest.Source{Name: file, Text: text})
		}
	}
	return out, nil
}

func filesIn(name string) ([]string, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return nil, claim.Errorf(claim.CodeInvalid, "%v", err)
	}
	if !fi.IsDir() {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, claim.Errorf(claim.CodeInvalid, "%v", err)
	}
	var files []string
	for _, e := range entries {
		if ext := strings.ToLower(filepath.Ext(e.Name())); slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
			files = append(files, filepath.Join(name, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, claim.Errorf(claim.CodeInvalid, "%s holds no .yaml, .yml or .json file", name)
	}
	return files, nil
}
