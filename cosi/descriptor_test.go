package cosi_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/cosi/draftpb"
)

var update = flag.Bool("update-descriptor", false, "write testdata/descriptor.golden anew")

const goldenDescriptor = "testdata/descriptor.golden"

// The golden file is what goes over the wire, in words that a person can hold
// against the specification's text; it changes only when that text does.
//
// Req: COSI-016, COSI-017, COSI-018, COSI-019, COSI-021, COSI-022, COSI-023, COSI-024, COSI-026, COSI-029
// Req: COSI-036, COSI-037, COSI-038, COSI-039, COSI-040, COSI-041, COSI-042, COSI-043, COSI-044, COSI-045
// Req: COSI-050, COSI-054, COSI-057, COSI-061, COSI-062, COSI-068, COSI-071, COSI-076, COSI-138
// Req: DRAFT-016, DRAFT-017, DRAFT-018, DRAFT-019, DRAFT-020, DRAFT-021, DRAFT-022, DRAFT-023, DRAFT-024, DRAFT-026, DRAFT-027
func TestDescriptor(t *testing.T) {
	got := describe(cosipb.File_cosi_proto) + describe(draftpb.File_cosi_draft_proto)
	if *update {
		if err := os.WriteFile(goldenDescriptor, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenDescriptor)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Fatalf("differs from line %d on; got\n%s", i+1, strings.Join(gotLines[min(i, len(gotLines)):min(i+5, len(gotLines))], "\n"))
		}
	}
}

// The rows of the specification that DEFINE something, stated one by one from
// the requirements and not from the generated stubs. A line is the full name
// and what describe says of it.
//
// Req: COSI-016, COSI-017, COSI-018, COSI-019, COSI-021, COSI-022, COSI-023, COSI-024, COSI-025, COSI-026, COSI-029
// Req: COSI-036, COSI-037, COSI-038, COSI-039, COSI-040, COSI-041, COSI-042, COSI-043, COSI-044, COSI-045, COSI-050
// Req: COSI-054, COSI-057, COSI-061, COSI-062, COSI-068, COSI-071, COSI-076
// Req: DRAFT-016, DRAFT-017, DRAFT-018, DRAFT-019, DRAFT-020, DRAFT-021, DRAFT-022, DRAFT-023, DRAFT-024, DRAFT-026, DRAFT-027
func TestDescriptorRows(t *testing.T) {
	lines := strings.Split(describe(cosipb.File_cosi_proto)+describe(draftpb.File_cosi_draft_proto), "\n")
	has := map[string]bool{}
	for _, l := range lines {
		has[strings.TrimSpace(l)] = true
	}
	for id, rows := range definedRows {
		for _, row := range rows {
			if !has[row] {
				t.Errorf("%s: the descriptor has no %q", id, row)
			}
		}
	}
}

