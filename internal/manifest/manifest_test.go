package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/internal/claim"
)

const head = "apiVersion: objectstorage.k8s.io/v1alpha1\n"

const all = head + `kind: BucketAccess
metadata: {name: viewer, namespace: shop}
spec:
  bucketClaimName: photos
  bucketAccessClassName: readers
  credentialsSecretName: photos-viewer
  protocol: S3
---
# Comments and empty documents mean nothing.
---
` + head + `kind: BucketClaim
metadata:
  name: photos
  labels: {app: shop}
spec:
  bucketClassName: fast
  protocols: [S3]
---
` + head + `kind: BucketClass
metadata: {name: fast}
driverName: objects.fairlead.dev
deletionPolicy: Delete
parameters:
  quota: 10Gi
  versioning: "true"
---
` + head + `kind: BucketAccessClass
metadata: {name: readers}
driverName: objects.fairlead.dev
authenticationType: Key
parameters: {mode: ReadOnly}
`

func TestParse(t *testing.T) {
	set, err := Parse(Source{"all.yaml", []byte(all)})
	if err != nil {
		t.Fatal(err)
	}
	if len(set.BucketClasses) != 1 || len(set.AccessClasses) != 1 || len(set.Claims) != 1 || len(set.Accesses) != 1 {
		t.Fatalf("got %+v", set)
	}
	class := set.BucketClasses[0]
	if class.Name != "fast" || class.DeletionPolicy != claim.Delete || class.Parameters["quota"] != "10Gi" || class.Parameters["versioning"] != "true" {
		t.Errorf("bucket class: %+v", class)
	}
	if c := set.Claims[0]; c.Name != "photos" || c.Class != "fast" || !c.NoAccess {
		t.Errorf("claim: %+v", c)
	}
	if c := set.AccessClasses[0]; c.Authentication != claim.AuthKey || c.Parameters["mode"] != "ReadOnly" {
		t.Errorf("access class: %+v", c)
	}
	if a := set.Accesses[0]; a.Claim != "photos" || a.Spec.Name != "viewer" || a.Spec.Class != "readers" || a.Spec.SecretName != "photos-viewer" {
		t.Errorf("access: %+v", a)
	}
}

