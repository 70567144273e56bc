// Package cosipb holds the protobuf stubs of COSI v1alpha1, generated from
// the specification's own text (COSI-016 to COSI-076).
package cosipb

//go:generate sh -c "cd ../.. && go tool protogen -spec spec/cosi-v1alpha1.md -proto cosi.proto -import github.com/fairlead/fairlead/cosi/cosipb -out cosi/cosipb"