var definedRows = map[string][]string{
	"COSI-016": {"file cosi.proto syntax proto3 package cosi.v1alpha1", "import google/protobuf/descriptor.proto",
		`go_package "sigs.k8s.io/container-object-storage-interface-spec;cosi"`},
	"COSI-017":  {"extend google.protobuf.EnumOptions cosi.v1alpha1.alpha_enum = 1116 bool"},
	"COSI-018":  {"extend google.protobuf.EnumValueOptions cosi.v1alpha1.alpha_enum_value = 1116 bool"},
	"COSI-019":  {"extend google.protobuf.FieldOptions cosi.v1alpha1.cosi_secret = 1115 bool"},
	"COSI-021":  {"extend google.protobuf.FieldOptions cosi.v1alpha1.alpha_field = 1116 bool"},
	"COSI-022":  {"extend google.protobuf.MessageOptions cosi.v1alpha1.alpha_message = 1116 bool"},
	"COSI-023":  {"extend google.protobuf.MethodOptions cosi.v1alpha1.alpha_method = 1116 bool"},
	"COSI-024":  {"extend google.protobuf.ServiceOptions cosi.v1alpha1.alpha_service = 1116 bool"},
	"COSI-026":  {"rpc cosi.v1alpha1.Identity.DriverGetInfo (cosi.v1alpha1.DriverGetInfoRequest) returns (cosi.v1alpha1.DriverGetInfoResponse)"},
	"COSI-029":  rpcs("cosi.v1alpha1.Provisioner.", "cosi.v1alpha1.", "DriverCreateBucket", "DriverDeleteBucket", "DriverGrantBucketAccess", "DriverRevokeBucketAccess"),
	"COSI-036":  {"enum cosi.v1alpha1.S3SignatureVersion UnknownSignature=0 S3V2=1 S3V4=2"},
	"COSI-037":  {"enum cosi.v1alpha1.AnonymousBucketAccessMode UnknownBucketAccessMode=0 Private=1 ReadOnly=2 WriteOnly=3 ReadWrite=4"},
	"COSI-038":  {"enum cosi.v1alpha1.AuthenticationType UnknownAuthenticationType=0 Key=1 IAM=2"},
	"COSI-039":  message("cosi.v1alpha1.S3", "region = 1 string", "signature_version = 2 cosi.v1alpha1.S3SignatureVersion"),
	"COSI-040":  message("cosi.v1alpha1.AzureBlob", "storage_account = 1 string"),
	"COSI-041":  message("cosi.v1alpha1.GCS", "private_key_name = 1 string", "project_id = 2 string", "service_account = 3 string"),
	"COSI-042":  message("cosi.v1alpha1.Protocol", "s3 = 1 cosi.v1alpha1.S3 oneof type", "azureBlob = 2 cosi.v1alpha1.AzureBlob oneof type", "gcs = 3 cosi.v1alpha1.GCS oneof type"),
	"COSI-043":  message("cosi.v1alpha1.CredentialDetails", "secrets = 1 map<string,string>"),
	"COSI-044":  message("cosi.v1alpha1.DriverGetInfoRequest"),
	"COSI-045":  message("cosi.v1alpha1.DriverGetInfoResponse", "name = 1 string"),
	"COSI-050":  message("cosi.v1alpha1.DriverCreateBucketRequest", "name = 1 string", "parameters = 2 map<string,string>"),
	"COSI-054":  message("cosi.v1alpha1.DriverCreateBucketResponse", "bucket_id = 1 string", "bucket_info = 2 cosi.v1alpha1.Protocol"),
	"COSI-057":  message("cosi.v1alpha1.DriverDeleteBucketRequest", "bucket_id = 1 string", "delete_context = 2 map<string,string>"),
	"COSI-061":  message("cosi.v1alpha1.DriverDeleteBucketResponse"),
	"COSI-062":  message("cosi.v1alpha1.DriverGrantBucketAccessRequest", "bucket_id = 1 string", "name = 2 string", "authentication_type = 3 cosi.v1alpha1.AuthenticationType", "parameters = 4 map<string,string>"),
	"COSI-068":  message("cosi.v1alpha1.DriverGrantBucketAccessResponse", "account_id = 1 string", "credentials = 2 map<string,cosi.v1alpha1.CredentialDetails>"),
	"COSI-071":  message("cosi.v1alpha1.DriverRevokeBucketAccessRequest", "bucket_id = 1 string", "account_id = 2 string", "revoke_access_context = 3 map<string,string>"),
	"COSI-076":  message("cosi.v1alpha1.DriverRevokeBucketAccessResponse"),
	"DRAFT-016": message("fairlead.cosi.draft.ProvisionerGetInfoRequest"),
	"DRAFT-017": message("fairlead.cosi.draft.ProvisionerGetInfoResponse", "provisioner_identity = 1 string"),
	"DRAFT-018": message("fairlead.cosi.draft.ProvisionerCreateBucketRequest", "bucket_name = 1 string", "region = 2 string", "zone = 3 string", "bucket_context = 4 map<string,string>",
		"anonymous_bucket_access_mode = 5 fairlead.cosi.draft.ProvisionerCreateBucketRequest.AnonymousBucketAccessMode"),
	"DRAFT-019": {"enum fairlead.cosi.draft.ProvisionerCreateBucketRequest.AnonymousBucketAccessMode BUCKET_PRIVATE=0 BUCKET_READ_ONLY=1 BUCKET_WRITE_ONLY=2 BUCKET_READ_WRITE=3"},
	"DRAFT-020": message("fairlead.cosi.draft.ProvisionerCreateBucketResponse"),
	"DRAFT-021": message("fairlead.cosi.draft.ProvisionerDeleteBucketRequest", "bucket_name = 1 string", "region = 2 string", "zone = 3 string", "bucket_context = 4 map<string,string>"),
	"DRAFT-022": message("fairlead.cosi.draft.ProvisionerDeleteBucketResponse"),
	"DRAFT-023": message("fairlead.cosi.draft.ProvisionerGrantBucketAccessRequest", "bucket_name = 1 string", "region = 2 string", "zone = 3 string", "bucket_context = 4 map<string,string>", "principal = 5 string", "access_policy = 6 string"),
	"DRAFT-024": message("fairlead.cosi.draft.ProvisionerGrantBucketAccessResponse", "principal = 1 string", "credentials_file_contents = 2 string", "credentials_file_path = 3 string"),
	"DRAFT-026": message("fairlead.cosi.draft.ProvisionerRevokeBucketAccessRequest", "bucket_name = 1 string", "region = 2 string", "zone = 3 string", "bucket_context = 4 map<string,string>", "principal = 5 string"),
	"DRAFT-027": message("fairlead.cosi.draft.ProvisionerRevokeBucketAccessResponse"),
}

