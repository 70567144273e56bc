package plugin

import (
	"bytes"
	"encoding/json"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const mask = "***"

// Field options that mark a secret: cosi_secret of COSI v1alpha1 (COSI-019),
// and CSI's csi_secret, which the COSI draft's cosi_secret equals (DRAFT-010).
const (
	cosiSecret protowire.Number = 1115
	csiSecret  protowire.Number = 1059
)

// Fields that hold secrets although their specification forgot to say so.
var secretNames = map[protoreflect.Name]bool{
	"credentials":               true,
	"secrets":                   true,
	"credentials_file_contents": true,
}

// Redact prints m as one line of JSON in which the value of every secret is
// "***"; keys of maps of secrets stay readable (COSI-020, COSI-149, COSI-175).
// It is made for logs: it never fails, and never prints what it cannot read.
func Redact(m proto.Message) string {
	if m == nil || !m.ProtoReflect().IsValid() {
		return "{}"
	}
	if holdsSecrets(m.ProtoReflect().Descriptor()) {
		m = proto.Clone(m)
		maskSecrets(m.ProtoReflect(), false)
	}
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return "{\"unprintable\":\"" + string(m.ProtoReflect().Descriptor().FullName()) + "\"}"
	}
	var line bytes.Buffer // protojson varies its white space on purpose
	if json.Compact(&line, raw) != nil {
		return string(raw)
	}
	return line.String()
}

// maskSecrets overwrites every secret below m, or everything if all is set.
func maskSecrets(m protoreflect.Message, all bool) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		secret := all || isSecret(fd)
		switch {
		case fd.IsMap():
			maskMap(fd, v.Map(), secret)
		case fd.IsList():
			maskList(fd, v.List(), secret)
		case fd.Message() != nil:
			maskSecrets(v.Message(), secret)
		case secret:
			setMasked(m, fd)
		}
		return true
	})
}

func maskMap(fd protoreflect.FieldDescriptor, m protoreflect.Map, secret bool) {
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		switch value := fd.MapValue(); {
		case value.Message() != nil:
			maskSecrets(v.Message(), secret)
		case secret:
			m.Set(k, maskedValue(value))
		}
		return true
	})
}

func maskList(fd protoreflect.FieldDescriptor, l protoreflect.List, secret bool) {
	for i := range l.Len() {
		switch {
		case fd.Message() != nil:
			maskSecrets(l.Get(i).Message(), secret)
		case secret:
			l.Set(i, maskedValue(fd))
		}
	}
}

func setMasked(m protoreflect.Message, fd protoreflect.FieldDescriptor) {
	m.Set(fd, maskedValue(fd))
}

func maskedValue(fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(mask)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(mask))
	default:
		return fd.Default()
	}
}

// isSecret reports whether a field holds a secret, by its options or its name.
// The options' bytes are read, since the extension need not be linked in.
func isSecret(fd protoreflect.FieldDescriptor) bool {
	if secretNames[fd.Name()] {
		return true
	}
	raw, err := proto.Marshal(fd.Options())
	if err != nil {
		return true
	}
	for len(raw) > 0 {
		num, typ, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return true
		}
		size := protowire.ConsumeFieldValue(num, typ, raw[n:])
		if size < 0 {
			return true
		}
		if (num == cosiSecret || num == csiSecret) && typ == protowire.VarintType && raw[n] != 0 {
			return true
		}
		raw = raw[n+size:]
	}
	return false
}

var withSecrets sync.Map // protoreflect.MessageDescriptor -> bool

// holdsSecrets reports whether a message of this type can hold a secret
// anywhere; the answer is worked out once per type.
func holdsSecrets(d protoreflect.MessageDescriptor) bool {
	if known, ok := withSecrets.Load(d); ok {
		return known.(bool)
	}
	found := searchSecrets(d, map[protoreflect.FullName]bool{})
	withSecrets.Store(d, found)
	return found
}

func searchSecrets(d protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[d.FullName()] {
		return false
	}
	seen[d.FullName()] = true
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		if isSecret(fd) || fd.Message() != nil && searchSecrets(fd.Message(), seen) {
			return true
		}
	}
	return false
}
