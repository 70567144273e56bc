package plugin_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/cosi/draftpb"
	"github.com/fairlead/fairlead/internal/plugin"
)

func grantAnswer(secrets map[string]string) *cosipb.DriverGrantBucketAccessResponse {
	return &cosipb.DriverGrantBucketAccessResponse{
		AccountId:   "ba-1",
		Credentials: map[string]*cosipb.CredentialDetails{"s3": {Secrets: secrets}},
	}
}

// Req: COSI-020, COSI-149, COSI-175
func TestRedact(t *testing.T) {
	for name, test := range map[string]struct {
		m    proto.Message
		want string
	}{
		"credentials":   {grantAnswer(map[string]string{"accessSecretKey": "hush"}), `{"account_id":"ba-1","credentials":{"s3":{"secrets":{"accessSecretKey":"***"}}}}`},
		"draft":         {&draftpb.ProvisionerGrantBucketAccessResponse{Principal: "p", CredentialsFileContents: "hush"}, `{"principal":"p","credentials_file_contents":"***"}`},
		"no secret":     {&cosipb.DriverCreateBucketRequest{Name: "b", Parameters: map[string]string{"k": "v w"}}, `{"name":"b","parameters":{"k":"v w"}}`},
		"csi_secret":    {marked(secretMessage(t, 1059, 1)), `{"token":"***","blob":"Kioq","list":["***"],"plain":"seen","inner":{"plain":"***"}}`},
		"cosi_secret":   {marked(secretMessage(t, 1115, 1)), `{"token":"***","blob":"Kioq","list":["***"],"plain":"seen","inner":{"plain":"***"}}`},
		"option false":  {marked(secretMessage(t, 1115, 0)), `{"token":"hush-token","blob":"aHVzaC1ieXRlcw==","list":["hush-list"],"plain":"seen","inner":{"plain":"hush-inner"}}`},
		"nil":           {nil, "{}"},
		"typed nil":     {(*cosipb.DriverGetInfoResponse)(nil), "{}"},
		"not printable": {&anypb.Any{TypeUrl: "x/y.Z", Value: []byte("hush")}, `{"unprintable":"google.protobuf.Any"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := plugin.Redact(test.m); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	m := grantAnswer(map[string]string{"accessSecretKey": "hush"})
	plugin.Redact(m)
	if m.Credentials["s3"].Secrets["accessSecretKey"] != "hush" {
		t.Error("Redact changed the message itself")
	}
}

// Req: COSI-149, COSI-175
func TestRedactError(t *testing.T) {
	const secret = `pa"s/s+w%rd`
	m := grantAnswer(map[string]string{"accessSecretKey": secret, "pin": "7", "longer": secret + "-and-more"})
	for name, text := range map[string]string{
		"plain":  "login with " + secret,
		"quoted": fmt.Sprintf("login with %q", secret),
		"query":  "GET /?k=" + url.QueryEscape(secret),
		"path":   "GET /" + url.PathEscape(secret),
		"base64": "Basic " + base64.StdEncoding.EncodeToString([]byte(secret)),
		"longer": "login with " + secret + "-and-more",
		"short":  "pin 7 is wrong",
	} {
		got := plugin.RedactError(errors.New(text), m).Error()
		if !strings.Contains(got, "***") || strings.Contains(got, "w%rd") || strings.Contains(got, "and-more") || strings.Contains(got, "7 ") {
			t.Errorf("%s: %q became %q", name, text, got)
		}
	}
	if err := plugin.RedactError(errors.New("in 17 ms"), m); err.Error() != "in 17 ms" {
		t.Errorf("a short secret was masked inside of a number: %v", err)
	}
	err := plugin.RedactError(status.Error(codes.PermissionDenied, "key "+secret), m, nil)
	if status.Code(err) != codes.PermissionDenied || strings.Contains(err.Error(), secret) {
		t.Errorf("status became %v", err)
	}
	wrapped := fmt.Errorf("grant: %w", errors.New(secret))
	if e := plugin.RedactError(wrapped, m); errors.Unwrap(e) != nil {
		t.Errorf("%v still unwraps to what shows the secret", e)
	}
	if plugin.RedactError(nil, m) != nil {
		t.Error("nil became an error")
	}
	if got := plugin.RedactText("hush-token hush-inner hush-bytes hush-list seen", marked(secretMessage(t, 1059, 1))); got != "*** *** *** *** seen" {
		t.Errorf("marked fields: %s", got)
	}
}

func FuzzMessage(f *testing.F) {
	for _, m := range []proto.Message{
		grantAnswer(map[string]string{"accessSecretKey": "AKIAhushhush"}),
		grantAnswer(map[string]string{"": "\n"}),
	} {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &cosipb.DriverGrantBucketAccessResponse{}
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		for _, c := range m.GetCredentials() {
			for k := range c.GetSecrets() {
				c.Secrets[k] = "hush-hush-hush"
			}
		}
		if line := plugin.Redact(m); strings.Contains(line, "hush-hush-hush") || strings.Contains(line, "\n") {
			t.Fatalf("Redact = %s", line)
		}
		if err := plugin.CheckMessage(m, someRules); err != nil && len(err.Error()) > 1024 {
			t.Fatalf("error of %d bytes", len(err.Error()))
		}
	})
}
