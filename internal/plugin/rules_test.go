package plugin_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/internal/plugin"
)

var someRules = plugin.NewRules(plugin.Tables{
	MaxBytes: map[protoreflect.FullName]int{"cosi.v1alpha1.DriverGetInfoResponse.name": 63},
	Required: []protoreflect.FullName{
		"cosi.v1alpha1.DriverCreateBucketRequest.name",
		"cosi.v1alpha1.DriverCreateBucketResponse.bucket_info",
		"cosi.v1alpha1.DriverGrantBucketAccessRequest.authentication_type",
		"cosi.v1alpha1.DriverGrantBucketAccessResponse.credentials",
	},
	Closed: []protoreflect.FullName{"cosi.v1alpha1.DriverGrantBucketAccessRequest.authentication_type"},
})

// Req: COSI-079, COSI-081, COSI-082, COSI-083, COSI-084, COSI-085, COSI-087, COSI-129, COSI-130
func TestCheckMessage(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	s3 := func(secrets map[string]string) *cosipb.DriverGrantBucketAccessResponse {
		return &cosipb.DriverGrantBucketAccessResponse{Credentials: map[string]*cosipb.CredentialDetails{"s3": {Secrets: secrets}}}
	}
	for name, test := range map[string]struct {
		m    proto.Message
		want string // of the error; empty means none
	}{
		"128 bytes":            {&cosipb.DriverCreateBucketRequest{Name: a(128)}, ""},
		"129 bytes":            {&cosipb.DriverCreateBucketRequest{Name: a(129)}, "field name has 129 bytes, more than the limit of 128"},
		"bytes, not runes":     {&cosipb.DriverCreateBucketRequest{Name: strings.Repeat("ü", 65)}, "field name has 130 bytes, more than the limit of 128"},
		"override":             {&cosipb.DriverGetInfoResponse{Name: a(64)}, "field name has 64 bytes, more than the limit of 63"},
		"map of 4096":          {&cosipb.DriverCreateBucketRequest{Name: "b", Parameters: map[string]string{"k": a(4095)}}, ""},
		"map of 4097":          {&cosipb.DriverCreateBucketRequest{Name: "b", Parameters: map[string]string{"k": a(2048), "l": a(2047)}}, "field parameters has 4097 bytes of keys and values, more than the limit of 4096"},
		"missing scalar":       {&cosipb.DriverCreateBucketRequest{}, "field name is required"},
		"missing enum":         {&cosipb.DriverGrantBucketAccessRequest{}, "field authentication_type is required"},
		"unknown enum value":   {&cosipb.DriverGrantBucketAccessRequest{AuthenticationType: 7}, "field authentication_type has the unknown value 7"},
		"open enum":            {&cosipb.S3{SignatureVersion: 9}, ""},
		"missing message":      {&cosipb.DriverCreateBucketResponse{BucketId: "b"}, "field bucket_info is required"},
		"in a message":         {&cosipb.DriverCreateBucketResponse{BucketInfo: &cosipb.Protocol{Type: &cosipb.Protocol_S3{S3: &cosipb.S3{Region: a(129)}}}}, "field bucket_info.s3.region has 129 bytes, more than the limit of 128"},
		"empty map":            {&cosipb.DriverGrantBucketAccessResponse{Credentials: map[string]*cosipb.CredentialDetails{}}, "field credentials is required"},
		"in a map of messages": {s3(map[string]string{"k": a(4096)}), "field credentials[s3].secrets has 4097 bytes of keys and values, more than the limit of 4096"},
		"key of a secret":      {s3(map[string]string{"a/b": "x"}), `field credentials[s3].secrets has the key "a/b": only letters, digits, '-', '_' and '.' are allowed`},
		"no UTF-8":             {&cosipb.DriverCreateBucketRequest{Name: "\xff"}, "field name is no valid UTF-8"},
		"no UTF-8 in a map":    {s3(map[string]string{"k": "\xff"}), "field credentials[s3].secrets holds text that is no valid UTF-8"},
		"nil in a map":         {&cosipb.DriverGrantBucketAccessResponse{Credentials: map[string]*cosipb.CredentialDetails{"s3": nil}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := plugin.CheckMessage(test.m, someRules); err != nil {
				got = err.Error()
				if _, ok := errors.AsType[*plugin.FieldError](err); !ok {
					t.Errorf("%T is no FieldError", err)
				}
			}
			if got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func TestCheckMessageZeroRules(t *testing.T) {
	if err := plugin.CheckMessage(&cosipb.DriverCreateBucketRequest{}, plugin.Rules{}); err != nil {
		t.Error(err)
	}
	if err := plugin.CheckMessage(&cosipb.DriverCreateBucketRequest{Name: strings.Repeat("a", 129)}, plugin.Rules{}); err == nil {
		t.Error("no general limit")
	}
}

// secretMessage is a message type of another specification, whose options this
// process does not know: they are plain bytes here.
func secretMessage(t testing.TB, option protowire.Number, value uint64) protoreflect.MessageDescriptor {
	t.Helper()
	mark := func() *descriptorpb.FieldOptions {
		o := &descriptorpb.FieldOptions{}
		o.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, option, protowire.VarintType), value))
		return o
	}
	field := func(name string, n int32, kind descriptorpb.FieldDescriptorProto_Type, label descriptorpb.FieldDescriptorProto_Label) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{Name: &name, JsonName: &name, Number: &n, Type: &kind, Label: &label, Options: mark()}
	}
	one, many := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL, descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	plain := field("plain", 4, descriptorpb.FieldDescriptorProto_TYPE_STRING, one)
	plain.Options = nil
	inner := field("inner", 5, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, one)
	inner.TypeName = proto.String(".test.Marked")
	fd, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("marked.proto"), Package: proto.String("test"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Marked"), Field: []*descriptorpb.FieldDescriptorProto{
			field("token", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING, one),
			field("blob", 2, descriptorpb.FieldDescriptorProto_TYPE_BYTES, one),
			field("list", 3, descriptorpb.FieldDescriptorProto_TYPE_STRING, many),
			plain, inner,
		}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return fd.Messages().Get(0)
}

func marked(d protoreflect.MessageDescriptor) *dynamicpb.Message {
	m := dynamicpb.NewMessage(d)
	f := d.Fields()
	m.Set(f.ByName("token"), protoreflect.ValueOfString("hush-token"))
	m.Set(f.ByName("blob"), protoreflect.ValueOfBytes([]byte("hush-bytes")))
	list := m.NewField(f.ByName("list")).List()
	list.Append(protoreflect.ValueOfString("hush-list"))
	m.Set(f.ByName("list"), protoreflect.ValueOfList(list))
	m.Set(f.ByName("plain"), protoreflect.ValueOfString("seen"))
	inner := dynamicpb.NewMessage(d)
	inner.Set(f.ByName("plain"), protoreflect.ValueOfString("hush-inner"))
	m.Set(f.ByName("inner"), protoreflect.ValueOfMessage(inner))
	return m
}
