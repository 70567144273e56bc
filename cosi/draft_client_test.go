package cosi

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/cosi/draftpb"
)

const awsFile = "[default]\naws_access_key_id = AKIA\naws_secret_access_key = s3cr3t\n"

func draftOnly(contents, path string) answers {
	return answers{
		"ProvisionerGetInfo":      always(&draftpb.ProvisionerGetInfoResponse{ProvisionerIdentity: "old driver"}),
		"ProvisionerCreateBucket": always(&draftpb.ProvisionerCreateBucketResponse{}),
		"ProvisionerDeleteBucket": always(&draftpb.ProvisionerDeleteBucketResponse{}),
		"ProvisionerGrantBucketAccess": always(&draftpb.ProvisionerGrantBucketAccessResponse{
			Principal: "principal-1", CredentialsFileContents: contents, CredentialsFilePath: path,
		}),
		"ProvisionerRevokeBucketAccess": always(&draftpb.ProvisionerRevokeBucketAccessResponse{}),
	}
}

// Req: COSI-109, DRAFT-015, DRAFT-017, DRAFT-018, DRAFT-019, DRAFT-020, DRAFT-021, DRAFT-023, DRAFT-025, DRAFT-026, DRAFT-030, DRAFT-033, DRAFT-034, DRAFT-035
func TestDraftOnlyPlugin(t *testing.T) {
	path := scriptedSocket(t)
	p := play(t, path, draftOnly(awsFile, ""))
	c, ctx := dialScript(t, path), scriptedContext(t, 30*time.Second)
	if c.Name() != "old driver" || c.Protocol() != ProtocolDraft {
		t.Errorf("got %q %q", c.Name(), c.Protocol())
	}
	place := map[string]string{"region": "eu", "zone": "eu-1", "other": "x"}
	create := maps.Clone(place)
	create["anonymousAccess"] = "ReadOnly"
	grant := maps.Clone(place)
	maps.Copy(grant, map[string]string{"accessPolicy": "rw", "endpoint": "https://s3.example.com"})

	b, err := c.CreateBucket(ctx, "b", create)
	if err != nil || b.ID != "b" || b.Info != nil {
		t.Fatalf("CreateBucket: %v %v", b, err)
	}
	g, err := c.GrantAccess(ctx, GrantRequest{BucketID: "b", Account: "a", Authentication: cosipb.AuthenticationType_Key, Parameters: grant})
	if err != nil || g.AccountID != "principal-1" {
		t.Fatalf("GrantAccess: %v %v", g, err)
	}
	if err := c.RevokeAccess(ctx, "b", g.AccountID, place); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteBucket(ctx, "b", place); err != nil {
		t.Fatal(err)
	}
	rest := map[string]string{"other": "x"}
	for method, want := range map[string]proto.Message{
		"ProvisionerCreateBucket": &draftpb.ProvisionerCreateBucketRequest{BucketName: "b", Region: "eu", Zone: "eu-1", BucketContext: rest,
			AnonymousBucketAccessMode: draftpb.ProvisionerCreateBucketRequest_BUCKET_READ_ONLY},
		"ProvisionerGrantBucketAccess": &draftpb.ProvisionerGrantBucketAccessRequest{BucketName: "b", Region: "eu", Zone: "eu-1",
			BucketContext: map[string]string{"other": "x", "endpoint": "https://s3.example.com"}, Principal: "a", AccessPolicy: "rw"},
		"ProvisionerRevokeBucketAccess": &draftpb.ProvisionerRevokeBucketAccessRequest{BucketName: "b", Region: "eu", Zone: "eu-1", BucketContext: rest, Principal: "principal-1"},
		"ProvisionerDeleteBucket":       &draftpb.ProvisionerDeleteBucketRequest{BucketName: "b", Region: "eu", Zone: "eu-1", BucketContext: rest},
	} {
		if got := p.last(method); !proto.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", method, got, want)
		}
	}
	info, err := g.BucketInfo("n", b.ID, cosipb.AuthenticationType_Key)
	want := SecretS3{Endpoint: "https://s3.example.com", Region: "eu", AccessKeyID: "AKIA", AccessSecretKey: "s3cr3t"}
	if err != nil || *info.Spec.SecretS3 != want {
		t.Errorf("BucketInfo: %+v %v", info, err)
	}
	if place["region"] != "eu" {
		t.Error("the caller's map was changed")
	}
}

