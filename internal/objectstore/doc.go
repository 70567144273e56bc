// Package objectstore is the S3 store of one host: buckets and accounts that
// Fairlead makes, served by an embedded S3 gateway over a directory.
//
// # What is true
//
// One bbolt file holds a record per bucket and per account, and it alone says
// what exists. The rest is derived from it and made again where it is missing:
//
//	ROOT/store.db     the records; secrets are sealed under host.key
//	ROOT/host.key     this host's key (0600)
//	ROOT/buckets/B/…  the objects of bucket B; a key is a path
//	ROOT/versions/B/… the older versions of its objects
//	ROOT/staging/     bucket directories not yet in place
//	ROOT/trash/       deleted buckets, on their way out
//
// A bucket's directory carries the uid of its record in an extended attribute;
// a directory without that mark is somebody else's (brownfield): it can be
// granted on and is never changed or deleted.
//
// # What survives
//
// Making a bucket, granting and revoking each are one durable commit, shared
// with the callers that come at the same time. A bucket's directory is made when
// it is first used, and again where a power loss took it: it held nothing then,
// for an object that was acknowledged has synced every directory above itself.
//
// The gateway's own backend never syncs. Here each change is acknowledged only
// after the file (data and attributes), and each directory up to the bucket's
// root, is on disk; and the data of a new file is synced before it takes its
// name (see attributes.StoreAttribute), so that a power loss leaves the old
// object or the new one, never a torn one. Temporary files live in .sgwtmp of
// their bucket and are swept at the next start.
//
// # Who may do what
//
// No policy is stored. The policy that the gateway asks for is made for each
// request from the bucket's anonymous access and the caller's own account, so
// that concurrent grants cannot lose one another, a revocation rewrites
// nothing, and both hold from the next request on. Buckets belong to a root
// account whose secret exists only in this process's memory.
package objectstore
