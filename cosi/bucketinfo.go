package cosi

// BucketInfo is what an application is told of its bucket: the content of
// upstream's BucketInfo.json, field for field. Exactly one of the three secrets
// is set; unlike upstream's, GCS is known too.
type BucketInfo struct {
	Metadata BucketInfoMetadata `json:"metadata"`
	Spec     BucketInfoSpec     `json:"spec"`
}

// BucketInfoMetadata names the object that the BucketInfo belongs to.
type BucketInfoMetadata struct {
	Name string `json:"name"`
}

// BucketInfoSpec is the bucket, and how to reach it.
type BucketInfoSpec struct {
	BucketName         string       `json:"bucketName"`
	AuthenticationType string       `json:"authenticationType"` // "Key" or "IAM"
	SecretS3           *SecretS3    `json:"secretS3"`
	SecretAzure        *SecretAzure `json:"secretAzure"`
	SecretGCS          *SecretGCS   `json:"secretGCS,omitempty"`
	Protocols          []string     `json:"protocols"` // "S3", "Azure" or "GCS"
}

// SecretS3 opens an S3 bucket.
type SecretS3 struct {
	Endpoint        string `json:"endpoint"` // URL
	Region          string `json:"region"`
	AccessKeyID     string `json:"accessKeyID"`
	AccessSecretKey string `json:"accessSecretKey"`
}

// SecretAzure opens an Azure Blob container.
type SecretAzure struct {
	AccessToken     string  `json:"accessToken"`     // a SAS URL or token
	ExpiryTimeStamp *string `json:"expiryTimeStamp"` // RFC 3339; nil is never
}

// SecretGCS opens a Google Cloud Storage bucket.
type SecretGCS struct {
	PrivateKeyName string `json:"privateKeyName,omitempty"`
	ProjectID      string `json:"projectID,omitempty"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
	AccessKeyID    string `json:"accessKeyID,omitempty"`     // HMAC key
	AccessSecret   string `json:"accessSecretKey,omitempty"` // HMAC secret
	PrivateKey     string `json:"privateKey,omitempty"`      // service account key, JSON
}
