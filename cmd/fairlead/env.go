package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/creds"
)

func newEnv(a *app) *cobra.Command {
	format := creds.Formats[0]
	cmd := &cobra.Command{
		Use:   "env NAME[.ACCESS]",
		Short: "Print the credentials of a bucket for a program to read",
		Long: `Print the credentials of a bucket. A device has none; "fairlead exec" says where
its node is. The output holds the secret key: do not print
it into logs. "fairlead exec" hands over pointers to files instead.

  shell   export KEY='value', for eval in a POSIX shell
  dotenv  KEY=value, for --env-file and dotenv libraries
  json    one object of the values
  aws     one AWS config file with the credentials in it`,
		Example: `  eval "$(fairlead env photos)"
  fairlead env photos.viewer --format dotenv > viewer.env
  fairlead env photos --format json`,
		Args:              args(1, 1, "NAME or NAME.ACCESS"),
		ValidArgsFunction: a.completeAccesses,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := parseRef(args[0])
			if err != nil {
				return err
			}
			c, err := a.client().Credentials(cmd.Context(), r.claim, r.access)
			if err != nil {
				return err
			}
			text, err := creds.Format(c.Files, format)
			if err != nil {
				return claim.Errorf(claim.CodeInvalid, "print credentials of %s: %v", r, err)
			}
			if _, err := a.out.Write(text); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().VarP(choice{&format, creds.Formats}, "format", "f", "how to print")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(creds.Formats, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
