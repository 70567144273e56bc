package cosi

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fairlead/fairlead/internal/plugin"
)

// callerRules are the fields that must be there in what a caller sends and in
// what a plugin answers (COSI-084, COSI-085). bucket_info is not among them:
// the text never calls it REQUIRED, and a bucket without it can be granted on.
var callerRules = plugin.NewRules(plugin.Tables{
	Required: []protoreflect.FullName{
		"cosi.v1alpha1.DriverGetInfoResponse.name",                             // COSI-046
		"cosi.v1alpha1.DriverCreateBucketRequest.name",                         // COSI-051
		"cosi.v1alpha1.DriverCreateBucketResponse.bucket_id",                   // COSI-055
		"cosi.v1alpha1.DriverDeleteBucketRequest.bucket_id",                    // COSI-058
		"cosi.v1alpha1.DriverGrantBucketAccessRequest.bucket_id",               // COSI-063
		"cosi.v1alpha1.DriverGrantBucketAccessRequest.name",                    // COSI-064
		"cosi.v1alpha1.DriverGrantBucketAccessRequest.authentication_type",     // COSI-065
		"cosi.v1alpha1.DriverGrantBucketAccessResponse.account_id",             // COSI-069
		"cosi.v1alpha1.DriverGrantBucketAccessResponse.credentials",            // COSI-070
		"cosi.v1alpha1.DriverRevokeBucketAccessRequest.bucket_id",              // COSI-072
		"cosi.v1alpha1.DriverRevokeBucketAccessRequest.account_id",             // COSI-073
		"fairlead.cosi.draft.ProvisionerGetInfoResponse.provisioner_identity",  // DRAFT-017
		"fairlead.cosi.draft.ProvisionerCreateBucketRequest.bucket_name",       // DRAFT-033
		"fairlead.cosi.draft.ProvisionerDeleteBucketRequest.bucket_name",       // COSI-058
		"fairlead.cosi.draft.ProvisionerGrantBucketAccessRequest.bucket_name",  // COSI-063
		"fairlead.cosi.draft.ProvisionerGrantBucketAccessRequest.principal",    // COSI-064
		"fairlead.cosi.draft.ProvisionerGrantBucketAccessResponse.principal",   // DRAFT-025
		"fairlead.cosi.draft.ProvisionerRevokeBucketAccessRequest.bucket_name", // COSI-072
		"fairlead.cosi.draft.ProvisionerRevokeBucketAccessRequest.principal",   // COSI-073
	},
	Closed: []protoreflect.FullName{
		"cosi.v1alpha1.DriverGrantBucketAccessRequest.authentication_type", // COSI-065
	},
})

// checkPluginName holds a DriverGetInfo name to COSI-047 and COSI-049.
func checkPluginName(name string) error {
	if len(name) > 63 {
		return badAnswer("answer to DriverGetInfo: field name is longer than 63 characters")
	}
	for i := range len(name) {
		b := name[i]
		alnum := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
		edge := i == 0 || i == len(name)-1
		if !alnum && (edge || b != '-' && b != '.') {
			return badAnswer("answer to DriverGetInfo: field name %q must begin and end with a letter or digit, with only letters, digits, '-' and '.' between", name)
		}
	}
	return nil
}
