package cosi

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

func TestCallJSON(t *testing.T) {
	path := scriptedSocket(t)
	a := named("d", draftOnly(awsFile, ""))
	a["DriverGrantBucketAccess"] = func(_ context.Context, in proto.Message) (proto.Message, error) {
		if r := in.(*cosipb.DriverGrantBucketAccessRequest); r.GetBucketId() == "" {
			return nil, status.Error(codes.InvalidArgument, "no bucket")
		}
		return &cosipb.DriverGrantBucketAccessResponse{AccountId: "a",
			Credentials: map[string]*cosipb.CredentialDetails{"s3": {Secrets: map[string]string{"k": "s3cr3t"}}}}, nil
	}
	p := play(t, path, a)
	call := func(rpc, in string) (string, error) {
		out, err := CallJSON(scriptedContext(t, 30*time.Second), "unix://"+path, rpc, []byte(in))
		return string(out), err
	}
	for _, tt := range []struct{ rpc, in, want string }{
		{"DriverGetInfo", "", "{\n  \"name\": \"d\"\n}"},
		{"Identity.DriverGetInfo", "{}", "{\n  \"name\": \"d\"\n}"},
		{"/cosi.v1alpha1.Identity/DriverGetInfo", " \n", "{\n  \"name\": \"d\"\n}"},
		{"cosi.v1alpha1.Identity/DriverGetInfo", "", "{\n  \"name\": \"d\"\n}"},
		{"ProvisionerGetInfo", "", "{\n  \"provisionerIdentity\": \"old driver\"\n}"},
		{"Provisioner.ProvisionerCreateBucket", `{"bucket_name":"b","anonymousBucketAccessMode":"BUCKET_READ_ONLY"}`, "{}"},
		{"DriverGrantBucketAccess", `{"bucketId":"b"}`, "{\n  \"accountId\": \"a\",\n  \"credentials\": {\n    \"s3\": {\n      \"secrets\": {\n        \"k\": \"s3cr3t\"\n      }\n    }\n  }\n}"},
	} {
		if got, err := call(tt.rpc, tt.in); err != nil || got != tt.want {
			t.Errorf("%s: got %s %v, want %s", tt.rpc, got, err, tt.want)
		}
	}
	t.Run("nothing is checked or retried", func(t *testing.T) {
		_, err := call("DriverGrantBucketAccess", "")
		if status.Code(err) != codes.InvalidArgument || status.Convert(err).Message() != "no bucket" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		before := p.count("DriverCreateBucket")
		for _, tt := range []struct{ rpc, in, want string }{
			{"Nope", "", "known are Identity.DriverGetInfo, Provisioner.DriverCreateBucket"},
			{"DriverCreateBucket", "{\n  \"name\": \"b\",\n  nope\n}", "line 3, column 3"},
			{"DriverCreateBucket", `{"bucket":"b"}`, "line 1, column 2"},
			{"DriverCreateBucket", `{"name":1}`, "line 1, column 9"},
			{"DriverCreateBucket", `{`, "request is no JSON of DriverCreateBucketRequest"},
		} {
			_, err := call(tt.rpc, tt.in)
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s %s: got %v, want %q", tt.rpc, tt.in, err, tt.want)
			}
		}
		if p.count("DriverCreateBucket") != before {
			t.Error("a refused request was sent")
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		_, err := CallJSON(t.Context(), "unix://"+scriptedSocket(t), "DriverGetInfo", nil)
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "no socket at") {
			t.Errorf("got %v", err)
		}
		_, err = CallJSON(t.Context(), "tcp://x", "DriverGetInfo", nil)
		if status.Code(err) != codes.InvalidArgument || errors.Unwrap(err) == nil {
			t.Errorf("got %v", err)
		}
	})
}

func TestRPCsKnowsBothProtocols(t *testing.T) {
	names := RPCs()
	if len(names) != 10 || !slices.Contains(names, "Provisioner.ProvisionerRevokeBucketAccess") {
		t.Errorf("got %v", names)
	}
	for _, name := range names {
		if r, err := findRPC(name); err != nil || r.short() != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzCallJSON(f *testing.F) {
	for _, seed := range []string{"{}", `{"name":"b","parameters":{"a":"b"}}`, "{", "[1]", "null", "\xff", `{"name":"\ud800"}`} {
		f.Add("DriverCreateBucket", []byte(seed))
	}
	f.Add("ProvisionerGetInfo", []byte(""))
	f.Fuzz(func(t *testing.T, rpc string, in []byte) {
		// No socket is there: what is well formed gets as far as that, and no further.
		_, err := CallJSON(t.Context(), "unix:///nonexistent/x.sock", rpc, in)
		if code := status.Code(err); code != codes.InvalidArgument && code != codes.Unavailable {
			t.Errorf("got %v", err)
		}
		if !json.Valid(in) && len(strings.TrimSpace(string(in))) > 0 && status.Code(err) == codes.Unavailable {
			t.Errorf("malformed JSON %q was taken", in)
		}
	})
}
