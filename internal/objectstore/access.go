package objectstore

import "encoding/json"

// What reading and writing mean in S3's actions. Object actions apply to keys,
// bucket actions to the bucket itself. No account may change a bucket's
// configuration or policy: those are Fairlead's parameters.
var (
	readObject = []string{
		"s3:GetObject", "s3:GetObjectVersion", "s3:GetObjectAttributes", "s3:GetObjectVersionAttributes",
		"s3:GetObjectTagging", "s3:GetObjectVersionTagging", "s3:GetObjectRetention", "s3:GetObjectLegalHold",
	}
	putObject = []string{
		"s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts",
		"s3:PutObjectTagging", "s3:PutObjectRetention", "s3:PutObjectLegalHold",
	}
	deleteObject = []string{
		"s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutObjectVersionTagging",
		"s3:DeleteObjectTagging", "s3:DeleteObjectVersionTagging",
	}
	seeBucket = []string{
		"s3:GetBucketLocation", "s3:GetBucketVersioning", "s3:GetBucketObjectLockConfiguration",
	}
	listKeys    = []string{"s3:ListBucket", "s3:ListBucketVersions"}
	listUploads = []string{"s3:ListBucketMultipartUploads"}

	anonymousRead  = []string{"s3:GetObject"}
	anonymousList  = []string{"s3:ListBucket"}
	anonymousWrite = []string{"s3:PutObject"}
)

type policy struct {
	Version   string      `json:"Version"`
	Statement []statement `json:"Statement"`
}

type statement struct {
	Effect    string                         `json:"Effect"`
	Principal string                         `json:"Principal"`
	Action    []string                       `json:"Action"`
	Resource  string                         `json:"Resource"`
	Condition map[string]map[string][]string `json:"Condition,omitempty"`
}

// policyFor is the bucket's policy as far as it concerns one request: what
// anybody may do, and what the caller may. account is nil for a caller without
// credentials, or with another bucket's. looking is true for HEAD on the bucket
// itself, by which clients find out whether it is there.
func policyFor(bucket string, anonymous Access, account *accountRecord, looking bool) []byte {
	p := policy{Version: "2012-10-17", Statement: anonymousStatements(bucket, anonymous)}
	if account != nil {
		p.Statement = append(p.Statement, accountStatements(account, looking)...)
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings only
	}
	return b
}

func allow(principal string, actions []string, resource string) statement {
	return statement{Effect: "Allow", Principal: principal, Action: actions, Resource: "arn:aws:s3:::" + resource}
}

func anonymousStatements(bucket string, a Access) []statement {
	s := []statement{}
	if a.reads() {
		s = append(s, allow("*", anonymousRead, bucket+"/*"), allow("*", anonymousList, bucket))
	}
	if a.writes() {
		s = append(s, allow("*", anonymousWrite, bucket+"/*"))
	}
	return s
}

func accountStatements(a *accountRecord, looking bool) []statement {
	bucket, who := a.Grant.Bucket, a.ID
	keys := bucket + "/" + a.Grant.Prefix + "*"
	s := []statement{allow(who, seeBucket, bucket)}
	if a.Grant.Mode.reads() {
		s = append(s, allow(who, readObject, keys), underPrefix(allow(who, listKeys, bucket), a.Grant.Prefix))
	}
	if a.Grant.Mode.writes() {
		s = append(s, allow(who, putObject, keys), underPrefix(allow(who, listUploads, bucket), a.Grant.Prefix))
	}
	if a.Grant.Mode == ReadWrite {
		s = append(s, allow(who, deleteObject, keys))
	}
	if looking {
		s = append(s, allow(who, anonymousList, bucket))
	}
	return s
}

// underPrefix lets a listing through only where it asks for the prefix.
func underPrefix(s statement, prefix string) statement {
	if prefix != "" {
		s.Condition = map[string]map[string][]string{"StringLike": {"s3:prefix": {prefix + "*"}}}
	}
	return s
}