func TestParseJSON(t *testing.T) {
	text := "{\n\t\"apiVersion\": \"objectstorage.k8s.io/v1alpha1\",\n\t\"kind\": \"BucketClaim\",\n" +
		"\t\"metadata\": {\"name\": \"ph\\u006ftos\"},\n\t\"spec\": {\"protocols\": [\"S3\"], \"existingBucketName\": \"a\\/b\"}\n}\n"
	set, err := Parse(Source{"claim.json", []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	if c := set.Claims[0]; c.Name != "photos" || c.Existing != "a/b" {
		t.Errorf("got %+v", c)
	}
	_, err = Parse(Source{"twice.json", []byte(text + text)})
	if want := `twice.json:10:23: BucketClaim "photos" is stated already at twice.json:4:23`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	bad := strings.Replace(text, `["S3"]`, `["S3", 7]`, 1)
	_, err = Parse(Source{"bad.json", []byte(bad)})
	if want := `bad.json:5:31: spec.protocols must be a string: write "7" in quotes`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestMistakes(t *testing.T) {
	claimOf := func(spec string) string {
		return head + "kind: BucketClaim\nmetadata:\n  name: photos\nspec:\n" + spec
	}
	tests := map[string]struct{ text, want string }{
		"unknown field":     {claimOf("  protocols: [S3]\n  bucketClas: fast\n"), `f.yaml:7:3: unknown field "bucketClas" in spec (known: bucketClassName, protocols, existingBucketName)`},
		"field given twice": {claimOf("  protocols: [S3]\n  protocols: [S3]\n"), `f.yaml:7:3: field "protocols" is given already at line 6 in spec`},
		"wrong type":        {claimOf("  protocols: S3\n"), "f.yaml:6:3: spec.protocols must be a list, not a string"},
		"wrong protocol":    {claimOf("  protocols: [S3, NFS]\n"), `f.yaml:6:19: protocol "NFS" is none of S3, Azure, GCS`},
		"no protocols":      {claimOf("  bucketClassName: fast\n"), "spec.protocols is required, such as [S3]"},
		"no spec":           {head + "kind: BucketClaim\nmetadata: {name: a}\n", "spec is required"},
		"empty spec":        {head + "kind: BucketClaim\nmetadata: {name: a}\nspec:\n", "spec must be an object, not nothing"},
		"bad name":          {head + "kind: BucketClaim\nmetadata: {name: ../a}\nspec: {protocols: [S3]}\n", `f.yaml:3:18: "../a" cannot name a BucketClaim`},
		"no name":           {head + "kind: BucketClaim\nmetadata: {}\nspec: {protocols: [S3]}\n", "metadata.name is required"},
		"wrong kind":        {head + "kind: Bucketclaim\n", `f.yaml:2:7: kind "Bucketclaim" is none of BucketClass, BucketClaim, BucketAccessClass, BucketAccess`},
		"a Bucket":          {head + "kind: Bucket\n", "name it in a BucketClaim's existingBucketName"},
		"wrong version":     {"apiVersion: v1\nkind: BucketClaim\n", `f.yaml:1:13: apiVersion "v1" is not objectstorage.k8s.io/v1alpha1`},
		"no kind":           {head, "kind is required"},
		"not an object":     {"- a\n", "f.yaml:1:1: a document must be an object, not a list"},
		"boolean parameter": {head + "kind: BucketClass\nmetadata: {name: a}\ndriverName: d\nparameters:\n  versioning: true\n", `f.yaml:6:15: parameters.versioning must be a string: write "true" in quotes`},
		"number as name":    {head + "kind: BucketClass\nmetadata: {name: 10}\ndriverName: d\n", `f.yaml:3:18: metadata.name must be a string: write "10" in quotes`},
		"deletion policy":   {head + "kind: BucketClass\nmetadata: {name: a}\ndriverName: d\ndeletionPolicy: Burn\n", `f.yaml:5:17: "Burn" is no deletion policy (use Retain or Delete)`},
		"authentication":    {head + "kind: BucketAccessClass\nmetadata: {name: a}\ndriverName: d\nauthenticationType: Token\n", `f.yaml:5:21: "Token" is no authentication type`},
		"annotation":        {head + "kind: BucketClass\nmetadata: {name: a, annotations: {fairlead.dev/mode: RO}}\ndriverName: d\n", `unknown annotation "fairlead.dev/mode"`},
		"two of a name":     {all + "---\n" + head + "kind: BucketClaim\nmetadata:\n  name: photos\nspec: {protocols: [S3]}\n", `f.yaml:40:9: BucketClaim "photos" is stated already at f.yaml:15:9`},
		"YAML syntax":       {claimOf("  protocols: [S3\n"), "f.yaml:6:14: "},
		"YAML indentation":  {head + "kind: BucketClaim\n   metadata: x\n", "f.yaml:"},
		"JSON syntax":       {"{\n  \"apiVersion\": \"objectstorage.k8s.io/v1alpha1\",\n  \"kind\" \"BucketClaim\"\n}", "f.yaml:3:"},
		"alias":             {head + "kind: &k BucketClaim\nmetadata: {name: *k}\nspec: {protocols: [S3]}\n", "f.yaml:3:18: metadata.name must be a string, not an alias (write it out)"},
		"bomb":              {strings.Repeat("[", 100_000), "f.yaml:1:1: exceeded max depth"},
		"small bomb":        {strings.Repeat("[", 3_900), "f.yaml:1:"},
		"block bomb":        {strings.Repeat("- ", 100_000), "f.yaml:1:1: exceeded max depth"},
		"NUL":               {"a: 1\nb: \x00\n", "f.yaml:2:4: holds a NUL byte"},
		"not UTF-8":         {"a: 1\nbü\xff: 1\n", "f.yaml:2:3: not valid UTF-8"},
		"long string":       {claimOf("  protocols: [S3]\n  existingBucketName: " + strings.Repeat("x", 200) + "\n"), "f.yaml:7:23: existingBucketName is 200 bytes long; COSI allows 128"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			set, err := Parse(Source{"f.yaml", []byte(tt.text)})
			errs, ok := errors.AsType[Errors](err)
			if !ok || len(errs) == 0 {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if len(set.Claims)+len(set.BucketClasses)+len(set.AccessClasses)+len(set.Accesses) > 0 {
				t.Errorf("a set beside the error: %+v", set)
			}
		})
	}
}

// All mistakes of a file come at once, and names are unique over all files.
func TestManyMistakes(t *testing.T) {
	one := head + "kind: BucketClaim\nmetadata: {name: a}\nspec: {protocols: [S3], a: 1, b: 2}\n"
	_, err := Parse(Source{"one.yaml", []byte(one)}, Source{"two.yaml", []byte(one)})
	for _, want := range []string{`one.yaml:4:25: unknown field "a"`, `one.yaml:4:31: unknown field "b"`, `two.yaml:3:18: BucketClaim "a" is stated already at one.yaml:3:18`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

// FuzzParse: no input makes the parser fail in another way than by Errors with
// a place, and whatever it accepts has names that can be names.
func FuzzParse(f *testing.F) {
	f.Add([]byte(all))
	f.Add([]byte("{\"apiVersion\":\"objectstorage.k8s.io/v1alpha1\",\"kind\":\"BucketClaim\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"protocols\":[\"S3\"]}}"))
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := Parse(Source{"f.yaml", text})
		if err != nil {
			errs, ok := errors.AsType[Errors](err)
			if !ok || len(errs) == 0 || errs[0].Line < 1 || errs[0].Column < 1 || errs[0].Message == "" {
				t.Fatalf("no place in %#v", err)
			}
			return
		}
		for _, c := range set.Claims {
			if claim.CheckName("a claim", c.Name) != nil {
				t.Errorf("accepted the name %q", c.Name)
			}
		}
		for _, a := range set.Accesses {
			if claim.CheckName("an access", a.Spec.Name) != nil || claim.CheckName("a claim", a.Claim) != nil {
				t.Errorf("accepted the names %q, %q", a.Spec.Name, a.Claim)
			}
		}
	})
}
