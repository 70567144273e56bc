package manifest

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/internal/claim"
)

// The kinds, in upstream's words.
const (
	kindBucketClass  = "BucketClass"
	kindBucketClaim  = "BucketClaim"
	kindAccessClass  = "BucketAccessClass"
	kindBucketAccess = "BucketAccess"
)

// header are the fields that every kind has.
var header = []string{"apiVersion", "kind", "metadata"}

// ours is the prefix of annotations that would mean something to us. None does,
// so each is a mistake.
const ours = "fairlead.dev/"

// source reads all documents of one source.
func (r *reader) source(text []byte) {
	for _, doc := range r.documents(text) {
		r.document(doc)
	}
}

func (r *reader) document(n *yaml.Node) {
	top := r.mapping(n, "")
	if top == nil {
		return
	}
	before := len(r.errs)
	version, kind := top.required("apiVersion"), top.required("kind")
	if len(r.errs) > before {
		return
	}
	if version != APIVersion {
		r.fail(top.place("apiVersion"), "apiVersion %q is not %s", short(version), APIVersion)
		return
	}
	switch kind {
	case kindBucketClass:
		r.bucketClass(n)
	case kindBucketClaim:
		r.bucketClaim(n)
	case kindAccessClass:
		r.accessClass(n)
	case kindBucketAccess:
		r.bucketAccess(n)
	case "Bucket":
		r.fail(top.place("kind"), "a Bucket is not stated by hand: name it in a BucketClaim's existingBucketName")
	default:
		r.fail(top.place("kind"), "kind %q is none of %s, %s, %s, %s", short(kind),
			kindBucketClass, kindBucketClaim, kindAccessClass, kindBucketAccess)
	}
}

// named reads the metadata: the name, which no other object of the kind has.
func (r *reader) named(top *object, kind string) string {
	f, ok := top.fields["metadata"]
	if !ok {
		r.fail(top.at, "metadata is required")
		return ""
	}
	meta := r.object(f.value, "metadata", "name", "namespace", "labels", "annotations")
	if meta == nil {
		return ""
	}
	meta.text("namespace") // one host has no namespaces; the file may
	meta.texts("labels")
	for key := range meta.texts("annotations") {
		if strings.HasPrefix(key, ours) {
			r.fail(meta.place("annotations"), "unknown annotation %q", short(key))
		}
	}
	name := meta.required("name")
	if name == "" {
		return ""
	}
	meta.check("name", claim.CheckName("a "+kind, name))
	p := meta.place("name")
	here, key := fmt.Sprintf("%s:%d:%d", r.file, p.line, p.column), kind+"/"+name
	if first, twice := r.seen[key]; twice {
		r.fail(p, "%s %q is stated already at %s", kind, short(name), first)
	} else {
		r.seen[key] = here
	}
	return name
}

func (r *reader) bucketClass(n *yaml.Node) {
	o := r.object(n, "", append(header, "driverName", "deletionPolicy", "parameters")...)
	c := claim.BucketClass{Name: r.named(o, kindBucketClass), Driver: o.required("driverName"), Parameters: o.texts("parameters")}
	o.check("driverName", claim.CheckString("driverName", c.Driver))
	o.check("parameters", claim.CheckParameters(c.Parameters))
	var err error
	c.DeletionPolicy, err = claim.ParseDeletionPolicy(o.text("deletionPolicy"))
	o.check("deletionPolicy", err)
	r.set.BucketClasses = append(r.set.BucketClasses, c)
}

func (r *reader) accessClass(n *yaml.Node) {
	o := r.object(n, "", append(header, "driverName", "authenticationType", "parameters")...)
	c := claim.AccessClass{Name: r.named(o, kindAccessClass), Driver: o.required("driverName"), Parameters: o.texts("parameters")}
	o.check("driverName", claim.CheckString("driverName", c.Driver))
	o.check("parameters", claim.CheckParameters(c.Parameters))
	var err error
	c.Authentication, err = claim.ParseAuthentication(o.required("authenticationType"))
	o.check("authenticationType", err)
	r.set.AccessClasses = append(r.set.AccessClasses, c)
}

// spec reads the object below spec; an empty one where it is missing.
func (r *reader) spec(top *object, known ...string) *object {
	f, ok := top.fields["spec"]
	if !ok {
		r.fail(top.at, "spec is required")
		return &object{r: r, path: "spec", at: top.at}
	}
	if o := r.object(f.value, "spec", known...); o != nil {
		return o
	}
	return &object{r: r, path: "spec", at: at(f.value)}
}

func (r *reader) bucketClaim(n *yaml.Node) {
	top := r.object(n, "", append(header, "spec")...)
	name := r.named(top, kindBucketClaim)
	before := len(r.errs)
	spec := r.spec(top, "bucketClassName", "protocols", "existingBucketName")
	if len(r.errs) > before && len(spec.fields) == 0 {
		return
	}
	req := claim.Request{
		Kind: claim.KindBucket, Name: name, NoAccess: true,
		Class: spec.text("bucketClassName"), Existing: spec.text("existingBucketName"),
	}
	if req.Class != "" {
		spec.check("bucketClassName", claim.CheckName("a bucket class", req.Class))
	}
	spec.check("existingBucketName", claim.CheckString("existingBucketName", req.Existing))
	if _, ok := spec.fields["protocols"]; !ok {
		r.fail(spec.at, "spec.protocols is required, such as [S3]")
	}
	items, places := spec.list("protocols")
	for i, p := range items {
		r.protocol(places[i], p)
	}
	r.set.Claims = append(r.set.Claims, req)
}

func (r *reader) bucketAccess(n *yaml.Node) {
	top := r.object(n, "", append(header, "spec")...)
	name := r.named(top, kindBucketAccess)
	before := len(r.errs)
	spec := r.spec(top, "bucketClaimName", "bucketAccessClassName", "credentialsSecretName", "serviceAccountName", "protocol")
	if len(r.errs) > before && len(spec.fields) == 0 {
		return
	}
	a := Access{Claim: spec.required("bucketClaimName"), Spec: claim.AccessSpec{
		Name: name, Class: spec.required("bucketAccessClassName"),
		SecretName: spec.text("credentialsSecretName"), ServiceAccount: spec.text("serviceAccountName"),
	}}
	if a.Claim != "" {
		spec.check("bucketClaimName", claim.CheckName("a BucketClaim", a.Claim))
	}
	if a.Spec.Class != "" {
		spec.check("bucketAccessClassName", claim.CheckName("a BucketAccessClass", a.Spec.Class))
	}
	spec.check("credentialsSecretName", claim.CheckString("credentialsSecretName", a.Spec.SecretName))
	spec.check("serviceAccountName", claim.CheckString("serviceAccountName", a.Spec.ServiceAccount))
	if p := spec.text("protocol"); p != "" {
		r.protocol(spec.place("protocol"), p)
	}
	r.set.Accesses = append(r.set.Accesses, a)
}

func (r *reader) protocol(p position, word string) {
	if known := []string{"S3", "Azure", "GCS"}; word != "" && !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, word) }) {
		r.fail(p, "protocol %q is none of %s", short(word), strings.Join(known, ", "))
	}
}
