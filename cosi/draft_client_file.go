package cosi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The names of a draft plugin's credentials_file_contents and
// credentials_file_path (DRAFT-024) in a [Grant]'s credentials.
const (
	protocolFile = "file"
	fileContents = "contents"
	filePath     = "path"
)

// fileKeys are the spellings of each "s3" key in credential files, lower case
// without '_' and '-': AWS's own, upstream's BucketInfo and common JSON.
var fileKeys = map[string]string{
	"awsaccesskeyid":     s3AccessKeyID,
	"accesskeyid":        s3AccessKeyID,
	"accesskey":          s3AccessKeyID,
	"awssecretaccesskey": s3AccessSecretKey,
	"secretaccesskey":    s3AccessSecretKey,
	"accesssecretkey":    s3AccessSecretKey,
	"secretkey":          s3AccessSecretKey,
	"endpoint":           s3Endpoint,
	"endpointurl":        s3Endpoint,
	"awsendpointurl":     s3Endpoint,
	"awsendpointurls3":   s3Endpoint,
	"region":             s3Region,
	"awsregion":          s3Region,
	"awsdefaultregion":   s3Region,
}

var fileKeyCleaner = strings.NewReplacer("_", "", "-", "")

// parseCredentialsFile reads S3 credentials from a file's contents: the AWS
// credentials format (its "default" section, or else its first one) or a JSON
// object. Its errors never show the contents.
func parseCredentialsFile(contents string) (map[string]string, error) {
	parse := parseAWSCredentials
	if strings.HasPrefix(strings.TrimSpace(contents), "{") {
		parse = parseJSONCredentials
	}
	s3, err := parse(contents)
	if err != nil {
		return nil, fmt.Errorf("credentials_file_contents: %w", err)
	}
	for _, key := range []string{s3AccessKeyID, s3AccessSecretKey} {
		if s3[key] == "" {
			return nil, fmt.Errorf("credentials_file_contents: %s is missing", key)
		}
	}
	return s3, nil
}

func parseJSONCredentials(contents string) (map[string]string, error) {
	var object map[string]any
	if err := json.Unmarshal([]byte(contents), &object); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("malformed JSON at byte %d", syntax.Offset)
		}
		return nil, errors.New("no JSON object")
	}
	s3 := map[string]string{}
	for key, value := range object {
		if err := setFileKey(s3, key, value); err != nil {
			return nil, err
		}
	}
	return s3, nil
}

// setFileKey refuses two spellings of one key that differ: which one is meant
// would depend on the order of a map.
func setFileKey(s3 map[string]string, key string, value any) error {
	name, ok := fileKeys[fileKeyCleaner.Replace(strings.ToLower(key))]
	if !ok {
		return nil
	}
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("%s is no string", key)
	}
	if old, ok := s3[name]; ok && old != text {
		return fmt.Errorf("%s is given twice", name)
	}
	s3[name] = text
	return nil
}

func parseAWSCredentials(contents string) (map[string]string, error) {
	sections := map[string]map[string]string{}
	first, current := "", ""
	for i, line := range strings.Split(contents, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, ok = strings.CutSuffix(name, "]")
			if current = strings.TrimSpace(name); !ok || current == "" {
				return nil, fmt.Errorf("line %d is no [section]", i+1)
			}
			if sections[current] == nil {
				sections[current] = map[string]string{}
			}
			if first == "" {
				first = current
			}
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		switch {
		case !ok:
			return nil, fmt.Errorf("line %d is no key = value", i+1)
		case current == "":
			return nil, fmt.Errorf("line %d comes before any [section]", i+1)
		}
		if err := setFileKey(sections[current], strings.TrimSpace(key), strings.TrimSpace(value)); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if s3, ok := sections["default"]; ok {
		return s3, nil
	}
	if first == "" {
		return nil, errors.New("no [section]")
	}
	return sections[first], nil
}
