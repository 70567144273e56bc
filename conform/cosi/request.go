package cosi

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

// The requests, under shorter names.
type (
	createRequest = cosipb.DriverCreateBucketRequest
	deleteRequest = cosipb.DriverDeleteBucketRequest
	grantRequest  = cosipb.DriverGrantBucketAccessRequest
	revokeRequest = cosipb.DriverRevokeBucketAccessRequest
)

const key = cosipb.AuthenticationType_Key

// Things that no driver knows or takes.
var (
	unknownKey = "fl-check-no-such-key"
	unknownMap = map[string]string{unknownKey: "1"}
	longString = strings.Repeat("a", maxString+1)
	largeMap   = oversized()
)

// oversized is a map of short strings that is just above the limit.
func oversized() map[string]string {
	m := map[string]string{}
	for i := range maxMap/64 + 1 {
		m[fmt.Sprintf("k%07d", i)] = strings.Repeat("v", 56)
	}
	return m
}

// send makes the call that the request is for. What it makes is removed when
// the case ends, even if it should not have been made.
func (t *T) send(req proto.Message) error {
	var err error
	switch req := req.(type) {
	case *createRequest:
		_, err = t.create(req.GetName(), req.GetParameters())
	case *grantRequest:
		_, err = t.grantWith(req)
	case *deleteRequest:
		_, err = t.Provisioner.DriverDeleteBucket(t.ctx, req)
	case *revokeRequest:
		_, err = t.Provisioner.DriverRevokeBucketAccess(t.ctx, req)
	default:
		t.Fatalf("%T is no request of a case", req)
	}
	return err
}

// refused is a case's Run: the driver refuses the request with that code. The
// request is made from a bucket of the case, unless the request makes one.
func refused(want codes.Code, request func(b bucket) proto.Message) func(*T) {
	return func(t *T) {
		var b bucket
		if _, creates := request(b).(*createRequest); !creates {
			b = t.bucket()
		}
		req := request(b)
		t.wantCode(string(req.ProtoReflect().Descriptor().Name()), t.send(req), want)
	}
}

// invalid is refused with INVALID_ARGUMENT.
func invalid(request func(b bucket) proto.Message) func(*T) {
	return refused(codes.InvalidArgument, request)
}

// Clauses that many cases quote.
const (
	clauseMissing = "Missing required field: 3. Indicates that a required field is missing from the request."
	clauseInvalid = "Invalid or unsupported field in the request: 3 INVALID_ARGUMENT. One or more fields is either not allowed by the Plugin or has an invalid value."
	clauseParsing = "The receiver is responsible for parsing and validating the values."
	clauseString  = "Fields SHALL NOT exceed the limits documented here: string, 128 bytes."
	clauseMap     = "Fields SHALL NOT exceed the limits documented here: map<string, string>, 4 KiB."
)
