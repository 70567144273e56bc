package creds

import (
	"path"
	"strings"
)

// Pointers are the environment variables that lead an application to the files
// in dir, as KEY=VALUE in a stable order. They hold no secret: they stand in CDI
// specs that anyone may read. Every variable comes twice, the second time behind
// a prefix made of the claim's name (PHOTOS_BUCKET_NAME; PHOTOS_READER_BUCKET_NAME
// for the access "reader"), so that a container with two buckets can tell them
// apart; of the plain names the last bucket's win there.
func Pointers(in Input, dir string) []string {
	plain := pointers(in, dir)
	env := make([]string, 0, 2*len(plain))
	env = append(env, plain...)
	prefix := Prefix(in.Claim, in.Access)
	for _, kv := range plain {
		env = append(env, prefix+kv)
	}
	return env
}

// DevicePointers are the environment variables that lead an application to the
// node of a claimed device: DEVICE_PATH, and the same behind a prefix made of the
// claim's name.
func DevicePointers(claim, node string) []string {
	return []string{"DEVICE_PATH=" + node, Prefix(claim, "") + "DEVICE_PATH=" + node}
}

func pointers(in Input, dir string) []string {
	var env []string
	set := func(key, value string) {
		if value != "" {
			env = append(env, key+"="+value)
		}
	}
	if s := in.Info.Spec.SecretS3; s != nil {
		set("AWS_SHARED_CREDENTIALS_FILE", path.Join(dir, CredentialsFile))
		set("AWS_CONFIG_FILE", path.Join(dir, ConfigFile))
		set("AWS_ENDPOINT_URL_S3", withoutSecrets(s.Endpoint))
		set("AWS_REGION", s.Region)
	}
	if s := in.Info.Spec.SecretAzure; s != nil {
		sas := parseSAS(s.AccessToken, in.Info.Spec.BucketName)
		set("AZURE_STORAGE_SAS_TOKEN_FILE", path.Join(dir, "AZURE_STORAGE_SAS_TOKEN"))
		set("AZURE_STORAGE_ACCOUNT", sas.account)
		set("AZURE_STORAGE_BLOB_ENDPOINT", sas.endpoint)
	}
	if s := in.Info.Spec.SecretGCS; s != nil {
		if s.PrivateKey != "" {
			set("GOOGLE_APPLICATION_CREDENTIALS", path.Join(dir, GoogleFile))
		}
		set("GOOGLE_CLOUD_PROJECT", s.ProjectID)
	}
	set("BUCKET_NAME", in.Info.Spec.BucketName)
	set("FAIRLEAD_BUCKET_INFO", path.Join(dir, BucketInfoFile))
	return env
}

// Prefix is what the second set of variables begins with: the claim's name, and
// the access's unless it is "default", in capitals with an underscore for every
// character that a variable cannot have. A name is never begun with a digit.
func Prefix(claim, access string) string {
	name := claim
	if access != "" && access != "default" {
		name += "_" + access
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		name = "_" + name
	}
	return name + "_"
}
