package objectstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sys/unix"
)

// The test binary runs itself as a server that dies at a named step.
const (
	childEnv = "FAIRLEAD_TEST_CHILD" // the store's directory
	stepEnv  = "FAIRLEAD_TEST_STEP"  // STEP:N, the N-th time kills
	loadEnv  = "FAIRLEAD_TEST_LOAD"  // set: write objects until killed
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child runs the script, or the load, and says each thing that was acknowledged.
func child(dir string) error {
	if name, n, ok := strings.Cut(os.Getenv(stepEnv), ":"); ok {
		left, err := strconv.Atoi(n)
		if err != nil {
			return err
		}
		var mu sync.Mutex
		step = func(s string) {
			mu.Lock()
			defer mu.Unlock()
			if s != name {
				return
			}
			if left--; left == 0 {
				unix.Kill(os.Getpid(), unix.SIGKILL)
				select {} // it takes a moment to die
			}
		}
	}
	ctx := context.Background()
	s, err := Open(ctx, Config{Root: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	if os.Getenv(loadEnv) != "" {
		return load8(ctx, s)
	}
	for i, op := range script() {
		if err := op.do(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", op.name, err)
		}
		fmt.Println(i)
	}
	return s.Close()
}

type scripted struct {
	name string
	do   func(context.Context, *Store) error
}

// script goes through everything that writes; each step may be repeated.
func script() []scripted {
	object := func(bucket, key, body string) scripted {
		return scripted{"put " + bucket + "/" + key, func(ctx context.Context, s *Store) error {
			c, err := s.Grant(ctx, GrantOptions{Bucket: bucket, Name: "on-" + bucket})
			if err != nil {
				return err
			}
			return put(ctx, client(c), bucket, key, body)
		}}
	}
	account := func(bucket, name string) scripted {
		return scripted{"grant " + name, func(ctx context.Context, s *Store) error {
			_, err := s.Grant(ctx, GrantOptions{Bucket: bucket, Name: name})
			return err
		}}
	}
	bucket := func(name string, o BucketOptions) scripted {
		return scripted{"create " + name, func(ctx context.Context, s *Store) error { return s.CreateBucket(ctx, name, o) }}
	}
	remove := func(name string) scripted {
		return scripted{"delete " + name, func(ctx context.Context, s *Store) error { return s.DeleteBucket(ctx, name, true) }}
	}
	return []scripted{
		bucket("alpha", BucketOptions{Versioning: true}),
		bucket("beta", BucketOptions{Quota: 1 << 20}),
		account("alpha", "on-alpha"), account("beta", "on-beta"), account("alpha", "extra"),
		object("beta", "dir/k", "one"), object("beta", "dir/k", "two"),
		object("alpha", "k", "v1"), object("alpha", "k", "v2"),
		{"upload", multipart},
		{"delete object", func(ctx context.Context, s *Store) error {
			c, err := s.Grant(ctx, GrantOptions{Bucket: "beta", Name: "on-beta"})
			if err != nil {
				return err
			}
			_, err = client(c).DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String("beta"), Key: aws.String("dir/k")})
			return err
		}},
		{"revoke", func(ctx context.Context, s *Store) error {
			if a := s.account("extra"); a != nil {
				return s.Revoke(ctx, "alpha", a.ID)
			}
			return nil
		}},
		remove("alpha"),
		bucket("gamma", BucketOptions{}),
		remove("beta"),
	}
}

func multipart(ctx context.Context, s *Store) error {
	cred, err := s.Grant(ctx, GrantOptions{Bucket: "beta", Name: "on-beta"})
	if err != nil {
		return err
	}
	c, b, k, n := client(cred), aws.String("beta"), aws.String("mp"), aws.Int32(1)
	up, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: b, Key: k})
	if err != nil {
		return err
	}
	p, err := c.UploadPart(ctx, &s3.UploadPartInput{Bucket: b, Key: k, UploadId: up.UploadId, PartNumber: n, Body: strings.NewReader("part")})
	if err != nil {
		return err
	}
	_, err = c.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: b, Key: k, UploadId: up.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{ETag: p.ETag, PartNumber: n}}}})
	return err
}

// state is all that can be seen of a store: buckets, accounts and objects.
func state(t *testing.T, s *Store) string {
	t.Helper()
	var lines []string
	s.mu.RLock()
	for name, b := range s.buckets {
		lines = append(lines, fmt.Sprintf("bucket %s %+v deleting=%v", name, b.Options, b.Deleting))
	}
	for name := range s.byName {
		lines = append(lines, "account "+name)
	}
	s.mu.RUnlock()
	root := s.bucketsDir()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == tmpDir:
			return filepath.SkipDir
		case d.IsDir():
			if filepath.Dir(path) == root && s.bucket(d.Name()) == nil {
				lines = append(lines, "stray directory "+d.Name())
			}
			return nil
		}
		body, err := os.ReadFile(path)
		lines = append(lines, fmt.Sprintf("object %s %q", strings.TrimPrefix(path, root), body))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// run starts the test binary as a child and returns how many steps of the
