// Package draftpb holds the messages of the older COSI draft (DRAFT-015 to
// DRAFT-027), generated from its text.
//
// The draft uses the protobuf package and the service name of v1alpha1 for
// other methods, so one process cannot register both (DRAFT-007). Its messages
// are therefore kept under a protobuf package of their own, which never shows
// on the wire, and the service is described by hand where it is served. Its
// custom options, which no field of it uses, are left out: their numbers are
// those of CSI's (DRAFT-010).
package draftpb

//go:generate sh -c "cd ../.. && go tool protogen -spec spec/cosi-draft.md -proto cosi-draft.proto -package fairlead.cosi.draft -drop-options -services=false -import github.com/fairlead/fairlead/cosi/draftpb -out cosi/draftpb"
