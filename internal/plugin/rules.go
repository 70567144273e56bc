package plugin

import (
	"fmt"
	"maps"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// General limits of COSI and of CSI, in bytes; a field's own description may
// override them (COSI-081 to COSI-083).
const (
	MaxString = 128
	MaxMap    = 4096 // all keys and values of one map<string,string>
)

// Tables are the rules of one specification that its descriptors cannot say.
// Every key is the full name of a field, for example
// "cosi.v1alpha1.DriverCreateBucketRequest.name". The zero value adds nothing
// to the general limits.
type Tables struct {
	// MaxBytes overrides the general limit of a string or map<string,string>.
	MaxBytes map[protoreflect.FullName]int
	// Required fields must not be empty: a scalar not zero, a list or map not
	// without elements, a message set (COSI-084, COSI-085, COSI-087).
	Required []protoreflect.FullName
	// Closed enum fields take only values that the descriptor names.
	Closed []protoreflect.FullName
}

// Rules are Tables made ready: what to check of a message type is worked out
// once, at the type's first message. The zero value checks the general limits.
// Rules are safe for concurrent use, and copies share what was worked out.
type Rules struct{ *rules }

type rules struct {
	maxBytes map[protoreflect.FullName]int
	required map[protoreflect.FullName]bool
	closed   map[protoreflect.FullName]bool
	plans    sync.Map // protoreflect.MessageDescriptor -> *plan
}

var generalRules = NewRules(Tables{})

// NewRules makes tables ready for [CheckMessage].
func NewRules(t Tables) Rules { return Rules{}.With(t) }

// With returns r and t together; where both limit a field, t wins.
func (r Rules) With(t Tables) Rules {
	sum := &rules{
		maxBytes: map[protoreflect.FullName]int{},
		required: map[protoreflect.FullName]bool{},
		closed:   map[protoreflect.FullName]bool{},
	}
	if r.rules != nil {
		maps.Copy(sum.maxBytes, r.maxBytes)
		maps.Copy(sum.required, r.required)
		maps.Copy(sum.closed, r.closed)
	}
	maps.Copy(sum.maxBytes, t.MaxBytes)
	for _, name := range t.Required {
		sum.required[name] = true
	}
	for _, name := range t.Closed {
		sum.closed[name] = true
	}
	return Rules{sum}
}

// FieldError says which field of a message breaks which rule.
type FieldError struct {
	Field  string // path within the message, such as "parameters" or "credentials[s3].secrets"
	Reason string // such as "is required"
}

func (e *FieldError) Error() string { return "field " + e.Field + " " + e.Reason }

// CheckMessage walks m by its descriptor and returns a [*FieldError] for the
// first field that is required and missing, too long, no valid UTF-8, or an
// unknown value of a closed enum. A nil error means that m obeys r.
func CheckMessage(m proto.Message, r Rules) error {
	if r.rules == nil {
		r = generalRules
	}
	// A nil error must be an untyped nil, so no direct return.
	if err := r.check(m.ProtoReflect()); err != nil {
		return err
	}
	return nil
}

// plan is what must be looked at in a message of one type; fields that no rule
// can touch are not in it.
type plan struct{ fields []fieldPlan }

type fieldPlan struct {
	fd       protoreflect.FieldDescriptor
	kind     fieldKind
	max      int
	required bool
	closed   bool
	secret   bool // keys are names of secrets (COSI-129)
}

type fieldKind uint8

const (
	otherField fieldKind = iota
	stringField
	stringList
	stringMap
	enumField
	messageField
	messageList
	messageMap
)

func (r *rules) plan(d protoreflect.MessageDescriptor) *plan {
	if p, ok := r.plans.Load(d); ok {
		return p.(*plan)
	}
	p := &plan{}
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		f := fieldPlan{
			fd: fd, kind: kindOf(fd),
			required: r.required[fd.FullName()],
			closed:   r.closed[fd.FullName()],
			secret:   isSecret(fd),
		}
		f.max = MaxString
		if f.kind == stringMap {
			f.max = MaxMap
		}
		if n, ok := r.maxBytes[fd.FullName()]; ok {
			f.max = n
		}
		if f.kind != otherField || f.required {
			p.fields = append(p.fields, f)
		}
	}
	r.plans.Store(d, p)
	return p
}