// script were acknowledged, and whether it was killed.
func run(t *testing.T, dir, cut string) (acked int, killed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir, stepEnv+"="+cut)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ProcessState.ExitCode() != -1) {
		t.Fatalf("child cut at %q: %v\n%s", cut, err, stderr.String())
	}
	return strings.Count(string(out), "\n"), err != nil
}

// TestKilledAtEveryStep cuts a server at each step of all that writes, and
// restarts it: the state is that before the step in doubt or after it, repeating
// that step converges, and nothing is left over.
// Req: COSI-090
func TestKilledAtEveryStep(t *testing.T) {
	ctx := t.Context()
	golden := []string{""}
	s := openStore(t, storeDir(t))
	for _, op := range script() {
		if err := op.do(ctx, s); err != nil {
			t.Fatalf("%s: %v", op.name, err)
		}
		golden = append(golden, state(t, s))
	}
	closeOnce()
	for _, name := range []string{"bucket recorded", "bucket staged", "bucket made", "account recorded", "object written",
		"upload changed", "account revoked", "bucket deleting", "bucket discarded", "bucket deleted"} {
		for n := 1; ; n++ {
			cut := fmt.Sprintf("%s:%d", name, n)
			dir := storeDir(t)
			acked, killed := run(t, dir, cut)
			if !killed {
				if n == 1 {
					t.Errorf("nothing ever reached step %q", name)
				}
				break
			}
			s := openStore(t, dir)
			if got := state(t, s); got != golden[acked] && got != golden[acked+1] {
				t.Errorf("cut at %s after %d steps, the state is\n%s\nwant\n%s\nor\n%s", cut, acked, got, golden[acked], golden[acked+1])
			}
			for _, op := range script()[acked:] {
				if err := op.do(ctx, s); err != nil {
					t.Errorf("cut at %s, then %s: %v", cut, op.name, err)
				}
			}
			if got := state(t, s); got != golden[len(golden)-1] {
				t.Errorf("cut at %s, in the end the state is\n%s\nwant\n%s", cut, got, golden[len(golden)-1])
			}
			closeOnce()
			s = openStore(t, dir) // empties the trash that the close cut short
			left, _ := os.ReadDir(s.stagingDir())
			if len(left) > 0 {
				t.Errorf("cut at %s, left in staging: %v", cut, left)
			}
			eventually(t, "the trash is empty", func() bool {
				left, err := os.ReadDir(s.trashDir())
				return err == nil && len(left) == 0
			})
			closeOnce()
		}
	}
}

// load8 writes objects from eight clients and says each that was acknowledged.
func load8(ctx context.Context, s *Store) error {
	if err := s.CreateBucket(ctx, "load", BucketOptions{Versioning: true}); err != nil {
		return err
	}
	cred, err := s.Grant(ctx, GrantOptions{Bucket: "load", Name: "load"})
	if err != nil {
		return err
	}
	fmt.Println(cred.AccessKeyID, cred.AccessSecretKey)
	failed := make(chan error)
	for w := range 8 {
		go func() {
			c := client(cred)
			for i := 0; ; i++ {
				key := fmt.Sprintf("w%d/k%d", w, i/2) // each twice: the second replaces
				if err := put(ctx, c, "load", key, loadBody(key)); err != nil {
					failed <- err
				}
				fmt.Println(key)
			}
		}()
	}
	return <-failed
}

func loadBody(key string) string { return strings.Repeat(key+"\n", 2000) }

// TestKilledUnderLoad kills a busy server and looks for every object that it
// acknowledged; whatever else is listed is whole too.
func TestKilledUnderLoad(t *testing.T) {
	ctx := t.Context()
	dir := storeDir(t)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir, loadEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	access, secret, _ := strings.Cut(lines.Text(), " ")
	acked := map[string]bool{}
	for len(acked) < 200 && lines.Scan() {
		acked[lines.Text()] = true
	}
	cmd.Process.Kill()
	for lines.Scan() { // acknowledged before it died
		acked[lines.Text()] = true
	}
	cmd.Wait()
	s := openStore(t, dir)
	c := client(Credentials{Endpoint: s.Endpoint(), Region: s.Region(), AccessKeyID: access, AccessSecretKey: secret})
	for key := range acked {
		mustGet(t, c, "load", key, loadBody(key))
	}
	pages := s3.NewListObjectsV2Paginator(c, &s3.ListObjectsV2Input{Bucket: aws.String("load")})
	listed := 0
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Contents {
			listed++
			mustGet(t, c, "load", *o.Key, loadBody(*o.Key))
		}
	}
	if listed < len(acked) || len(acked) < 200 {
		t.Errorf("%d listed of %d acknowledged", listed, len(acked))
	}
	left, err := os.ReadDir(filepath.Join(s.bucketDir("load"), tmpDir))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}
