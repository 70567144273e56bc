package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/control"
	"github.com/fairlead/fairlead/internal/creds"
)

const execLong = `Run a command that uses claims. The command takes this process's place, so its
process id, its signals and its exit code are its own; as long as it runs the
claims are leased, and "fairlead release" refuses them.

The environment holds pointers to the credential files and no secret, so that a
rotation reaches a running program: AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE,
AWS_ENDPOINT_URL_S3, AWS_REGION, BUCKET_NAME, FAIRLEAD_BUCKET_INFO. With
--with-keys it holds the keys too, for a program that reads no files.

Of a device the environment says where its node is, DEVICE_PATH; it must be there.

Two buckets cannot share one AWS_CONFIG_FILE or BUCKET_NAME. With several names
the variables therefore have prefixes only, PHOTOS_BUCKET_NAME and
LOGS_BUCKET_NAME; for the access viewer, PHOTOS_VIEWER_BUCKET_NAME; for the device
modem, MODEM_DEVICE_PATH.`

func newExec(a *app) *cobra.Command {
	var withKeys bool
	cmd := &cobra.Command{
		Use:   "exec NAME[.ACCESS]... -- CMD [ARG...]",
		Short: "Run a command that uses claims",
		Long:  execLong,
		Example: `  fairlead exec photos -- aws s3 ls
  fairlead exec photos -- sh -c 'aws s3 cp a.jpg s3://$BUCKET_NAME/'
  fairlead exec photos logs -- sh -c 'echo $PHOTOS_BUCKET_NAME $LOGS_BUCKET_NAME'`,
		ValidArgsFunction: a.completeAccesses,
		RunE: func(cmd *cobra.Command, given []string) error {
			n := cmd.ArgsLenAtDash()
			if n < 1 || n == len(given) {
				return usage(cmd, "exec needs a NAME, then --, then a command")
			}
			refs, err := parseRefs(given[:n])
			if err != nil {
				return err
			}
			return a.exec(cmd.Context(), refs, given[n:], withKeys)
		},
	}
	cmd.Flags().BoolVar(&withKeys, "with-keys", false, "put the keys into the environment as well")
	return cmd
}

func parseRefs(args []string) ([]ref, error) {
	var refs []ref
	for _, arg := range args {
		r, err := parseRef(arg)
		if err != nil {
			return nil, err
		}
		if slices.Contains(refs, r) {
			return nil, claim.Errorf(claim.CodeInvalid, "%s is named twice", r)
		}
		refs = append(refs, r)
	}
	return refs, nil
}

// exec leases the claims and becomes the command. The leases belong to this
// process, which goes on under the same id; if the command cannot be started
// they end with it.
func (a *app) exec(ctx context.Context, refs []ref, command []string, withKeys bool) error {
	file, err := exec.LookPath(command[0])
	if err != nil {
		return cannotStart(command[0], err)
	}
	c := a.client()
	env := os.Environ()
	for _, r := range refs {
		leased, err := c.Lease(ctx, r.claim, control.LeaseRequest{Holder: holder(command[0])})
		if err != nil {
			return err
		}
		vars, err := variables(ctx, c, r, &leased, withKeys)
		if err != nil {
			return err
		}
		if len(refs) == 1 {
			env = withoutForeign(env, leased.Kind)
		} else {
			vars = prefixed(vars, creds.Prefix(r.claim, r.access))
		}
		env = merge(env, vars)
	}
	if len(refs) > 1 && terminal(a.err) {
		a.say("several claims: their variables begin with %s and so on", creds.Prefix(refs[0].claim, refs[0].access))
	}
	return cannotStart(command[0], syscall.Exec(file, command, env))
}

// holder is what a person is told of who holds a lease: the command's own name,
// at a length that is fit to print.
func holder(command string) string {
	const most = 64
	name := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, filepath.Base(command))
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "")
	}
	return name
}

// cannotStart uses the exit codes that shells and env(1) use.
func cannotStart(name string, err error) error {
	status := 126
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		status = 127
	}
	return &statusError{status, fmt.Errorf("start %q: %w", name, err)}
}

// variables are the pointers of one access, and its keys if asked for; of a
// device, where its node is. The plain names come first, then the same behind the
// prefix.
func variables(ctx context.Context, c *control.Client, r ref, of *claim.Claim, withKeys bool) ([]string, error) {
	if of.Device != nil {
		return deviceVariables(r, of)
	}
	got, err := c.Credentials(ctx, r.claim, r.access)
	if err != nil {
		return nil, err
	}
	in := creds.Input{Claim: r.claim, Access: r.access}
	if err := json.Unmarshal(got.Files[creds.BucketInfoFile], &in.Info); err != nil {
		return nil, fmt.Errorf("read %s of %s: %w", creds.BucketInfoFile, r, err)
	}
	env := creds.Pointers(in, got.Directory)
	if !withKeys {
		return env, nil
	}
	text, err := creds.Format(got.Files, "json")
	if err != nil {
		return nil, err
	}
	var keys map[string]string
	if err := json.Unmarshal(text, &keys); err != nil {
		return nil, fmt.Errorf("read keys of %s: %w", r, err)
	}
	prefix := creds.Prefix(r.claim, r.access)
	for k, v := range keys {
		env = append(env, k+"="+v, prefix+k+"="+v)
	}
	return env, nil
}

func deviceVariables(r ref, of *claim.Claim) ([]string, error) {
	switch {
	case r.access != claim.DefaultName:
		return nil, claim.Errorf(claim.CodeInvalid, "claim %q is for a device, which has no accesses", r.claim)
	case len(of.Device.Nodes) == 0:
		return nil, claim.Errorf(claim.CodeTimeout, "device %q is not ready: %s", r.claim, of.Message)
	}
	return creds.DevicePointers(r.claim, of.Device.Nodes[0].HostPath), nil
}

// prefixed keeps the variables behind the prefix.
func prefixed(vars []string, prefix string) []string {
	return slices.DeleteFunc(vars, func(kv string) bool { return !strings.HasPrefix(kv, prefix) })
}

// withoutForeign drops what would win over a bucket's credential files: keys and
// profiles of the caller's own.
func withoutForeign(env []string, kind claim.Kind) []string {
	if kind != claim.KindBucket {
		return env
	}
	foreign := []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN",
		"AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION",
	}
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		return slices.Contains(foreign, key)
	})
}

// merge sets vars over env.
func merge(env, vars []string) []string {
	set := make(map[string]bool, len(vars))
	for _, kv := range vars {
		key, _, _ := strings.Cut(kv, "=")
		set[key] = true
	}
	env = slices.DeleteFunc(env, func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		return set[key]
	})
	return append(env, vars...)
}
