package creds

import (
	"bytes"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/cosi"
)

var update = flag.Bool("update", false, "write the golden files anew")

func s3Input() Input {
	return Input{
		Claim:  "photos",
		Access: "default",
		Info: cosi.BucketInfo{
			Metadata: cosi.BucketInfoMetadata{Name: "photos"},
			Spec: cosi.BucketInfoSpec{
				BucketName:         "bucket-7f3c",
				AuthenticationType: "Key",
				SecretS3: &cosi.SecretS3{
					Endpoint: "http://127.0.0.1:9000", Region: "eu-north-1",
					AccessKeyID: "AKIAEXAMPLE", AccessSecretKey: "s3cr3t/with+signs=",
				},
				Protocols: []string{"S3"},
			},
		},
	}
}

func azureInput(token string) Input {
	expiry := "2030-01-02T03:04:05Z"
	in := s3Input()
	in.Info.Spec.SecretS3 = nil
	in.Info.Spec.Protocols = []string{"Azure"}
	in.Info.Spec.SecretAzure = &cosi.SecretAzure{AccessToken: token, ExpiryTimeStamp: &expiry}
	return in
}

func gcsInput() Input {
	in := s3Input()
	in.Info.Spec.SecretS3 = nil
	in.Info.Spec.Protocols = []string{"GCS"}
	in.Info.Spec.SecretGCS = &cosi.SecretGCS{
		ProjectID: "my-project", ServiceAccount: "sa@my-project.iam", PrivateKeyName: "key-1",
		AccessKeyID: "GOOG1E", AccessSecret: "hmac", PrivateKey: "{\n  \"type\": \"service_account\"\n}\n",
	}
	return in
}

// TestRenderGolden holds every byte that an application reads.
func TestRenderGolden(t *testing.T) {
	withTemplate := s3Input()
	withTemplate.Templates = map[string]string{
		".s3cfg": "[default]\nbucket = {{.spec.bucketName}}\nkey = {{.spec.secretS3.accessKeyID}}\n",
	}
	iam := s3Input()
	iam.Info.Spec.AuthenticationType = "IAM"
	iam.Info.Spec.SecretS3.AccessKeyID, iam.Info.Spec.SecretS3.AccessSecretKey = "", ""
	for name, in := range map[string]Input{
		"s3":             withTemplate,
		"s3-iam":         iam,
		"azure-url":      azureInput("https://acct.blob.core.windows.net/bucket-7f3c?sv=2024&sig=a%2Fb"),
		"azure-token":    azureInput("?sv=2024&sig=a%2Fb"),
		"azure-emulator": azureInput("http://127.0.0.1:10000/devstoreaccount1/bucket-7f3c?sv=2024&sig=x"),
		"gcs":            gcsInput(),
	} {
		t.Run(name, func(t *testing.T) {
			files, err := Render(in)
			if err != nil {
				t.Fatal(err)
			}
			for file, content := range files {
				if slices.Contains(flatNames, file) && bytes.HasSuffix(content, []byte("\n")) {
					t.Errorf("%s ends with a newline", file)
				}
			}
			golden(t, name+".golden", dump(files, Pointers(in, "/run/fairlead/bucket/photos")))
		})
	}
}

func dump(files map[string][]byte, env []string) []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b.WriteString("-- " + name + " --\n")
		b.Write(files[name])
		b.WriteString("\n")
	}
	b.WriteString("-- pointers --\n" + strings.Join(env, "\n") + "\n")
	return b.Bytes()
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

func TestRenderRefuses(t *testing.T) {
	const secret = "do-not-print-me"
	for name, change := range map[string]func(*Input){
		"newline in key":       func(in *Input) { in.Info.Spec.SecretS3.AccessSecretKey = secret + "\n[x]" },
		"space in key id":      func(in *Input) { in.Info.Spec.SecretS3.AccessKeyID = secret + " #" },
		"NUL in region":        func(in *Input) { in.Info.Spec.SecretS3.Region = secret + "\x00" },
		"newline in bucket":    func(in *Input) { in.Info.Spec.BucketName = secret + "\n" },
		"user in endpoint":     func(in *Input) { in.Info.Spec.SecretS3.Endpoint = "https://me:" + secret + "@host" },
		"query in endpoint":    func(in *Input) { in.Info.Spec.SecretS3.Endpoint = "https://host/?k=" + secret },
		"endpoint is no URL":   func(in *Input) { in.Info.Spec.SecretS3.Endpoint = "http://[" + secret },
		"newline in SAS token": func(in *Input) { *in = azureInput("sig=" + secret + "\n") },
		"claim ends the line":  func(in *Input) { in.Claim = "a]\n[default" },
		"space in GCS key":     func(in *Input) { *in = gcsInput(); in.Info.Spec.SecretGCS.AccessSecret = secret + "\t" },
	} {
		t.Run(name, func(t *testing.T) {
			in := s3Input()
			change(&in)
			_, err := Render(in)
			if err == nil {
				t.Fatal("accepted")
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error holds the value: %v", err)
			}
		})
	}
}

func TestTemplates(t *testing.T) {
	for name, text := range map[string]string{
		"../x":                    "",
		"..":                      "",
		"..data":                  "",
		".":                       "",
		"":                        "",
		"a/b":                     "",
		"a\x00b":                  "",
		"a\nb":                    "",
		BucketInfoFile:            "",
		CredentialsFile:           "",
		"BUCKET_NAME":             "",
		"AZURE_STORAGE_SAS_TOKEN": "", // not of this bucket, but of others
		"syntax":                  "{{.spec",
		strings.Repeat("x", 256):  "",
	} {
		if err := CheckTemplates(map[string]string{name: text}); !errors.Is(err, ErrTemplate) {
			t.Errorf("CheckTemplates(%q: %q) = %v", name, text, err)
		}
	}
	for name, text := range map[string]string{
		"missing":      "{{.spec.nothing}}",
		"other bucket": "{{.spec.secretAzure.accessToken}}",
		"endless":      `{{define "a"}}{{.spec.bucketName}}{{template "a" .}}{{end}}{{template "a" .}}`,
	} {
		in := s3Input()
		in.Templates = map[string]string{name: text}
		if _, err := Render(in); !errors.Is(err, ErrTemplate) {
			t.Errorf("Render with template %q = %v", text, err)
		}
	}
}

func TestPrefix(t *testing.T) {
	for _, c := range []struct{ claim, access, want string }{
		{"photos", "default", "PHOTOS_"},
		{"photos", "", "PHOTOS_"},
		{"photos", "reader", "PHOTOS_READER_"},
		{"my-photos.v2", "read-only", "MY_PHOTOS_V2_READ_ONLY_"},
		{"3d", "default", "_3D_"},
	} {
		if got := Prefix(c.claim, c.access); got != c.want {
			t.Errorf("Prefix(%q, %q) = %q, want %q", c.claim, c.access, got, c.want)
		}
	}
}

// TestPointersHoldNoSecret: what Pointers gives stands in a CDI spec.
func TestPointersHoldNoSecret(t *testing.T) {
	for _, in := range []Input{s3Input(), gcsInput(), azureInput("sv=1&sig=hidden"), azureInput("https://a.blob.x/c?sig=hidden")} {
		env := strings.Join(Pointers(in, "/dir"), "\n")
		for _, secret := range []string{"AKIAEXAMPLE", "s3cr3t", "hidden", "hmac", "GOOG1E", "service_account"} {
			if strings.Contains(env, secret) {
				t.Errorf("pointers hold %q:\n%s", secret, env)
			}
		}
	}
}
