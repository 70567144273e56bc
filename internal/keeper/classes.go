package keeper

import (
	"maps"
	"slices"
	"sync"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/ledger"
)

// classes are the bucket classes and bucket access classes of this host.
type classes struct {
	ledger *ledger.Ledger
	mu     sync.RWMutex
	bucket map[string]claim.BucketClass
	access map[string]claim.AccessClass
}

// loadClasses reads the classes, and makes the one named "default" where a
// person has not made another of that name.
func loadClasses(l *ledger.Ledger) (*classes, error) {
	c := &classes{ledger: l, bucket: map[string]claim.BucketClass{}, access: map[string]claim.AccessClass{}}
	buckets, err := l.BucketClasses()
	if err != nil {
		return nil, err
	}
	for _, class := range buckets {
		c.bucket[class.Name] = class
	}
	accesses, err := l.AccessClasses()
	if err != nil {
		return nil, err
	}
	for _, class := range accesses {
		c.access[class.Name] = class
	}
	if _, ok := c.bucket[claim.DefaultName]; !ok {
		class := claim.BucketClass{Name: claim.DefaultName, Driver: claim.ObjectsDriver, DeletionPolicy: claim.Retain}
		if err := l.PutBucketClass(class); err != nil {
			return nil, err
		}
		c.bucket[class.Name] = class
	}
	return c, nil
}

func (c *classes) bucketClass(name string) (claim.BucketClass, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if class, ok := c.bucket[name]; ok {
		return class, nil
	}
	return claim.BucketClass{}, claim.Errorf(claim.CodeNotFound, "there is no bucket class %q", name).WithHint("see what there is: fairlead get classes")
}

func (c *classes) accessClass(name string) (claim.AccessClass, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if class, ok := c.access[name]; ok {
		return class, nil
	}
	return claim.AccessClass{}, claim.Errorf(claim.CodeNotFound, "there is no bucket access class %q", name).WithHint("see what there is: fairlead get classes")
}

// BucketClasses lists the bucket classes by name.
func (k *Keeper) BucketClasses() []claim.BucketClass {
	k.classes.mu.RLock()
	defer k.classes.mu.RUnlock()
	return sorted(k.classes.bucket)
}

// AccessClasses lists the bucket access classes by name.
func (k *Keeper) AccessClasses() []claim.AccessClass {
	k.classes.mu.RLock()
	defer k.classes.mu.RUnlock()
	return sorted(k.classes.access)
}

func sorted[T any](m map[string]T) []T {
	list := make([]T, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[name])
	}
	return list
}

// PutBucketClass makes or changes a bucket class and says which: "created",
// "changed" or "exists". Claims made from it before stay as they are.
func (k *Keeper) PutBucketClass(class claim.BucketClass) (result string, err error) {
	if err := claim.CheckName("a bucket class", class.Name); err != nil {
		return "", err
	}
	if class.DeletionPolicy, err = claim.ParseDeletionPolicy(string(class.DeletionPolicy)); err != nil {
		return "", err
	}
	if err := checkClass(&class.Driver, class.Parameters); err != nil {
		return "", err
	}
	c := k.classes
	c.mu.Lock()
	defer c.mu.Unlock()
	old, ok := c.bucket[class.Name]
	if ok && old.Driver == class.Driver && old.DeletionPolicy == class.DeletionPolicy && maps.Equal(old.Parameters, class.Parameters) {
		return "exists", nil
	}
	if err := c.ledger.PutBucketClass(class); err != nil {
		return "", err
	}
	c.bucket[class.Name] = class
	return madeOrChanged(ok), nil
}

// PutAccessClass makes or changes a bucket access class, as PutBucketClass.
func (k *Keeper) PutAccessClass(class claim.AccessClass) (result string, err error) {
	if err := claim.CheckName("a bucket access class", class.Name); err != nil {
		return "", err
	}
	if class.Authentication, err = claim.ParseAuthentication(string(class.Authentication)); err != nil {
		return "", err
	}
	if err := checkClass(&class.Driver, class.Parameters); err != nil {
		return "", err
	}
	c := k.classes
	c.mu.Lock()
	defer c.mu.Unlock()
	old, ok := c.access[class.Name]
	if ok && old.Driver == class.Driver && old.Authentication == class.Authentication && maps.Equal(old.Parameters, class.Parameters) {
		return "exists", nil
	}
	if err := c.ledger.PutAccessClass(class); err != nil {
		return "", err
	}
	c.access[class.Name] = class
	return madeOrChanged(ok), nil
}

// checkClass validates what the two kinds of class share. The driver need not
// be known yet, so that classes can be applied before it is added.
func checkClass(driver *string, parameters map[string]string) error {
	if *driver == "" {
		*driver = claim.ObjectsDriver
	}
	if err := claim.CheckString("the driver's name", *driver); err != nil {
		return err
	}
	return claim.CheckParameters(parameters)
}

func madeOrChanged(was bool) string {
	if was {
		return "changed"
	}
	return "created"
}

// DeleteBucketClass forgets a bucket class; the one named "default" stays.
func (k *Keeper) DeleteBucketClass(name string) error {
	if name == claim.DefaultName {
		return claim.Errorf(claim.CodeInvalid, "the bucket class %q stays; apply another of that name to change it", name)
	}
	if _, err := k.classes.bucketClass(name); err != nil {
		return err
	}
	c := k.classes
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ledger.DeleteBucketClass(name); err != nil {
		return err
	}
	delete(c.bucket, name)
	return nil
}

// DeleteAccessClass forgets a bucket access class.
func (k *Keeper) DeleteAccessClass(name string) error {
	if _, err := k.classes.accessClass(name); err != nil {
		return err
	}
	c := k.classes
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ledger.DeleteAccessClass(name); err != nil {
		return err
	}
	delete(c.access, name)
	return nil
}