// message is one with exactly these fields.
func message(name string, fields ...string) []string {
	rows := []string{fmt.Sprintf("message %s of %d fields", name, len(fields))}
	for _, f := range fields {
		rows = append(rows, name+"."+f)
	}
	return rows
}

func rpcs(service, pkg string, names ...string) (rows []string) {
	for _, n := range names {
		rows = append(rows, fmt.Sprintf("rpc %s%s (%s%sRequest) returns (%s%sResponse)", service, n, pkg, n, pkg, n))
	}
	return rows
}

// Options are marks for people and programs that read the descriptor; in both
// texts no field, message, method or service of ours carries one (COSI-019,
// DRAFT-007).
//
// Req: COSI-019, COSI-025, DRAFT-007, DRAFT-008, DRAFT-009, DRAFT-010, DRAFT-011, DRAFT-012, DRAFT-013, DRAFT-014
func TestDraftOptionsStayOut(t *testing.T) {
	if n := draftpb.File_cosi_draft_proto.Extensions().Len(); n != 0 {
		t.Errorf("the draft's stubs declare %d options, whose numbers are CSI's", n)
	}
	if got := describe(draftpb.File_cosi_draft_proto); strings.Contains(got, "option") {
		t.Error("an option is set in the draft's stubs")
	}
	text, err := os.ReadFile("../spec/cosi-draft.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"bool alpha_enum = 1060;", "bool alpha_enum_value = 1060;", "bool cosi_secret = 1059;", "bool alpha_field = 1060;",
		"bool alpha_message = 1060;", "bool alpha_method = 1060;", "bool alpha_service = 1060;",
	} {
		if !strings.Contains(string(text), line) {
			t.Errorf("the draft does not define %q", line)
		}
	}
	if got := strings.Count(string(text), "(cosi_secret)") + strings.Count(string(text), "(alpha_"); got != 0 {
		t.Errorf("the draft uses its options %d times", got)
	}
}

