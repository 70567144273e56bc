package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/control"
)

func newClaim(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "claim",
		Short: "Claim a bucket or a device",
		Long:  "State a need. What can be claimed: a bucket of an object store, a device of this\nhost.",
	}, newClaimBucket(a), newClaimDevice(a))
}

// claimOptions are the flags of "claim bucket".
type claimOptions struct {
	class, existing, driver, deletion string
	params                            pairs
	access                            accessOptions
	noAccess                          bool
	wait                              time.Duration
	output                            output
}

const claimBucketLong = `Claim a bucket: it is made by the driver, credentials are made for it, and both
are handed over as files and as a CDI device. The command returns when the
bucket is ready. Asking again with the same arguments changes nothing; with
other arguments it is a conflict (exit code 4).

Parameters go to the driver. Ours knows versioning, objectLock, quota (10Gi),
anonymousAccess (Private, ReadOnly, WriteOnly, ReadWrite) and region.

With --existing the bucket is one that was there before, by its id at the
driver. Such a bucket is never created and never deleted.`

func newClaimBucket(a *app) *cobra.Command {
	o := claimOptions{params: pairs{}, access: newAccessOptions()}
	cmd := &cobra.Command{
		Use:   "bucket NAME",
		Short: "Claim a bucket",
		Long:  claimBucketLong,
		Example: `  fairlead claim bucket photos
  fairlead claim bucket photos --param quota=10Gi --param versioning=true
  fairlead claim bucket logs --mode WriteOnly --expiry 7d
  fairlead claim bucket archive --class vendor --existing archive-2019`,
		Args:              args(1, 1, "a NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.claimBucket(cmd.Context(), args[0], &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.class, "class", "", "bucket class (default \"default\")")
	f.StringVar(&o.existing, "existing", "", "id of a bucket that is there already")
	f.StringVar(&o.driver, "driver", "", "driver, instead of the class's")
	f.Var(o.params, "param", "parameter for the driver; may be repeated")
	f.Var(choice{&o.deletion, []string{string(claim.Retain), string(claim.Delete)}}, "delete-policy", "what a release does to the data")
	f.BoolVar(&o.noAccess, "no-access", false, "make no access yet; see: fairlead access add")
	o.access.addTo(cmd)
	waitFlag(cmd, &o.wait)
	o.output.addTo(cmd, "name", "json", "yaml")
	_ = cmd.RegisterFlagCompletionFunc("class", a.completeClasses)
	_ = cmd.RegisterFlagCompletionFunc("driver", a.completeDrivers)
	return cmd
}

func (a *app) claimBucket(ctx context.Context, arg string, o *claimOptions) error {
	name, err := parseName(arg)
	if err != nil {
		return err
	}
	c := a.client()
	req := control.ClaimRequest{
		Kind: claim.KindBucket, Name: name, Class: o.class, Existing: o.existing, Driver: o.driver,
		DeletionPolicy: claim.DeletionPolicy(o.deletion), Parameters: o.params.orNil(), NoAccess: o.noAccess,
	}
	if !o.noAccess {
		spec, err := a.accessSpec(ctx, c, ref{name, claim.DefaultName}, &o.access)
		if err != nil {
			return err
		}
		req.Access = &spec
	}
	start := a.now()
	done := a.waiting(ctx, "waiting for bucket "+name)
	resp, err := c.Claim(ctx, req, o.wait)
	done()
	if err != nil {
		return notReady(err, name)
	}
	return a.claimed(ctx, c, resp, a.now().Sub(start), o.output)
}

// claimed prints what came of a claim, and how to use it.
func (a *app) claimed(ctx context.Context, c *control.Client, resp control.ClaimResponse, took time.Duration, o output) error {
	what, name := string(resp.Claim.Kind), resp.Claim.Name
	if o.format == "name" {
		if err := a.print("%s/%s", what, name); err != nil {
			return err
		}
	} else if err := a.value(o.format, resp); err != nil {
		return err
	}
	if resp.Claim.Phase != claim.PhaseReady {
		a.say("%s %s is %s; follow it with: fairlead describe %s", what, name, resp.Claim.Phase, name)
		return nil
	}
	if resp.Result == "created" {
		a.say("%s %s is ready (%s)", what, name, took.Round(time.Millisecond))
	} else {
		a.say("%s %s is ready; it was there already", what, name)
	}
	if d := resp.Claim.Device; d != nil {
		a.nextOfDevice(name, d)
	}
	for _, access := range resp.Claim.Accesses {
		a.next(ctx, c, ref{name, access.Name}, access)
	}
	return nil
}

// notReady adds the way to find out more to an error about a claim.
func notReady(err error, name string) error {
	e, ok := errors.AsType[*claim.Error](err)
	if !ok || e.Hint != "" || e.Code != claim.CodeTimeout && e.Code != claim.CodeDriver {
		return err
	}
	return e.WithHint("see what happened with: fairlead describe %s", name)
}
