package objectstore

import (
	"errors"
	"fmt"
)

// The facts a caller can act on; every error of Store that concerns the
// request wraps exactly one of them.
var (
	// ErrInvalid: the request can never be met, on this store or another.
	ErrInvalid = errors.New("invalid")
	// ErrOutOfRange: well formed, but this store cannot serve the value.
	ErrOutOfRange = errors.New("cannot be served")
	// ErrExists: the name is taken, with other arguments or by someone else.
	ErrExists = errors.New("exists already")
	// ErrNotFound: there is no such bucket.
	ErrNotFound = errors.New("not found")
	// ErrNotEmpty: the bucket has contents and force was not said.
	ErrNotEmpty = errors.New("not empty")
	// ErrNotOurs: the bucket was not made by this store, which keeps off it.
	ErrNotOurs = errors.New("not made by this store")
	// ErrExpired: the account exists, and its time is over.
	ErrExpired = errors.New("expired")
	// ErrBusy: requests are writing to the bucket; try again.
	ErrBusy = errors.New("in use")
	// ErrNoSpace: the disk is full.
	ErrNoSpace = errors.New("no space left")
	// ErrLocked: another process serves this directory.
	ErrLocked = errors.New("in use by another process")
	// ErrUnsupported: the file system cannot hold the store.
	ErrUnsupported = errors.New("unsupported file system")
)

// failure is an error for a person which is one of the facts above.
type failure struct {
	kind    error
	message string
}

func (f *failure) Error() string { return f.message }
func (f *failure) Unwrap() error { return f.kind }

func fail(kind error, format string, args ...any) error {
	return &failure{kind, fmt.Sprintf(format, args...)}
}
