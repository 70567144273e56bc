package creds

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/cosi"
)

func TestTemplateFunctions(t *testing.T) {
	in := Input{Claim: "photos", Access: "default", Templates: map[string]string{
		"s3cfg": "host = {{host .spec.secretS3.endpoint}}\nhttps = {{tls .spec.secretS3.endpoint}}\nkey = {{base64 .spec.secretS3.accessKeyID}}\nname = {{json .spec.bucketName}}\n",
	}}
	in.Info = cosi.BucketInfo{Spec: cosi.BucketInfoSpec{BucketName: "b", Protocols: []string{"S3"}, AuthenticationType: "Key",
		SecretS3: &cosi.SecretS3{Endpoint: "https://s3.example.com:9820/x", Region: "r", AccessKeyID: "AK", AccessSecretKey: "SECRET"}}}
	files, err := Render(in)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(files["s3cfg"]), "host = s3.example.com:9820\nhttps = true\nkey = QUs=\nname = \"b\"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, text := range []string{
		"{{host .spec.secretS3.accessSecretKey}}",
		"{{range .spec.secretS3.accessSecretKey}}{{end}}", // text/template shows what it cannot range over
		`{{range printf "<%s>" .spec.secretS3.accessSecretKey}}{{end}}`,
		"{{index .spec.secretS3.accessSecretKey 99}}",
		"{{call .spec.secretS3.accessSecretKey}}",
	} {
		in.Templates = map[string]string{"x": text}
		if _, err := Render(in); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v: want an error without the secret", text, err)
		}
	}
}
