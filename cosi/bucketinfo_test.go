package cosi

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

func grantOf(protocol string, pairs ...string) Grant {
	values := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	return Grant{AccountID: "a", Credentials: map[string]map[string]string{protocol: values}}
}

var s3Grant = grantOf("s3", "endpoint", "https://s3.example.com", "region", "eu-1", "accessKeyID", "AKIA", "accessSecretKey", "a/b+c<&>")

// The files are upstream's shape, byte for byte but for the added GCS.
func TestBucketInfoGolden(t *testing.T) {
	for name, tt := range map[string]struct {
		grant Grant
		auth  cosipb.AuthenticationType
	}{
		"s3":         {s3Grant, cosipb.AuthenticationType_Key},
		"s3-iam":     {grantOf("s3", "endpoint", "http://127.0.0.1:7070", "region", ""), cosipb.AuthenticationType_IAM},
		"azure":      {grantOf("azure", "accessToken", "https://acc.blob.core.windows.net/b?sv=1&sig=x", "expiryTs", "1767366245"), cosipb.AuthenticationType_Key},
		"azure-ever": {grantOf("azure", "accessToken", "sas"), cosipb.AuthenticationType_Key},
		"gcs":        {grantOf("gcs", "projectID", "p", "serviceAccount", "sa@p", "accessKeyID", "GOOG", "accessSecretKey", "s"), cosipb.AuthenticationType_Key},
	} {
		t.Run(name, func(t *testing.T) {
			info, err := tt.grant.BucketInfo("bc-1234", "bucket-1234", tt.auth)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(info)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "bucketinfo-"+name+".json")
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != strings.TrimSpace(string(want)) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Req: COSI-129, COSI-130
func TestBucketInfoRefuses(t *testing.T) {
	const secret = "s3cr3t"
	key := cosipb.AuthenticationType_Key
	s3 := func(change ...string) Grant {
		g := grantOf("s3", "endpoint", "https://e", "region", "", "accessKeyID", "A", "accessSecretKey", secret)
		for i := 0; i < len(change); i += 2 {
			if change[i+1] == "-" {
				delete(g.Credentials["s3"], change[i])
			} else {
				g.Credentials["s3"][change[i]] = change[i+1]
			}
		}
		return g
	}
	if _, err := s3().BucketInfo("n", "b", key); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		grant Grant
		auth  cosipb.AuthenticationType
		want  string
	}{
		{s3("endpoint", "-"), key, `credentials["s3"]: endpoint is missing`},
		{s3("region", "-"), key, `region is missing`},
		{s3("accessKeyID", "-"), key, `accessKeyID is missing`},
		{s3("accessSecretKey", ""), key, `accessSecretKey is empty`},
		{s3("endpoint", "rgw:80"), key, `endpoint is no http:// or https:// URL`},
		{s3("endpoint", "ftp://x"), key, `endpoint is no http:// or https:// URL`},
		{s3("endpoint", "https://"), key, `endpoint is no http:// or https:// URL`},
		{s3("a b", secret), key, `"a b" is no valid key`},
		{s3("", secret), key, `"" is no valid key`},
		{s3("k", secret+"\xff"), key, `"k" has a value that is no valid text`},
		{s3("k", secret+"\x00"), key, `"k" has a value that is no valid text`},
		{s3(), cosipb.AuthenticationType_UnknownAuthenticationType, "want Key or IAM"},
		{s3(), 7, "want Key or IAM"},
		{grantOf("azure", "expiryTs", "1"), key, "accessToken is missing"},
		{grantOf("azure", "accessToken", secret, "expiryTs", "tomorrow"), key, "expiryTs is neither"},
		{grantOf("azure", "accessToken", secret, "expiryTs", "-5"), key, "expiryTs is neither"},
		{grantOf("gcs", "projectID", "p"), key, "accessKeyID is missing"},
		{grantOf("gcs", "privateKey", secret, "accessKeyID", "G"), key, "accessSecretKey is missing"},
		{grantOf("swift", "k", secret), key, `credentials for ["swift"]; want s3, azure or gcs`},
		{Grant{}, key, "no credentials"},
	} {
		info, err := tt.grant.BucketInfo("n", "b", tt.auth)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
		if info.Spec.SecretS3 != nil {
			t.Errorf("%v: half a bucket info", err)
		}
	}
}

func TestParseExpiry(t *testing.T) {
	want := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for _, text := range []string{"1767366245", "2026-01-02T15:04:05Z", "2026-01-02T17:04:05+02:00"} {
		if got, err := parseExpiry(text); err != nil || !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("parseExpiry(%q) = %v, %v", text, got, err)
		}
	}
}

func FuzzParseExpiry(f *testing.F) {
	for _, seed := range []string{"1767366245", "2026-01-02T15:04:05Z", "-1", "0", "9223372036854775807", "9999-12-31T23:59:59-23:59", "0000-01-01T00:00:00+23:59", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseExpiry(text)
		if err != nil {
			return
		}
		if again, err := time.Parse(time.RFC3339, at.Format(time.RFC3339)); err != nil || again.Unix() != at.Unix() {
			t.Errorf("%q became %v, which does not read back: %v", text, at, err)
		}
	})
}

func FuzzBucketInfo(f *testing.F) {
	f.Add("s3", "endpoint", "https://e", "region", "")
	f.Add("azure", "accessToken", "t", "expiryTs", "1")
	f.Add("gcs", "privateKey", "{}", "projectID", "p")
	f.Add("file", "contents", awsFile, "path", "/x")
	f.Fuzz(func(t *testing.T, protocol, k1, v1, k2, v2 string) {
		info, err := grantOf(protocol, k1, v1, k2, v2).BucketInfo("n", "b", cosipb.AuthenticationType_IAM)
		if err == nil && len(info.Spec.Protocols) != 1 {
			t.Errorf("%+v", info)
		}
	})
}
