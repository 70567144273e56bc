package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/internal/claim"
)

// completionTime bounds how long a person waits after pressing the tab key.
const completionTime = 500 * time.Millisecond

// completeClaims offers the names of claims.
func (a *app) completeClaims(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, given, func(c claim.Claim) []string { return []string{c.Name} })
}

// completeAccesses offers NAME and NAME.ACCESS.
func (a *app) completeAccesses(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, given, func(c claim.Claim) (names []string) {
		for _, x := range c.Accesses {
			names = append(names, ref{c.Name, x.Name}.String())
		}
		return names
	})
}

func (a *app) complete(cmd *cobra.Command, given []string, names func(claim.Claim) []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	seen := map[string]bool{}
	for _, g := range given {
		seen[g] = true
	}
	var out []string
	claims, _ := a.client().Claims(ctx)
	for _, c := range claims {
		for _, n := range names(c) {
			if !seen[n] {
				out = append(out, n)
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeClasses(cmd *cobra.Command, _ []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	classes, _ := a.client().BucketClasses(ctx)
	for _, c := range classes {
		names = append(names, c.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeAccessClasses(cmd *cobra.Command, _ []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	classes, _ := a.client().AccessClasses(ctx)
	for _, c := range classes {
		names = append(names, c.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeDrivers(cmd *cobra.Command, _ []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	drivers, _ := a.client().Drivers(ctx)
	for _, d := range drivers {
		names = append(names, d.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