// The service of both texts, as it is registered, has both sets of methods.
//
// Req: COSI-013, COSI-029, COSI-143, DRAFT-015
func TestServedMethods(t *testing.T) {
	s := serve(t, &store{})
	for _, m := range []string{
		"Identity/DriverGetInfo", "Provisioner/DriverCreateBucket", "Provisioner/DriverDeleteBucket",
		"Provisioner/DriverGrantBucketAccess", "Provisioner/DriverRevokeBucketAccess",
		"Provisioner/ProvisionerGetInfo", "Provisioner/ProvisionerCreateBucket", "Provisioner/ProvisionerDeleteBucket",
		"Provisioner/ProvisionerGrantBucketAccess", "Provisioner/ProvisionerRevokeBucketAccess",
	} {
		err := s.conn.Invoke(within(t, 10*time.Second), "/cosi.v1alpha1."+m, &cosipb.DriverGetInfoRequest{}, &cosipb.DriverGetInfoResponse{})
		if err != nil && !strings.Contains(err.Error(), "is required") {
			t.Errorf("%s: %v", m, err)
		}
	}
}

// describe prints a file descriptor, a line per thing.
func describe(f protoreflect.FileDescriptor) string {
	var b strings.Builder
	put := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	put("file %s syntax %v package %s", f.Path(), f.Syntax(), f.Package())
	for i := range f.Imports().Len() {
		put("import %s", f.Imports().Get(i).Path())
	}
	put("go_package %q", goPackage(f))
	for i := range f.Extensions().Len() {
		x := f.Extensions().Get(i)
		put("extend %s %s = %d %s%s", x.ContainingMessage().FullName(), x.FullName(), x.Number(), x.Kind(), set(x))
	}
	enums(put, f.Enums())
	for i := range f.Messages().Len() {
		m := f.Messages().Get(i)
		put("message %s of %d fields%s", m.FullName(), m.Fields().Len(), set(m))
		for j := range m.Fields().Len() {
			put("  %s", field(m.Fields().Get(j)))
		}
		enums(put, m.Enums())
	}
	for i := range f.Services().Len() {
		s := f.Services().Get(i)
		put("service %s of %d methods%s", s.FullName(), s.Methods().Len(), set(s))
		for j := range s.Methods().Len() {
			m := s.Methods().Get(j)
			put("  rpc %s (%s) returns (%s)%s", m.FullName(), m.Input().FullName(), m.Output().FullName(), set(m))
			if m.IsStreamingClient() || m.IsStreamingServer() {
				put("  streams")
			}
		}
	}
	return b.String()
}

func enums(put func(string, ...any), all protoreflect.EnumDescriptors) {
	for i := range all.Len() {
		e := all.Get(i)
		line := fmt.Sprintf("enum %s", e.FullName())
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			line += fmt.Sprintf(" %s=%d%s", v.Name(), v.Number(), set(v))
		}
		put("%s%s", line, set(e))
	}
}

func field(f protoreflect.FieldDescriptor) string {
	kind := func(f protoreflect.FieldDescriptor) string {
		switch {
		case f.Message() != nil:
			return string(f.Message().FullName())
		case f.Enum() != nil:
			return string(f.Enum().FullName())
		}
		return f.Kind().String()
	}
	line := fmt.Sprintf("%s = %d ", f.FullName(), f.Number())
	switch {
	case f.IsMap():
		line += "map<" + kind(f.MapKey()) + "," + kind(f.MapValue()) + ">"
	case f.IsList():
		line += "repeated " + kind(f)
	default:
		line += kind(f)
	}
	if o := f.ContainingOneof(); o != nil {
		line += " oneof " + string(o.Name())
	}
	return line + set(f)
}

// set lists the numbers of the options that d carries, known or not.
func set(d protoreflect.Descriptor) (s string) {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(d.Options())
	if err != nil {
		return " option?"
	}
	for len(raw) > 0 {
		n, typ, k := protowire.ConsumeTag(raw)
		k += protowire.ConsumeFieldValue(n, typ, raw[k:])
		s += fmt.Sprintf(" option %d", n)
		raw = raw[k:]
	}
	return s
}

func goPackage(f protoreflect.FileDescriptor) string {
	o := f.Options().ProtoReflect()
	return o.Get(o.Descriptor().Fields().ByName("go_package")).String()
}
