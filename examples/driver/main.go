// Command driver is a whole COSI driver in one file: buckets and accounts of an
// imaginary object store, kept in a JSON file. Where it changes its records, a
// real driver calls its store. docs/guides/write-a-driver.md walks through it.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/cosi/cosipb"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "driver:", err)
	}
	os.Exit(cosi.ExitCode(err))
}

func run(ctx context.Context) error {
	d, err := open(cmp.Or(os.Getenv("EXAMPLE_STATE"), "state.json"))
	if err != nil {
		return err
	}
	return cosi.Serve(ctx, "objects.example.com", d)
}

type driver struct {
	file  string
	mu    sync.Mutex // cosi.Serve calls for different buckets at the same time
	state state
}

// state is what the store knows; each change is on disk before it is answered.
type state struct {
	Buckets  map[string]bucket  // by name, which is also the id
	Accounts map[string]account // by id
}

type bucket struct{ Tier string }

type account struct{ Bucket, Name, Mode, Secret string }

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$`)

// DriverCreateBucket: the same name and parameters give the same bucket, other
// parameters are refused.
func (d *driver) DriverCreateBucket(_ context.Context, in *cosipb.DriverCreateBucketRequest) (*cosipb.DriverCreateBucketResponse, error) {
	if !bucketName.MatchString(in.GetName()) {
		return nil, status.Errorf(codes.InvalidArgument, "bucket name %q: want 3 to 63 lower-case letters, digits and dashes", in.GetName())
	}
	tier, err := choose(in.GetParameters(), "tier", "standard", "archive")
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	want := bucket{tier}
	if have, ok := d.state.Buckets[in.GetName()]; ok && have != want {
		return nil, status.Errorf(codes.AlreadyExists, "bucket %q exists already, with tier %s", in.GetName(), have.Tier)
	}
	if err := d.save(func(s *state) { s.Buckets[in.GetName()] = want }); err != nil {
		return nil, err
	}
	return &cosipb.DriverCreateBucketResponse{
		BucketId:   in.GetName(),
		BucketInfo: &cosipb.Protocol{Type: &cosipb.Protocol_S3{S3: &cosipb.S3{Region: "example", SignatureVersion: cosipb.S3SignatureVersion_S3V4}}},
	}, nil
}

// DriverDeleteBucket: one that is gone is deleted.
func (d *driver) DriverDeleteBucket(_ context.Context, in *cosipb.DriverDeleteBucketRequest) (*cosipb.DriverDeleteBucketResponse, error) {
	if err := known(in.GetDeleteContext(), ""); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.save(func(s *state) {
		delete(s.Buckets, in.GetBucketId())
		maps.DeleteFunc(s.Accounts, func(_ string, a account) bool { return a.Bucket == in.GetBucketId() })
	})
	return &cosipb.DriverDeleteBucketResponse{}, err
}

// DriverGrantBucketAccess: a name is one account, however often it is asked for.
func (d *driver) DriverGrantBucketAccess(_ context.Context, in *cosipb.DriverGrantBucketAccessRequest) (*cosipb.DriverGrantBucketAccessResponse, error) {
	if in.GetAuthenticationType() != cosipb.AuthenticationType_Key {
		return nil, status.Error(codes.InvalidArgument, "authentication_type: this store knows keys only")
	}
	mode, err := choose(in.GetParameters(), "mode", "ReadWrite", "ReadOnly")
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.state.Buckets[in.GetBucketId()]; !ok {
		return nil, status.Errorf(codes.NotFound, "there is no bucket %q", in.GetBucketId())
	}
	for id, have := range d.state.Accounts {
		if have.Name != in.GetName() {
			continue
		}
		if have.Bucket != in.GetBucketId() || have.Mode != mode {
			return nil, status.Errorf(codes.AlreadyExists, "account %q exists already, for other access", in.GetName())
		}
		return granted(id, have), nil
	}
	id, a := "EX"+rand.Text()[:18], account{in.GetBucketId(), in.GetName(), mode, rand.Text() + rand.Text()[:14]}
	if err := d.save(func(s *state) { s.Accounts[id] = a }); err != nil {
		return nil, err
	}
	return granted(id, a), nil
}

func granted(id string, a account) *cosipb.DriverGrantBucketAccessResponse {
	return &cosipb.DriverGrantBucketAccessResponse{
		AccountId: id,
		Credentials: map[string]*cosipb.CredentialDetails{"s3": {Secrets: map[string]string{
			"endpoint": "https://objects.example.com", "region": "example",
			"accessKeyID": id, "accessSecretKey": a.Secret,
		}}},
	}
}

// DriverRevokeBucketAccess: an account that is gone is revoked.
func (d *driver) DriverRevokeBucketAccess(_ context.Context, in *cosipb.DriverRevokeBucketAccessRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
	if err := known(in.GetRevokeAccessContext(), ""); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ok := d.state.Accounts[in.GetAccountId()]
	if ok && a.Bucket != in.GetBucketId() {
		return nil, status.Errorf(codes.InvalidArgument, "account %q is for another bucket", in.GetAccountId())
	}
	err := d.save(func(s *state) { delete(s.Accounts, in.GetAccountId()) })
	return &cosipb.DriverRevokeBucketAccessResponse{}, err
}

// known refuses keys other than this one: a misspelt key that is passed over in
// silence is a bucket of another tier than its owner thinks.
func known(m map[string]string, key string) error {
	for k := range m {
		if k != key {
			return status.Errorf(codes.InvalidArgument, "unknown key %q", k)
		}
	}
	return nil
}

// choose reads the one parameter of a call; the first value is the default.
func choose(m map[string]string, key string, values ...string) (string, error) {
	if err := known(m, key); err != nil {
		return "", err
	}
	v, ok := m[key]
	if !ok {
		return values[0], nil
	}
	if !slices.Contains(values, v) {
		return "", status.Errorf(codes.OutOfRange, "%s %q: want one of %v", key, v, values)
	}
	return v, nil
}

func open(file string) (*driver, error) {
	d := &driver{file: file, state: state{map[string]bucket{}, map[string]account{}}}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &d.state)
	}
	return d, err
}

// save changes a copy of the state, makes it durable and only then takes it
// for true: a driver that is killed has answered nothing that it forgets.
func (d *driver) save(change func(*state)) error {
	next := state{maps.Clone(d.state.Buckets), maps.Clone(d.state.Accounts)}
	change(&next)
	text, err := json.Marshal(next)
	if err == nil {
		err = write(d.file, text)
	}
	if err != nil {
		return status.Errorf(codes.Internal, "save state: %v", err)
	}
	d.state = next
	return nil
}

// write replaces a file in one step: aside, synced, renamed, directory synced.
func write(file string, text []byte) error {
	f, err := os.OpenFile(file+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
