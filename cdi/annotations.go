package cdi

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// AnnotationPrefix begins the keys of the annotations of a container by which
// runtimes are asked for devices.
const AnnotationPrefix = "cdi.k8s.io/"

// AnnotationKey is the key under which a plugin asks for the devices of one
// allocation: cdi.k8s.io/PLUGIN_ID. plugin is by custom vendor.device-type; a
// slash in id becomes an underscore. What follows the prefix has at most 63
// characters, as Kubernetes has it.
func AnnotationKey(plugin, id string) (string, error) {
	if plugin == "" || id == "" {
		return "", fmt.Errorf("annotation key of plugin %q and id %q: one is empty: %w", plugin, id, ErrInvalid)
	}
	name := plugin + "_" + strings.ReplaceAll(id, "/", "_")
	if message := wrongName("name", name); message != "" {
		return "", fmt.Errorf("annotation key of plugin %q and id %q: %s: %w", plugin, id, message, ErrInvalid)
	}
	return AnnotationPrefix + name, nil
}

// Annotate returns annotations with one more, which asks for devices by their
// qualified names. A key that is taken is an error: one allocation would hide the
// other. annotations is not changed and may be nil.
func Annotate(annotations map[string]string, plugin, id string, devices ...string) (map[string]string, error) {
	key, err := AnnotationKey(plugin, id)
	if err != nil {
		return nil, err
	}
	if _, taken := annotations[key]; taken {
		return nil, fmt.Errorf("annotate with %q: the key is there already: %w", key, ErrConflict)
	}
	if len(devices) == 0 {
		return nil, fmt.Errorf("annotate with %q: there are no devices: %w", key, ErrInvalid)
	}
	for _, d := range devices {
		if _, _, _, err := ParseDevice(d); err != nil {
			return nil, fmt.Errorf("annotate with %q: %w", key, err)
		}
	}
	with := maps.Clone(annotations)
	if with == nil {
		with = map[string]string{}
	}
	with[key] = strings.Join(devices, ",")
	return with, nil
}

// ParseAnnotations returns the devices that annotations ask for, and the keys
// that they stand under: by key, and in the order of each value. A value that is
// not a list of qualified names is an error, and nothing is returned.
func ParseAnnotations(annotations map[string]string) (keys, devices []string, err error) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if !strings.HasPrefix(key, AnnotationPrefix) {
			continue
		}
		for device := range strings.SplitSeq(annotations[key], ",") {
			if _, _, _, err := ParseDevice(device); err != nil {
				return nil, nil, fmt.Errorf("annotation %q: %w", key, err)
			}
			devices = append(devices, device)
		}
		keys = append(keys, key)
	}
	return keys, devices, nil
}