func kindOf(fd protoreflect.FieldDescriptor) fieldKind {
	isString := fd.Kind() == protoreflect.StringKind
	isMessage := fd.Message() != nil
	switch {
	case fd.IsMap():
		value := fd.MapValue()
		switch {
		case value.Message() != nil:
			return messageMap
		case value.Kind() == protoreflect.StringKind && fd.MapKey().Kind() == protoreflect.StringKind:
			return stringMap
		}
	case fd.IsList() && isString:
		return stringList
	case fd.IsList() && isMessage:
		return messageList
	case fd.IsList():
	case isString:
		return stringField
	case isMessage:
		return messageField
	case fd.Enum() != nil:
		return enumField
	}
	return otherField
}

func (r *rules) check(m protoreflect.Message) *FieldError {
	fields := r.plan(m.Descriptor()).fields
	for i := range fields {
		f := &fields[i]
		if !m.Has(f.fd) {
			if f.required {
				return f.fail("is required")
			}
			continue
		}
		if err := r.checkField(f, m.Get(f.fd)); err != nil {
			return err
		}
	}
	return nil
}

func (r *rules) checkField(f *fieldPlan, v protoreflect.Value) *FieldError {
	switch f.kind {
	case stringField:
		return f.checkString(v.String())
	case stringList:
		for i := range v.List().Len() {
			if err := f.checkString(v.List().Get(i).String()); err != nil {
				return err
			}
		}
	case stringMap:
		return f.checkMap(v.Map())
	case enumField:
		if f.closed && f.fd.Enum().Values().ByNumber(v.Enum()) == nil {
			return f.fail("has the unknown value %d", v.Enum())
		}
	case messageField:
		return r.check(v.Message()).within(f)
	case messageList:
		for i := range v.List().Len() {
			if err := r.check(v.List().Get(i).Message()); err != nil {
				return err.within(f, i)
			}
		}
	case messageMap:
		return r.checkMessages(f, v.Map())
	}
	return nil
}

func (r *rules) checkMessages(f *fieldPlan, m protoreflect.Map) (err *FieldError) {
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		if !utf8.ValidString(k.String()) {
			err = f.fail("has a key that is no valid UTF-8")
		} else {
			err = r.check(v.Message()).within(f, short(k.String()))
		}
		return err == nil
	})
	return err
}

func (f *fieldPlan) checkString(s string) *FieldError {
	if len(s) > f.max {
		return f.fail("has %d bytes, more than the limit of %d", len(s), f.max)
	}
	if !utf8.ValidString(s) {
		return f.fail("is no valid UTF-8")
	}
	return nil
}

func (f *fieldPlan) checkMap(m protoreflect.Map) (err *FieldError) {
	size := 0
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		key, value := k.String(), v.String()
		size += len(key) + len(value)
		switch {
		case !utf8.ValidString(key) || !utf8.ValidString(value):
			err = f.fail("holds text that is no valid UTF-8")
		case f.secret && !isSecretKey(key):
			err = f.fail("has the key %q: only letters, digits, '-', '_' and '.' are allowed", short(key))
		}
		return err == nil
	})
	if err == nil && size > f.max {
		err = f.fail("has %d bytes of keys and values, more than the limit of %d", size, f.max)
	}
	return err
}

// isSecretKey reports whether key may name a secret (COSI-129).
func isSecretKey(key string) bool {
	for _, c := range []byte(key) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return key != ""
}

func (f *fieldPlan) fail(format string, args ...any) *FieldError {
	return &FieldError{Field: string(f.fd.Name()), Reason: fmt.Sprintf(format, args...)}
}

// within puts the field's name, and the index or key if there is one, before
// the path of an error found inside of it.
func (e *FieldError) within(f *fieldPlan, index ...any) *FieldError {
	if e == nil {
		return nil
	}
	name := string(f.fd.Name())
	if len(index) > 0 {
		name = fmt.Sprintf("%s[%v]", name, index[0])
	}
	return &FieldError{Field: name + "." + e.Field, Reason: e.Reason}
}

// short keeps a hostile key from filling a message.
func short(s string) string {
	if len(s) <= 32 {
		return s
	}
	return s[:32] + "…"
}
