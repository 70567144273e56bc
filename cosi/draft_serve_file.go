package cosi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/internal/plugin"
)

// draftFile renders S3 credentials as the draft's credentials_file_contents.
// They are an AWS credentials file with a default section, which has room for
// keys of 76 bytes in all (the usual 20 and 40 fit) within the 128 bytes that
// the draft allows (DRAFT-024). Longer keys, up to 89 bytes, are given as the
// JSON object {"accessKeyID":…,"accessSecretKey":…}. There is no room for
// endpoint and region: the draft's caller has to know them.
func draftFile(credentials map[string]*cosipb.CredentialDetails) (string, error) {
	s3 := credentials[protocolS3].GetSecrets()
	id, secret := s3[s3AccessKeyID], s3[s3AccessSecretKey]
	if id == "" || secret == "" {
		return "", errors.New("they are no S3 access key")
	}
	// A line break would put other settings into the file.
	if strings.ContainsAny(id+secret, "\r\n") {
		return "", errors.New("the key holds a line break")
	}
	file := fmt.Sprintf("[default]\naws_access_key_id=%s\naws_secret_access_key=%s\n", id, secret)
	if len(file) <= plugin.MaxString {
		return file, nil
	}
	compact, err := json.Marshal(struct {
		ID     string `json:"accessKeyID"`
		Secret string `json:"accessSecretKey"`
	}{id, secret})
	if err != nil {
		return "", err
	}
	if len(compact) > plugin.MaxString {
		return "", fmt.Errorf("a key of %d bytes does not fit into %d", len(id)+len(secret), plugin.MaxString)
	}
	return string(compact), nil
}

// outOfRange turns INVALID_ARGUMENT into OUT_OF_RANGE if it is region or zone
// that the driver refused, be it because it does not know such a parameter
// (DRAFT-036). Which one it refused shows in its message: it is the first of
// the parameters that the message names, as what follows may be a list of
// those it knows.
func outOfRange(err error, parameters, place map[string]string) error {
	s := status.Convert(err)
	if s.Code() != codes.InvalidArgument {
		return err
	}
	first, named := len(s.Message()), ""
	for key := range parameters {
		if i := indexWord(s.Message(), key); i >= 0 && i < first {
			first, named = i, key
		}
	}
	if (named == paramRegion || named == paramZone) && place[named] != "" {
		return status.Errorf(codes.OutOfRange, "the bucket cannot be placed in %s %q: %s", named, place[named], s.Message())
	}
	return err
}

// indexWord is the index of word in text where no letter or digit touches it, or -1.
func indexWord(text, word string) int {
	isWord := func(c byte) bool {
		return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
	}
	for from := 0; word != ""; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			break
		}
		i += from
		end := i + len(word)
		if (i == 0 || !isWord(text[i-1])) && (end == len(text) || !isWord(text[end])) {
			return i
		}
		from = i + 1
	}
	return -1
}
