package plugin

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// RedactError returns err with every secret that one of the messages holds
// masked in its text, be it plain, quoted, URL-escaped or in base64. A gRPC
// status keeps its code and loses its details. An error that shows no secret
// is returned as it is.
func RedactError(err error, messages ...proto.Message) error {
	if err == nil {
		return nil
	}
	s, isStatus := status.FromError(err)
	text := err.Error()
	if isStatus {
		text = s.Message()
	}
	clean := RedactText(text, messages...)
	switch {
	case clean == text:
		return err
	case isStatus:
		return status.Error(s.Code(), clean)
	default:
		return redactedError{clean}
	}
}

// redactedError wraps nothing: what it would unwrap to still shows the secret.
type redactedError struct{ text string }

func (e redactedError) Error() string { return e.text }

// RedactText masks in text every secret that one of the messages holds.
func RedactText(text string, messages ...proto.Message) string {
	var secrets []string
	for _, m := range messages {
		if m != nil && m.ProtoReflect().IsValid() && holdsSecrets(m.ProtoReflect().Descriptor()) {
			secrets = collect(secrets, m.ProtoReflect(), false)
		}
	}
	// The longest first: a secret may be part of another one.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, s := range secrets {
		for _, form := range forms(s) {
			text = maskIn(text, form)
		}
	}
	return text
}

func forms(secret string) []string {
	quoted := strconv.Quote(secret)
	all := []string{
		secret, quoted[1 : len(quoted)-1], url.QueryEscape(secret), url.PathEscape(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// minSecret is the length from which a secret is masked even inside of a word;
// masking a shorter one anywhere would make a text unreadable, and tell it.
const minSecret = 4

func maskIn(text, secret string) string {
	if secret == "" || secret == mask {
		return text
	}
	if len(secret) >= minSecret {
		return strings.ReplaceAll(text, secret, mask)
	}
	var out strings.Builder
	for {
		i := strings.Index(text, secret)
		if i < 0 {
			out.WriteString(text)
			return out.String()
		}
		end := i + len(secret)
		whole := (i == 0 || !isWord(text[i-1])) && (end == len(text) || !isWord(text[end]))
		out.WriteString(text[:i])
		if whole {
			out.WriteString(mask)
		} else {
			out.WriteString(secret)
		}
		text = text[end:]
	}
}

func isWord(c byte) bool {
	return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// collect adds the text of every secret below m, or all text if all is set.
func collect(to []string, m protoreflect.Message, all bool) []string {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		secret := all || isSecret(fd)
		switch {
		case fd.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				to = collectValue(to, fd.MapValue(), v, secret)
				return true
			})
		case fd.IsList():
			for i := range v.List().Len() {
				to = collectValue(to, fd, v.List().Get(i), secret)
			}
		default:
			to = collectValue(to, fd, v, secret)
		}
		return true
	})
	return to
}

func collectValue(to []string, fd protoreflect.FieldDescriptor, v protoreflect.Value, secret bool) []string {
	switch {
	case fd.Message() != nil:
		return collect(to, v.Message(), secret)
	case !secret:
	case fd.Kind() == protoreflect.StringKind:
		return append(to, v.String())
	case fd.Kind() == protoreflect.BytesKind:
		return append(to, string(v.Bytes()))
	}
	return to
}
