package objectstore

import "time"

// Access is what somebody may do with a bucket, in the words of COSI's
// AnonymousBucketAccessMode (COSI-037).
type Access string

// The kinds of access. For anonymous access "write" is putting objects; for an
// account ReadWrite also deletes, and WriteOnly puts but does not delete.
const (
	Private   Access = "Private"
	ReadOnly  Access = "ReadOnly"
	WriteOnly Access = "WriteOnly"
	ReadWrite Access = "ReadWrite"
)

func (a Access) reads() bool  { return a == ReadOnly || a == ReadWrite }
func (a Access) writes() bool { return a == WriteOnly || a == ReadWrite }

// BucketOptions are a bucket's parameters. Two buckets are the same if these
// are equal. The zero value is a private bucket without versions or limit.
type BucketOptions struct {
	Versioning bool `json:"versioning,omitempty"`
	// ObjectLock implies Versioning.
	ObjectLock bool `json:"objectLock,omitempty"`
	// Quota is in bytes: objects, versions and parts of unfinished uploads
	// together. Zero is no limit.
	Quota int64 `json:"quota,omitempty"`
	// Anonymous is what a request without credentials may do. The zero
	// value means Private.
	Anonymous Access `json:"anonymousAccess,omitempty"`
}

// normal gives equal options one spelling.
func (o BucketOptions) normal() BucketOptions {
	o.Versioning = o.Versioning || o.ObjectLock
	if o.Anonymous == "" {
		o.Anonymous = Private
	}
	return o
}

// bucketRecord is what the store remembers of a bucket. It never changes but
// for Deleting, which is set once.
type bucketRecord struct {
	Name    string        `json:"name"`
	UID     string        `json:"uid"`
	Created time.Time     `json:"created"`
	Options BucketOptions `json:"options"`
	// Deleting says that the contents may be gone already.
	Deleting bool `json:"deleting,omitempty"`
}

// GrantOptions name an account and say what it may do.
type GrantOptions struct {
	Bucket string `json:"bucket"`
	// Name identifies the account in the whole store (COSI-033).
	Name string `json:"name"`
	// Mode is ReadWrite, ReadOnly or WriteOnly. The zero value means
	// ReadWrite.
	Mode Access `json:"mode"`
	// Prefix limits the account to keys that begin with it.
	Prefix string `json:"prefix,omitempty"`
	// Expiry is empty for never, an RFC 3339 time, or a duration such as
	// "24h" that counts from the first grant.
	Expiry string `json:"expiry,omitempty"`
}

func (o GrantOptions) normal() GrantOptions {
	if o.Mode == "" {
		o.Mode = ReadWrite
	}
	return o
}

// accountRecord is what the store remembers of an account. It never changes.
type accountRecord struct {
	// ID is the account's id and its access key id, both.
	ID      string       `json:"id"`
	Created time.Time    `json:"created"`
	Grant   GrantOptions `json:"grant"`
	// ExpiresAt is Grant.Expiry made absolute; the zero time is never.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Secret is the secret key, sealed under the host key for this ID.
	Secret []byte `json:"secret"`
}

func (a *accountRecord) expired(now time.Time) bool {
	return !a.ExpiresAt.IsZero() && !now.Before(a.ExpiresAt)
}

// Credentials open one bucket.
type Credentials struct {
	// AccountID identifies the account to Revoke.
	AccountID string
	// Endpoint is a URL.
	Endpoint        string
	Region          string
	AccessKeyID     string
	AccessSecretKey string
}
