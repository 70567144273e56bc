package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/control"
)

// releaseOptions are the flags of "release".
type releaseOptions struct {
	deleteData, keepData, force, abandon, ifExists bool
	wait                                           time.Duration
}

const releaseLong = `Let claims go: their keys are revoked, their files and CDI devices removed. A
bucket's data is kept unless the claim's deletion policy or --delete-data says otherwise;
kept data can be claimed again with "claim bucket NAME --existing ID".

With --delete-data the bucket is deleted with all that it holds. A bucket that was
there before its claim is never deleted.

A claim that a running process uses (see "fairlead exec") is refused with exit
code 5, unless --force is given.

A claim whose driver is gone for good waits for it. With --abandon the driver is
not asked: what it still has, keys and data, stays.`

func newRelease(a *app) *cobra.Command {
	var o releaseOptions
	cmd := &cobra.Command{
		Use:   "release NAME...",
		Short: "Let claims go; their data is kept unless you say otherwise",
		Long:  releaseLong,
		Example: `  fairlead release photos
  fairlead release photos logs --delete-data
  fairlead release photos --force`,
		Args:              args(1, -1, "a NAME"),
		ValidArgsFunction: a.completeClaims,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.deleteData && o.keepData {
				return usage(cmd, "--delete-data and --keep-data exclude each other")
			}
			return a.release(cmd.Context(), args, &o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.deleteData, "delete-data", false, "delete the bucket and what is in it")
	f.BoolVar(&o.keepData, "keep-data", false, "keep the data, whatever the deletion policy says")
	f.BoolVar(&o.force, "force", false, "release what is in use")
	f.BoolVar(&o.abandon, "abandon", false, "forget the claim without asking its driver, which is gone for good")
	f.BoolVar(&o.ifExists, "if-exists", false, "a claim that is not there is no error")
	waitFlag(cmd, &o.wait)
	return cmd
}

// release goes through all names even if one fails; the first failure decides
// the exit code.
func (a *app) release(ctx context.Context, args []string, o *releaseOptions) error {
	var names []string
	for _, arg := range args {
		name, err := parseName(arg)
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	var first error
	for _, name := range names {
		err := a.releaseOne(ctx, name, o)
		if err == nil || o.ifExists && claim.CodeOf(err) == claim.CodeNotFound {
			continue
		}
		a.tell(err)
		if first == nil {
			first = errReported{err}
		}
	}
	return first
}

func (a *app) releaseOne(ctx context.Context, name string, o *releaseOptions) error {
	c := a.client()
	was, err := c.Get(ctx, name)
	if err != nil {
		return err
	}
	req := control.ReleaseRequest{Force: o.force, Abandon: o.abandon}
	if o.deleteData || o.keepData {
		req.DeleteData = &o.deleteData
	}
	what := string(was.Kind) + " " + name
	done := a.waiting(ctx, "releasing "+what)
	err = c.Release(ctx, name, req, o.wait)
	done()
	if err != nil {
		return notReady(err, name)
	}
	gone := was.Existing == "" && (o.deleteData || !o.keepData && was.DeletionPolicy == claim.Delete)
	switch id := or(was.BucketID, was.Existing); {
	case was.Device != nil:
		a.say("%s is released; a container that runs keeps what it was given", what)
	case o.abandon:
		a.say("%s is forgotten; its driver %s was not asked", what, was.Driver)
	case gone:
		a.say("%s is released, its data deleted", what)
	case id != "":
		a.say("%s is released; its data is kept, and comes back with: fairlead claim bucket %s --existing %s", what, name, id)
	default:
		a.say("%s is released", what)
	}
	return a.print("%s/%s", was.Kind, name)
}
