package objects

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/internal/objectstore"
)

// parameterError is a parameter that is wrong; it is ErrInvalid or
// ErrOutOfRange (COSI-098, COSI-126).
type parameterError struct {
	kind    error
	message string
}

func (e *parameterError) Error() string { return e.message }
func (e *parameterError) Unwrap() error { return e.kind }

func invalid(format string, args ...any) error {
	return &parameterError{objectstore.ErrInvalid, fmt.Sprintf(format, args...)}
}

func outOfRange(format string, args ...any) error {
	return &parameterError{objectstore.ErrOutOfRange, fmt.Sprintf(format, args...)}
}

func missing(field string) error { return invalid("%s is required", field) }

// known refuses keys that field does not have, naming those it has.
func known(field string, m map[string]string, keys ...string) error {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if slices.Contains(keys, k) {
			continue
		}
		if len(keys) == 0 {
			return invalid("unknown key %q in %s: it has no keys", k, field)
		}
		return invalid("unknown key %q in %s: known are %s", k, field, strings.Join(keys, ", "))
	}
	return nil
}

// parseBucket reads the parameters of DriverCreateBucket (COSI-053).
func parseBucket(m map[string]string, region string) (o objectstore.BucketOptions, err error) {
	if zone, ok := m["zone"]; ok {
		return o, outOfRange("zone %q: this store has no zones", zone)
	}
	err = known("parameters", m, "anonymousAccess", "objectLock", "quota", "region", "versioning")
	if err != nil {
		return o, err
	}
	if r, ok := m["region"]; ok && r != region {
		return o, outOfRange("region %q: this store serves only %s", r, region)
	}
	if o.Versioning, err = parseBool(m, "versioning"); err != nil {
		return o, err
	}
	if o.ObjectLock, err = parseBool(m, "objectLock"); err != nil {
		return o, err
	}
	if _, said := m["versioning"]; said && o.ObjectLock && !o.Versioning {
		return o, outOfRange("objectLock needs versions: versioning must not be false with it")
	}
	if q, ok := m["quota"]; ok {
		if o.Quota, err = parseQuota(q); err != nil {
			return o, err
		}
	}
	o.Anonymous, err = parseAccess(m, "anonymousAccess", outOfRange, objectstore.Private,
		objectstore.Private, objectstore.ReadOnly, objectstore.WriteOnly, objectstore.ReadWrite)
	return o, err
}

// parseDelete reads the delete context of DriverDeleteBucket (COSI-060).
func parseDelete(m map[string]string) (force bool, err error) {
	if err := known("delete_context", m, "force"); err != nil {
		return false, err
	}
	return parseBool(m, "force")
}

// parseGrant reads DriverGrantBucketAccess (COSI-067).
func parseGrant(in *cosipb.DriverGrantBucketAccessRequest) (o objectstore.GrantOptions, err error) {
	if in.GetName() == "" {
		return o, missing("name")
	}
	m := in.GetParameters()
	if err := known("parameters", m, "expiry", "mode", "prefix"); err != nil {
		return o, err
	}
	mode, err := parseAccess(m, "mode", invalid, objectstore.ReadWrite,
		objectstore.ReadWrite, objectstore.ReadOnly, objectstore.WriteOnly)
	if err != nil {
		return o, err
	}
	if e, ok := m["expiry"]; ok && e == "" {
		return o, invalid("expiry is empty: leave it out for credentials that do not expire")
	}
	return objectstore.GrantOptions{
		Bucket: in.GetBucketId(),
		Name:   in.GetName(),
		Mode:   mode,
		Prefix: m["prefix"],
		Expiry: m["expiry"],
	}, nil
}

// checkAuthentication lets only Key through. The zero value of the field is
// Unknown, which no caller may mean (COSI-038).
func checkAuthentication(t cosipb.AuthenticationType) error {
	switch t {
	case cosipb.AuthenticationType_Key:
		return nil
	case cosipb.AuthenticationType_IAM:
		return invalid("authentication_type IAM: this store has no identity service to bind a service account to; use Key")
	case cosipb.AuthenticationType_UnknownAuthenticationType:
		return missing("authentication_type")
	}
	return invalid("authentication_type %d is unknown; use Key", int32(t))
}

func parseBool(m map[string]string, key string) (bool, error) {
	switch v := m[key]; {
	case v == "true":
		return true, nil
	case v == "false":
		return false, nil
	default:
		if _, said := m[key]; said {
			return false, invalid("%s %q: must be true or false", key, v)
		}
		return false, nil
	}
}

// parseAccess reads one of the words in allowed; another is what wrong makes.
func parseAccess(m map[string]string, key string, wrong func(string, ...any) error, absent objectstore.Access, allowed ...objectstore.Access) (objectstore.Access, error) {
	v, said := m[key]
	if !said {
		return absent, nil
	}
	if slices.Contains(allowed, objectstore.Access(v)) {
		return objectstore.Access(v), nil
	}
	names := make([]string, len(allowed))
	for i, a := range allowed {
		names[i] = string(a)
	}
	return "", wrong("%s %q: must be one of %s", key, v, strings.Join(names, ", "))
}

// units are the suffixes of a quota, in the words of Kubernetes' quantities.
var units = []struct {
	suffix string
	bytes  int64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"Pi", 1 << 50},
	{"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15},
}

// parseQuota reads bytes, or a whole number with a unit: 10Gi, 500M.
func parseQuota(v string) (int64, error) {
	digits, factor := v, int64(1)
	for _, u := range units {
		if d, ok := strings.CutSuffix(v, u.suffix); ok {
			digits, factor = d, u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, outOfRange("quota %q is too large", v)
	}
	if err != nil {
		return 0, invalid("quota %q: must be a number of bytes, or one with a unit such as 10Gi or 500M", v)
	}
	if n == 0 {
		return 0, outOfRange("quota %q: must be more than nothing; leave it out for no quota", v)
	}
	if n > uint64(math.MaxInt64/factor) {
		return 0, outOfRange("quota %q is too large", v)
	}
	return int64(n) * factor, nil
}
