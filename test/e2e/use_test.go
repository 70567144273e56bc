package e2e

import (
	"strings"
	"testing"
)

// TestUnmodifiedPrograms: what people have already reads and writes a bucket
// from the files that Fairlead hands over, and stops when the claim is released.
func TestUnmodifiedPrograms(t *testing.T) {
	t.Parallel()
	needs(t, "s3cmd")
	h := newHost(t)
	d := h.up()
	h.ok("claim", "bucket", "photos")
	old := h.key("photos")

	// s3cmd reads no AWS file but takes the two keys from the environment.
	host := strings.TrimPrefix(old.endpoint, "http://")
	s3cmd := func(args ...string) string {
		return h.ok(append([]string{"exec", "--with-keys", "photos", "--", "s3cmd", "--config=/dev/null", "--no-ssl",
			"--host=" + host, "--host-bucket=" + host}, args...)...)
	}
	write(t, h.run+"/up", strings.Repeat("0123456789abcdef", 6<<16), 0o600) // 6 MiB: two parts
	s3cmd("--multipart-chunk-size-mb=5", "put", h.run+"/up", "s3://"+old.bucket+"/dir/big")
	if out := s3cmd("ls", "s3://"+old.bucket+"/dir/"); !strings.Contains(out, "6291456") {
		t.Errorf("s3cmd ls: %s", out)
	}
	s3cmd("get", "s3://"+old.bucket+"/dir/big", h.run+"/down")
	if read(t, h.run, "down") != read(t, h.run, "up") {
		t.Error("what s3cmd fetches is not what it stored")
	}

	// The AWS SDK is told of two files and reads them by itself.
	sdk, err := s3Program()
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct{ want, args string }{
		{"ok stored", "put dir/small text"}, {"ok text", "get dir/small"},
		{"ok dir/big dir/small", "list"},
	} {
		argv := append([]string{"exec", "photos", "--", sdk}, strings.Fields(try.args)...)
		if got := strings.TrimSpace(h.ok(argv...)); got != try.want {
			t.Errorf("%s: %q, want %q", try.args, got, try.want)
		}
	}

	// After the release the key is dead and the data is there.
	id := h.get("photos").BucketID
	h.ok("release", "photos")
	old.dead(t)
	h.ok("claim", "bucket", "again", "--existing", id)
	if text, err := h.key("again").get(t.Context(), "dir/small"); text != "text" {
		t.Errorf("kept data: %q, %v", text, err)
	}
	d.stop()
}

// TestRepeatsChangeNothing: whatever is asked twice is done once, over a
// restart of the daemon too.
func TestRepeatsChangeNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.up()
	manifest := h.run + "/all.yaml"
	write(t, manifest, `apiVersion: objectstorage.k8s.io/v1alpha1
kind: BucketClass
metadata: {name: fast}
driverName: objects.fairlead.dev
deletionPolicy: Retain
parameters: {quota: 1Gi}
---
apiVersion: objectstorage.k8s.io/v1alpha1
kind: BucketClaim
metadata: {name: photos}
spec: {bucketClassName: fast, protocols: [S3]}
---
apiVersion: objectstorage.k8s.io/v1alpha1
kind: BucketAccessClass
metadata: {name: readers}
driverName: objects.fairlead.dev
authenticationType: Key
parameters: {mode: ReadOnly}
---
apiVersion: objectstorage.k8s.io/v1alpha1
kind: BucketAccess
metadata: {name: viewer}
spec: {bucketClaimName: photos, bucketAccessClassName: readers, protocol: S3, credentialsSecretName: s}
`, 0o600)
	states := []string{"created", "unchanged"}
	ask := func(want string) {
		t.Helper()
		out := h.ok("apply", "-f", manifest)
		if n := strings.Count(out, " "+want+"\n"); n != 4 {
			t.Errorf("apply: %d of 4 %s:\n%s", n, want, out)
		}
	}
	for _, want := range states {
		ask(want)
	}
	h.ok("claim", "bucket", "logs", "--param", "quota=1Gi")
	before, key := h.get("photos"), h.key("photos.viewer")
	d.stop()

	h.up()
	ask("unchanged")
	if out := h.ok("claim", "bucket", "logs", "--param", "quota=1Gi", "-o", "json"); !strings.Contains(out, `"result": "exists"`) {
		t.Errorf("claim again: %s", out)
	}
	after := h.get("photos")
	if before.UID != after.UID || before.BucketID != after.BucketID || before.Accesses[0].Account != after.Accesses[0].Account {
		t.Errorf("the claim is another after a restart:\n%+v\n%+v", before, after)
	}
	if got := h.key("photos.viewer"); got != key {
		t.Errorf("the key is another after a restart: %s and %s", key.id, got.id)
	}
}
