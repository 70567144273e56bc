package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/control"
)

func newAccess(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "access",
		Short: "Add, list, rotate and revoke the accesses of a bucket",
		Long: `An access is one set of credentials on a bucket. Every claim begins with one,
named "default"; further ones are named NAME.ACCESS wherever a bucket is used.`,
	}, newAccessAdd(a), newAccessList(a), newAccessRotate(a), newAccessRevoke(a))
}

// accessOptions are the flags that say what an access may do.
type accessOptions struct {
	class, prefix, auth string
	mode                claim.Mode
	expiry              expiry
	gid                 gid
	params              pairs
	templates           templates
}

func newAccessOptions() accessOptions {
	return accessOptions{params: pairs{}, templates: templates{}}
}

func (o *accessOptions) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(mode{&o.mode}, "mode", "what the credentials may do (default ReadWrite)")
	f.StringVar(&o.prefix, "prefix", "", "only keys that begin with this")
	f.Var(&o.expiry, "expiry", "when the credentials end: 24h, 7d, or 2030-01-31T12:00:00Z")
	f.Var(&o.gid, "gid", "group that may read the credential files")
	f.Var(o.templates, "template", "further file to write beside the credentials, from a Go template; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions(modes(), cobra.ShellCompDirectiveNoFileComp))
}

// accessSpec makes the request of the flags. A relative expiry counts from the
// first time it was asked for, so that asking again is no other request.
func (a *app) accessSpec(ctx context.Context, c *control.Client, r ref, o *accessOptions) (claim.AccessSpec, error) {
	spec := claim.AccessSpec{
		Name: r.access, Class: o.class, Mode: o.mode, Prefix: o.prefix, Expiry: o.expiry.at,
		Authentication: claim.Authentication(o.auth), Parameters: o.params.orNil(), GID: o.gid.id,
	}
	if len(o.templates) > 0 {
		spec.Templates = o.templates
	}
	if !o.expiry.relative {
		return spec, nil
	}
	spec.Expiry = a.now().Add(o.expiry.in).UTC().Truncate(time.Second)
	old, err := c.Get(ctx, r.claim)
	if claim.CodeOf(err) == claim.CodeNotFound {
		return spec, nil
	}
	if err != nil {
		return spec, err
	}
	if was := old.Access(r.access); was != nil && !was.Expiry.IsZero() {
		spec.Expiry = was.Expiry
	}
	return spec, nil
}

func newAccessAdd(a *app) *cobra.Command {
	o := newAccessOptions()
	var wait time.Duration
	var out output
	cmd := &cobra.Command{
		Use:   "add NAME.ACCESS",
		Short: "Make further credentials for a bucket",
		Long: `Make a further access on a bucket: its own account at the driver, its own files,
its own CDI device. Asking again with the same arguments changes nothing.`,
		Example: `  fairlead access add photos.viewer --mode ReadOnly
  fairlead access add photos.upload --mode WriteOnly --prefix inbox/ --expiry 24h`,
		Args:              args(1, 1, "NAME.ACCESS"),
		ValidArgsFunction: a.completeClaims,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.addAccess(cmd, args[0], &o, wait, out)
		},
	}
	o.addTo(cmd)
	f := cmd.Flags()
	f.StringVar(&o.class, "class", "", "bucket access class")
	f.Var(choice{&o.auth, []string{string(claim.AuthKey), string(claim.AuthIAM)}}, "auth", "how the access proves itself (default KEY)")
	f.Var(o.params, "param", "parameter for the driver; may be repeated")
	waitFlag(cmd, &wait)
	out.addTo(cmd, "name", "json", "yaml")
	_ = cmd.RegisterFlagCompletionFunc("class", a.completeAccessClasses)
	return cmd
}

func (a *app) addAccess(cmd *cobra.Command, arg string, o *accessOptions, wait time.Duration, out output) error {
	r, err := parseRef(arg)
	if err != nil {
		return err
	}
	ctx, c := cmd.Context(), a.client()
	spec, err := a.accessSpec(ctx, c, r, o)
	if err != nil {
		return err
	}
	done := a.waiting(ctx, "waiting for access "+r.String())
	resp, err := c.AddAccess(ctx, r.claim, spec, wait)
	done()
	if err != nil {
		return notReady(err, r.claim)
	}
	if out.format == "name" {
		if err := a.print("bucket/%s", r); err != nil {
			return err
		}
	} else if err := a.value(out.format, resp); err != nil {
		return err
	}
	access := resp.Claim.Access(r.access)
	if access == nil || access.Phase != claim.PhaseReady {
		a.say("access %s is not ready yet; follow it with: fairlead describe %s", r, r.claim)
		return nil
	}
	a.say("access %s is ready", r)
	a.next(ctx, c, r, *access)
	return nil
}

