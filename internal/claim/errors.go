package claim

import (
	"errors"
	"fmt"
)

// Code says what kind of thing went wrong, for a program to act on. The codes
// are part of the daemon's API and decide the exit code of the command line.
type Code string

// The codes, each with the exit code it becomes.
const (
	CodeInternal    Code = "internal"     // 1: a defect or a failing disk
	CodeInvalid     Code = "invalid"      // 2: what was asked cannot be understood
	CodeNotFound    Code = "not_found"    // 3: no such object
	CodeConflict    Code = "conflict"     // 4: it exists, with other arguments
	CodeInUse       Code = "in_use"       // 5: leased, or not empty
	CodeDenied      Code = "denied"       // 6: the caller may not do that
	CodeUnavailable Code = "unavailable"  // 7: the daemon or a driver cannot be reached
	CodeTimeout     Code = "timeout"      // 8: not ready in the time given; still being worked on
	CodeDriver      Code = "driver_error" // 9: the driver refused
)

// Error is an error that a person can act on. It never holds a secret.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Hint says what to do, if possible as a command line; may be empty.
	Hint string `json:"hint,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error without a hint.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithHint returns a copy of e with that hint.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// CodeOf is the code of the first Error in err's chain, CodeInternal for any
// other error and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