func TestDraftRefusals(t *testing.T) {
	path := scriptedSocket(t)
	a := draftOnly(strings.Repeat("c", 129), "")
	a["ProvisionerDeleteBucket"] = nil
	p := play(t, path, a)
	c, ctx := dialScript(t, path), scriptedContext(t, 30*time.Second)
	_, err := c.CreateBucket(ctx, "b", map[string]string{"anonymousAccess": "Public"})
	if status.Code(err) != codes.InvalidArgument || p.count("ProvisionerCreateBucket") != 0 {
		t.Errorf("anonymousAccess: %v", err)
	}
	_, err = c.GrantAccess(ctx, GrantRequest{BucketID: "b", Account: "a", Authentication: cosipb.AuthenticationType_IAM})
	if status.Code(err) != codes.InvalidArgument || p.count("ProvisionerGrantBucketAccess") != 0 {
		t.Errorf("IAM: %v", err)
	}
	// Req: DRAFT-024, COSI-081
	_, err = c.GrantAccess(ctx, GrantRequest{BucketID: "b", Account: "a", Authentication: cosipb.AuthenticationType_Key})
	if !errors.Is(err, ErrAnswer) || !strings.Contains(err.Error(), "credentials_file_contents has 129 bytes") {
		t.Errorf("oversized: %v", err)
	}
	if err := c.DeleteBucket(ctx, "b", nil); status.Code(err) != codes.Unimplemented || !Terminal(err) {
		t.Errorf("UNIMPLEMENTED: %v", err)
	}
}

// Req: DRAFT-024
func TestDraftCredentialsFile(t *testing.T) {
	for name, tt := range map[string]struct {
		contents, path string
		want           map[string]string // nil: an error that names...
		err            string
	}{
		"AWS":          {contents: awsFile, want: map[string]string{"accessKeyID": "AKIA", "accessSecretKey": "s3cr3t"}},
		"AWS profile":  {contents: "# c\n[p]\naws_access_key_id=A\naws_secret_access_key=a=b\nregion=r\nendpoint_url=http://e", want: map[string]string{"accessKeyID": "A", "accessSecretKey": "a=b", "region": "r", "endpoint": "http://e"}},
		"default wins": {contents: "[p]\naws_access_key_id=B\n" + awsFile, want: map[string]string{"accessKeyID": "AKIA", "accessSecretKey": "s3cr3t"}},
		"JSON":         {contents: `{"AccessKeyId":"A","SecretAccessKey":"s3cr3t"}`, want: map[string]string{"accessKeyID": "A", "accessSecretKey": "s3cr3t"}},
		"JSON ours":    {contents: ` {"accessKeyID":"A","accessSecretKey":"s3cr3t","endpoint":"http://e","x":1}`, want: map[string]string{"accessKeyID": "A", "accessSecretKey": "s3cr3t", "endpoint": "http://e"}},
		"no secret":    {contents: "[default]\naws_access_key_id = s3cr3t", err: "accessSecretKey is missing"},
		"no section":   {contents: "aws_access_key_id = s3cr3t", err: "line 1 comes before any [section]"},
		"no pair":      {contents: "[d]\ns3cr3t", err: "line 2 is no key = value"},
		"no bracket":   {contents: "[s3cr3t", err: "line 1 is no [section]"},
		"comments":     {contents: "# s3cr3t", err: "no [section]"},
		"JSON cut":     {contents: `{"accessKeyID":"s3cr3t`, err: "malformed JSON at byte"},
		"JSON number":  {contents: `{"accessKeyID":1}`, err: "accessKeyID is no string"},
		"JSON twice":   {contents: `{"accessKeyID":"A","access_key_id":"B","accessSecretKey":"s3cr3t"}`, err: "accessKeyID is given twice"},
		"path":         {path: "/etc/shadow", err: "never opened"},
		"nothing":      {err: "no credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			g := Grant{Credentials: draftCredentials(tt.contents, tt.path, nil)}
			if g.Credentials["file"]["contents"] != tt.contents || g.Credentials["file"]["path"] != tt.path {
				t.Error("the file is not passed on as it came")
			}
			if tt.want != nil {
				got := maps.Clone(g.Credentials["s3"])
				maps.DeleteFunc(got, func(_, v string) bool { return v == "" })
				if !maps.Equal(got, tt.want) {
					t.Errorf("got %v, want %v", got, tt.want)
				}
				return
			}
			_, err := g.BucketInfo("n", "b", cosipb.AuthenticationType_Key)
			if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("got %v, want %q", err, tt.err)
			}
		})
	}
}

func FuzzCredentialsFile(f *testing.F) {
	for _, seed := range []string{awsFile, `{"accessKeyID":"A","accessSecretKey":"s"}`, "[", "[]", "[a]\n=", "{", "\x00", "[a]\r\nregion=\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, contents string) {
		s3, err := parseCredentialsFile(contents)
		if (err == nil) != (s3["accessKeyID"] != "" && s3["accessSecretKey"] != "") {
			t.Errorf("got %v %v", s3, err)
		}
	})
}