func newAccessList(a *app) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:               "list NAME",
		Aliases:           []string{"ls"},
		Short:             "List the accesses of a bucket",
		Long:              "List the accesses of a bucket: what each may do and how it fares.",
		Example:           "  fairlead access list photos\n  fairlead access list photos -o json",
		Args:              args(1, 1, "a NAME"),
		ValidArgsFunction: a.completeClaims,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := parseName(args[0])
			if err != nil {
				return err
			}
			c, err := a.client().Get(cmd.Context(), name)
			if err != nil {
				return err
			}
			return a.list(o, a.accessListing(c))
		},
	}
	o.addTo(cmd, listFormats()...)
	return cmd
}

func (a *app) accessListing(c claim.Claim) listing {
	l := listing{
		columns: []string{"ACCESS", "MODE", "PHASE", "EXPIRES", "AGE"},
		wide:    []string{"PREFIX", "GENERATION", "ACCOUNT", "DEVICE", "MESSAGE"},
		value:   c.Accesses,
		empty:   "bucket " + c.Name + " has no access; add one with: fairlead access add " + c.Name + "." + claim.DefaultName,
	}
	for _, x := range c.Accesses {
		r := ref{c.Name, x.Name}
		l.rows = append(l.rows, row{
			name:  "bucket/" + r.String(),
			cells: []string{x.Name, modeOf(x.Mode), string(x.Phase), a.until(x.Expiry), a.age(x.CreatedAt)},
			wide:  []string{dash(x.Prefix), count(x.Account.Generation), dash(x.Account.ID), dash(x.Device), dash(x.Message)},
		})
	}
	return l
}

// until says when t will be, in one number.
func (a *app) until(t time.Time) string {
	switch left := t.Sub(a.now()); {
	case t.IsZero():
		return "never"
	case left <= 0:
		return "expired"
	default:
		return "in " + short(left)
	}
}

func newAccessRotate(a *app) *cobra.Command {
	var grace, wait time.Duration
	cmd := &cobra.Command{
		Use:   "rotate NAME[.ACCESS]",
		Short: "Replace the key of an access",
		Long: `Make a new key, put it into the credential files in one step, and end the old
key once --grace is over. Programs that read the files again go on unharmed.`,
		Example:           "  fairlead access rotate photos --grace 10m\n  fairlead access rotate photos.viewer",
		Args:              args(1, 1, "NAME or NAME.ACCESS"),
		ValidArgsFunction: a.completeAccesses,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := parseRef(args[0])
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			done := a.waiting(ctx, "rotating "+r.String())
			_, err = a.client().RotateAccess(ctx, r.claim, r.access, control.RotateRequest{Grace: claim.Duration(grace)}, wait)
			done()
			if err != nil {
				return notReady(err, r.claim)
			}
			if grace > 0 {
				a.say("access %s has a new key; the old one works for another %s", r, short(grace))
			} else {
				a.say("access %s has a new key; the old one is dead", r)
			}
			return a.print("bucket/%s", r)
		},
	}
	cmd.Flags().Var(span{&grace}, "grace", "how long the old key goes on working: 10m, 24h, 7d")
	waitFlag(cmd, &wait)
	return cmd
}

func newAccessRevoke(a *app) *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "revoke NAME.ACCESS",
		Short: "End an access at once",
		Long: `End an access: its keys are dead when the command returns, presigned URLs too,
and its files and its CDI device are gone. The bucket and other accesses stay.`,
		Example:           "  fairlead access revoke photos.viewer\n  fairlead access revoke photos.default",
		Args:              args(1, 1, "NAME.ACCESS"),
		ValidArgsFunction: a.completeAccesses,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := parseRef(args[0])
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			done := a.waiting(ctx, "revoking "+r.String())
			err = a.client().RevokeAccess(ctx, r.claim, r.access, wait)
			done()
			if err != nil {
				return notReady(err, r.claim)
			}
			a.say("access %s is revoked", r)
			return a.print("bucket/%s", r)
		},
	}
	waitFlag(cmd, &wait)
	return cmd
}
