package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/internal/claim"
)

func newGet(a *app) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use:     "get [NAME... | drivers | classes]",
		Aliases: []string{"list", "ls"},
		Short:   "List claims, drivers or classes",
		Long: `List the claims, or those named; or the drivers; or the bucket classes and
bucket access classes. JSON and YAML of one NAME are that claim; of anything
else, a list. A claim that is named like one of the words is bucket/drivers, or
device/drivers.`,
		Example: `  fairlead get
  fairlead get photos -o json
  fairlead get -o name
  fairlead get drivers -o wide`,
		ValidArgsFunction: a.completeClaims,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := a.listingOf(cmd.Context(), args)
			if err != nil {
				return err
			}
			return a.list(o, l)
		},
	}
	o.addTo(cmd, listFormats()...)
	return cmd
}

func (a *app) listingOf(ctx context.Context, args []string) (listing, error) {
	if len(args) == 1 {
		switch args[0] {
		case "drivers":
			return a.drivers(ctx)
		case "classes":
			return a.classes(ctx)
		}
	}
	if len(args) == 0 {
		claims, err := a.client().Claims(ctx)
		return a.claimListing(claims), err
	}
	var claims []claim.Claim
	for _, arg := range args {
		name, err := parseName(arg)
		if err != nil {
			return listing{}, err
		}
		c, err := a.client().Get(ctx, name)
		if err != nil {
			return listing{}, err
		}
		claims = append(claims, c)
	}
	l := a.claimListing(claims)
	if len(claims) == 1 {
		l.value = claims[0]
	}
	return l, nil
}

func (a *app) claimListing(claims []claim.Claim) listing {
	if claims == nil {
		claims = []claim.Claim{} // an empty list is [] and not null
	}
	l := listing{
		columns: []string{"NAME", "KIND", "PHASE", "CLASS", "ACCESSES", "LEASES", "AGE"},
		wide:    []string{"DRIVER", "TARGET", "DELETION", "MESSAGE"},
		value:   claims,
		empty:   "no claims; make one with: fairlead claim bucket NAME",
	}
	for _, c := range claims {
		l.rows = append(l.rows, row{
			name:  string(c.Kind) + "/" + c.Name,
			cells: []string{c.Name, string(c.Kind), string(c.Phase), dash(c.Class), count(len(c.Accesses)), count(len(c.Leases)), a.age(c.CreatedAt)},
			wide:  []string{dash(c.Driver), dash(target(&c)), dash(string(c.DeletionPolicy)), dash(c.Message)},
		})
	}
	return l
}

// target is what a claim stands for: a bucket's id, or the devices.
func target(c *claim.Claim) string {
	if c.Device != nil {
		return strings.Join(c.Device.Found, ",")
	}
	return or(c.BucketID, c.Existing)
}

func (a *app) drivers(ctx context.Context) (listing, error) {
	drivers, err := a.client().Drivers(ctx)
	if drivers == nil {
		drivers = []claim.Driver{}
	}
	l := listing{
		columns: []string{"NAME", "STATE", "IDENTITY", "PROTOCOL", "RESTARTS"},
		wide:    []string{"PID", "ENDPOINT", "MESSAGE"},
		value:   drivers,
	}
	for _, d := range drivers {
		l.rows = append(l.rows, row{
			name:  "driver/" + d.Name,
			cells: []string{d.Name, dash(d.State), dash(d.Identity), dash(d.Protocol), count(d.Restarts)},
			wide:  []string{count(d.PID), or(d.Endpoint, "supervised"), dash(d.Message)},
		})
	}
	return l, err
}

// classList is what "get classes -o json" prints.
type classList struct {
	BucketClasses []claim.BucketClass `json:"bucketClasses"`
	AccessClasses []claim.AccessClass `json:"bucketAccessClasses"`
}

func (a *app) classes(ctx context.Context) (listing, error) {
	v := classList{BucketClasses: []claim.BucketClass{}, AccessClasses: []claim.AccessClass{}}
	buckets, err := a.client().BucketClasses(ctx)
	if err != nil {
		return listing{}, err
	}
	accesses, err := a.client().AccessClasses(ctx)
	if err != nil {
		return listing{}, err
	}
	v.BucketClasses = append(v.BucketClasses, buckets...)
	v.AccessClasses = append(v.AccessClasses, accesses...)
	l := listing{
		columns: []string{"KIND", "NAME", "DRIVER", "POLICY"},
		wide:    []string{"PARAMETERS"},
		value:   v,
		empty:   "no classes",
	}
	for _, c := range buckets {
		l.rows = append(l.rows, row{
			name:  "bucketclass/" + c.Name,
			cells: []string{"BucketClass", c.Name, c.Driver, string(c.DeletionPolicy)},
			wide:  []string{dash(joined(c.Parameters))},
		})
	}
	for _, c := range accesses {
		l.rows = append(l.rows, row{
			name:  "bucketaccessclass/" + c.Name,
			cells: []string{"BucketAccessClass", c.Name, c.Driver, string(c.Authentication)},
			wide:  []string{dash(joined(c.Parameters))},
		})
	}
	return l, nil
}

func count(n int) string { return strconv.Itoa(n) }
