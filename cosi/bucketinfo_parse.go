package cosi

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

// The outer keys of a [Grant]'s credentials, and the keys of "s3".
const (
	protocolS3    = "s3"
	protocolAzure = "azure"
	protocolGCS   = "gcs"

	s3Endpoint        = "endpoint"
	s3Region          = "region"
	s3AccessKeyID     = "accessKeyID"
	s3AccessSecretKey = "accessSecretKey"
)

// BucketInfo makes of the grant what an application is told: name is that of
// the BucketInfo itself, bucketName the bucket's in the object store. Where a
// plugin gave credentials for several protocols, S3 goes before Azure before
// GCS. Errors name the missing or invalid key, and never show a value that is
// secret. Under IAM the keys that are secret may be missing.
func (g Grant) BucketInfo(name, bucketName string, auth cosipb.AuthenticationType) (BucketInfo, error) {
	info := BucketInfo{
		Metadata: BucketInfoMetadata{Name: name},
		Spec:     BucketInfoSpec{BucketName: bucketName, AuthenticationType: auth.String()},
	}
	if auth != cosipb.AuthenticationType_Key && auth != cosipb.AuthenticationType_IAM {
		return BucketInfo{}, fmt.Errorf("make bucket info %q: authentication type is %v; want Key or IAM", name, auth)
	}
	withKey := auth == cosipb.AuthenticationType_Key
	if err := g.fill(&info.Spec, withKey); err != nil {
		return BucketInfo{}, fmt.Errorf("make bucket info %q: %w", name, err)
	}
	return info, nil
}

func (g Grant) fill(spec *BucketInfoSpec, withKey bool) error {
	protocol, values, err := g.choose()
	if err != nil {
		return err
	}
	s := secrets{protocol: protocol, values: values}
	switch protocol {
	case protocolS3:
		spec.SecretS3, spec.Protocols = s.s3(withKey), []string{"S3"}
	case protocolAzure:
		spec.SecretAzure, spec.Protocols = s.azure(withKey), []string{"Azure"}
	case protocolGCS:
		spec.SecretGCS, spec.Protocols = s.gcs(withKey), []string{"GCS"}
	}
	s.checkAll()
	if len(s.problems) > 0 {
		return errors.New(strings.Join(s.problems, "; "))
	}
	return nil
}

// choose returns the credentials of the first protocol that is known.
func (g Grant) choose() (protocol string, values map[string]string, err error) {
	for _, protocol := range []string{protocolS3, protocolAzure, protocolGCS} {
		if values, ok := g.Credentials[protocol]; ok {
			return protocol, values, nil
		}
	}
	if file, ok := g.Credentials[protocolFile]; ok { // a draft plugin's, that could not be read: say why
		values, err := s3FromFile(file)
		return protocolS3, values, err
	}
	if len(g.Credentials) == 0 {
		return "", nil, errors.New("the plugin gave no credentials")
	}
	return "", nil, fmt.Errorf("the plugin gave credentials for %q; want s3, azure or gcs", slices.Sorted(maps.Keys(g.Credentials)))
}

// secrets reads the credentials of one protocol and collects what is wrong.
type secrets struct {
	protocol string
	values   map[string]string
	problems []string
}

func (s *secrets) fail(key, format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf("credentials[%q]: %s %s", s.protocol, key, fmt.Sprintf(format, args...)))
}

// need returns a value that must be there and not be empty, if must is true.
func (s *secrets) need(key string, must bool) string {
	v, ok := s.values[key]
	switch {
	case !must:
	case !ok:
		s.fail(key, "is missing")
	case v == "":
		s.fail(key, "is empty")
	}
	return v
}

// checkAll holds every key to COSI-129 and every value to COSI-130.
func (s *secrets) checkAll() {
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if key == "" || strings.ContainsFunc(key, notInSecretKey) {
			s.fail(strconv.Quote(key), "is no valid key: only letters, digits, '-', '_' and '.' are allowed")
		}
		if v := s.values[key]; !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
			s.fail(strconv.Quote(key), "has a value that is no valid text")
		}
	}
}

func notInSecretKey(r rune) bool {
	alnum := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !alnum && r != '-' && r != '_' && r != '.'
}

func (s *secrets) s3(withKey bool) *SecretS3 {
	out := &SecretS3{
		Endpoint:        s.need(s3Endpoint, true),
		AccessKeyID:     s.need(s3AccessKeyID, withKey),
		AccessSecretKey: s.need(s3AccessSecretKey, withKey),
	}
	if u, err := url.Parse(out.Endpoint); out.Endpoint != "" &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		s.fail(s3Endpoint, "is no http:// or https:// URL")
	}
	region, ok := s.values[s3Region] // may be empty: not every store has regions
	if !ok {
		s.fail(s3Region, "is missing")
	}
	out.Region = region
	return out
}

func (s *secrets) azure(withKey bool) *SecretAzure {
	out := &SecretAzure{AccessToken: s.need("accessToken", withKey)}
	if text := s.values["expiryTs"]; text != "" {
		at, err := parseExpiry(text)
		if err != nil {
			s.fail("expiryTs", "%v", err)
		}
		stamp := at.Format(time.RFC3339)
		out.ExpiryTimeStamp = &stamp
	}
	return out
}

// parseExpiry reads RFC 3339 or seconds since 1970, as plugins give either.
func parseExpiry(text string) (time.Time, error) {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		// RFC 3339 has no year 10000.
		if at := time.Unix(seconds, 0).UTC(); seconds > 0 && at.Year() <= 9999 && seconds < 1<<40 {
			return at, nil
		}
	} else if at, err := time.Parse(time.RFC3339, text); err == nil {
		if at = at.UTC(); at.Year() >= 0 && at.Year() <= 9999 {
			return at, nil
		}
	}
	return time.Time{}, errors.New("is neither a time such as 2026-01-02T15:04:05Z nor seconds since 1970")
}

// gcs takes a service account's key (privateKey) or an HMAC key; upstream never
// defined the keys, so these are named like its other ones.
func (s *secrets) gcs(withKey bool) *SecretGCS {
	out := &SecretGCS{
		PrivateKeyName: s.values["privateKeyName"],
		ProjectID:      s.values["projectID"],
		ServiceAccount: s.values["serviceAccount"],
		PrivateKey:     s.values["privateKey"],
	}
	hmac := out.PrivateKey == "" || s.values[s3AccessKeyID] != "" || s.values[s3AccessSecretKey] != ""
	out.AccessKeyID = s.need(s3AccessKeyID, withKey && hmac)
	out.AccessSecret = s.need(s3AccessSecretKey, withKey && hmac)
	return out
}
