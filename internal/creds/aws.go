package creds

import (
	"fmt"
	"strings"

	"github.com/fairlead/fairlead/cosi"
)

// awsCredentials is the content of AWS_SHARED_CREDENTIALS_FILE: the same key as
// profile default and under the claim's name. An access without a key (IAM) has
// profiles without one, so that a tool goes on to its next source.
func awsCredentials(claim string, s3 *cosi.SecretS3) []byte {
	var b strings.Builder
	for i, profile := range profiles(claim) {
		separate(&b, i)
		fmt.Fprintf(&b, "[%s]\n", profile)
		property(&b, "aws_access_key_id", s3.AccessKeyID)
		property(&b, "aws_secret_access_key", s3.AccessSecretKey)
	}
	return []byte(b.String())
}

// awsConfig is the content of AWS_CONFIG_FILE. There all profiles but default
// are called "profile NAME". Buckets are addressed by path: no name of the
// endpoint's has to resolve for each bucket.
func awsConfig(claim string, s3 *cosi.SecretS3) []byte {
	var b strings.Builder
	for i, profile := range profiles(claim) {
		separate(&b, i)
		if i > 0 {
			profile = "profile " + profile
		}
		fmt.Fprintf(&b, "[%s]\n", profile)
		property(&b, "region", s3.Region)
		property(&b, "endpoint_url", s3.Endpoint)
		b.WriteString("s3 =\n    addressing_style = path\n")
	}
	return []byte(b.String())
}

// profiles are the names a key is found under; a parser refuses a name twice.
func profiles(claim string) []string {
	if claim == "" || claim == "default" {
		return []string{"default"}
	}
	return []string{"default", claim}
}

func separate(b *strings.Builder, i int) {
	if i > 0 {
		b.WriteByte('\n')
	}
}

func property(b *strings.Builder, key, value string) {
	if value != "" {
		fmt.Fprintf(b, "%s = %s\n", key, value)
	}
}
