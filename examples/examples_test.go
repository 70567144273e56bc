// Package examples is tried here, so that what people copy works.
package examples

import (
	"os"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/internal/creds"
	"github.com/fairlead/fairlead/internal/manifest"
)

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestManifest(t *testing.T) {
	set, err := manifest.Parse(manifest.Source{Name: "bucket.yaml", Text: read(t, "bucket.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	if len(set.BucketClasses) != 1 || len(set.Claims) != 1 || len(set.AccessClasses) != 1 || len(set.Accesses) != 1 {
		t.Errorf("want one of each kind, got %+v", set)
	}
}

func TestTemplates(t *testing.T) {
	in := creds.Input{Claim: "photos", Access: "default", Templates: map[string]string{}}
	in.Info.Spec.BucketName = "photos-1"
	in.Info.Spec.SecretS3 = &cosi.SecretS3{Endpoint: "https://s3.example.com:9820", Region: "us-east-1", AccessKeyID: "ID", AccessSecretKey: "SECRET"}
	for _, file := range []string{"s3cfg", "rclone.conf", "app.json"} {
		in.Templates[file] = string(read(t, file+".tmpl"))
	}
	files, err := creds.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	for file, wants := range map[string][]string{
		"s3cfg":       {"host_base = s3.example.com:9820\n", "use_https = True\n", "secret_key = SECRET\n"},
		"rclone.conf": {"[bucket]\n", "endpoint = https://s3.example.com:9820\n"},
		"app.json":    {`"bucket": "photos-1"`, `"authorization": "Basic SUQ6U0VDUkVU"`},
	} {
		for _, want := range wants {
			if !strings.Contains(string(files[file]), want) {
				t.Errorf("%s lacks %q:\n%s", file, want, files[file])
			}
		}
	}
}
