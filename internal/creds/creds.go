// Package creds writes what an application reads of its bucket: BucketInfo.json,
// one file per value, the files of the AWS tools and whatever a template makes
// of them, in a directory whose content changes all at once. It knows nothing
// of claims or drivers; the keeper decides when it writes.
package creds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"unicode"

	"github.com/fairlead/fairlead/cosi"
)

// The names of the files that are no single value.
const (
	BucketInfoFile  = "BucketInfo.json"
	CredentialsFile = "credentials" // AWS_SHARED_CREDENTIALS_FILE
	ConfigFile      = "config"      // AWS_CONFIG_FILE
	GoogleFile      = "google-credentials.json"
)

// Input is one access and what is known of its bucket.
type Input struct {
	Claim  string // the claim's name, also that of the AWS profile
	Access string // the access's name
	Info   cosi.BucketInfo
	// Templates are further files by name: the text of Go templates over the
	// BucketInfo, with the names of its JSON form ({{.spec.bucketName}}).
	Templates map[string]string
}

// Render returns the content of every file by name. A value that cannot be
// written faithfully is an error that names the field and never holds the value.
// Values of which nothing is known have no file.
func Render(in Input) (map[string][]byte, error) {
	if strings.ContainsAny(in.Claim, "[]\"\\#; \t\r\n\x00") {
		return nil, fmt.Errorf("render credentials: %q cannot be the name of a profile", in.Claim)
	}
	if err := checkInfo(in.Info); err != nil {
		return nil, fmt.Errorf("render credentials of claim %q: %w", in.Claim, err)
	}
	info, err := bucketInfo(in.Info)
	if err != nil {
		return nil, fmt.Errorf("render credentials of claim %q: %w", in.Claim, err)
	}
	files := map[string][]byte{BucketInfoFile: info}
	for key, value := range flatKeys(in.Info) {
		files[key] = []byte(value)
	}
	if s3 := in.Info.Spec.SecretS3; s3 != nil {
		files[CredentialsFile] = awsCredentials(in.Claim, s3)
		files[ConfigFile] = awsConfig(in.Claim, s3)
	}
	if gcs := in.Info.Spec.SecretGCS; gcs != nil && gcs.PrivateKey != "" {
		files[GoogleFile] = []byte(gcs.PrivateKey)
	}
	extra, err := renderTemplates(in.Templates, info)
	if err != nil {
		return nil, fmt.Errorf("render credentials of claim %q: %w", in.Claim, err)
	}
	maps.Copy(files, extra)
	return files, nil
}

// bucketInfo is upstream's Secret value: compact JSON. HTML escapes are off, so
// that the & of a SAS token is found by a person who greps for it.
func bucketInfo(info cosi.BucketInfo) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(info); err != nil {
		return nil, fmt.Errorf("encode %s: %w", BucketInfoFile, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// checkInfo refuses values that would change the meaning of a line they are
// written to: an INI file and an environment have no way to quote them.
func checkInfo(info cosi.BucketInfo) error {
	fields := []struct{ name, value string }{{"bucketName", info.Spec.BucketName}}
	if s := info.Spec.SecretS3; s != nil {
		if u := withoutSecrets(s.Endpoint); u != s.Endpoint {
			return fmt.Errorf("secretS3.endpoint is not a plain URL: no user, query or fragment may stand in it")
		}
		fields = append(fields, []struct{ name, value string }{
			{"secretS3.endpoint", s.Endpoint}, {"secretS3.region", s.Region},
			{"secretS3.accessKeyID", s.AccessKeyID}, {"secretS3.accessSecretKey", s.AccessSecretKey},
		}...)
	}
	if s := info.Spec.SecretAzure; s != nil {
		fields = append(fields, struct{ name, value string }{"secretAzure.accessToken", s.AccessToken})
	}
	if s := info.Spec.SecretGCS; s != nil {
		fields = append(fields, []struct{ name, value string }{
			{"secretGCS.privateKeyName", s.PrivateKeyName}, {"secretGCS.projectID", s.ProjectID},
			{"secretGCS.serviceAccount", s.ServiceAccount}, {"secretGCS.accessKeyID", s.AccessKeyID},
			{"secretGCS.accessSecretKey", s.AccessSecret},
		}...)
	}
	for _, f := range fields {
		if strings.ContainsFunc(f.value, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			return fmt.Errorf("%s holds a space or a control character", f.name)
		}
	}
	return nil
}
