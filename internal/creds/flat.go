package creds

import (
	"net/url"
	"strings"

	"github.com/fairlead/fairlead/cosi"
)

// flatNames are all names that flatKeys can give; a template may use none.
var flatNames = []string{
	"BUCKET_NAME",
	"AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION",
	"AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_URL", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_BLOB_ENDPOINT", "AZURE_EXPIRY_TIMESTAMP",
	"GOOGLE_CLOUD_PROJECT", "GCS_SERVICE_ACCOUNT", "GCS_PRIVATE_KEY_NAME", "GCS_ACCESS_KEY_ID", "GCS_SECRET_ACCESS_KEY",
}

// flatKeys are the single values by the names that tools know them under.
// Empty values are left out: a tool takes an empty AWS_REGION for a region.
func flatKeys(info cosi.BucketInfo) map[string]string {
	keys := map[string]string{"BUCKET_NAME": info.Spec.BucketName}
	if s := info.Spec.SecretS3; s != nil {
		keys["AWS_ENDPOINT_URL"] = s.Endpoint
		keys["AWS_ACCESS_KEY_ID"] = s.AccessKeyID
		keys["AWS_SECRET_ACCESS_KEY"] = s.AccessSecretKey
		keys["AWS_REGION"] = s.Region
		keys["AWS_DEFAULT_REGION"] = s.Region // the Python tools still want it
	}
	if s := info.Spec.SecretAzure; s != nil {
		sas := parseSAS(s.AccessToken, info.Spec.BucketName)
		keys["AZURE_STORAGE_SAS_TOKEN"] = sas.token
		keys["AZURE_STORAGE_SAS_URL"] = sas.url
		keys["AZURE_STORAGE_ACCOUNT"] = sas.account
		keys["AZURE_STORAGE_BLOB_ENDPOINT"] = sas.endpoint
		if s.ExpiryTimeStamp != nil {
			keys["AZURE_EXPIRY_TIMESTAMP"] = *s.ExpiryTimeStamp
		}
	}
	if s := info.Spec.SecretGCS; s != nil {
		keys["GOOGLE_CLOUD_PROJECT"] = s.ProjectID
		keys["GCS_SERVICE_ACCOUNT"] = s.ServiceAccount
		keys["GCS_PRIVATE_KEY_NAME"] = s.PrivateKeyName
		keys["GCS_ACCESS_KEY_ID"] = s.AccessKeyID
		keys["GCS_SECRET_ACCESS_KEY"] = s.AccessSecret
	}
	for k, v := range keys {
		if v == "" {
			delete(keys, k)
		}
	}
	return keys
}

// sas is an Azure access token taken apart. Only token is set when the driver
// gave a bare token; endpoint and account hold no secret.
type sas struct{ token, url, account, endpoint string }

// parseSAS reads "sv=…&sig=…", "?sv=…" or a URL of the container with that query.
func parseSAS(token, container string) sas {
	u, err := url.Parse(token)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return sas{token: strings.TrimPrefix(token, "?")}
	}
	s := sas{token: u.RawQuery, url: token}
	path := strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/"+container)
	s.endpoint = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: path}).String()
	if account, _, ok := strings.Cut(u.Hostname(), ".blob."); ok {
		s.account = account
	} else {
		s.account = strings.TrimPrefix(path, "/") // as an emulator has it: http://host/account
	}
	return s
}

// withoutSecrets is the URL less what can carry one; "" if it cannot be parsed.
func withoutSecrets(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	if u.User == nil && u.RawQuery == "" && !u.ForceQuery && u.Fragment == "" && !strings.Contains(raw, "#") {
		return raw
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	return u.String()
}
