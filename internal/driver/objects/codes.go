package objects

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/internal/objectstore"
)

// status is the one place where what went wrong becomes a gRPC code (COSI-095).
// Errors that are nobody's fault become Internal.
func status(err error) error {
	code := codes.Internal
	for _, m := range []struct {
		kind error
		code codes.Code
	}{
		{objectstore.ErrInvalid, codes.InvalidArgument},
		{objectstore.ErrOutOfRange, codes.OutOfRange},
		{objectstore.ErrExists, codes.AlreadyExists},
		{objectstore.ErrNotFound, codes.NotFound},
		{objectstore.ErrNotEmpty, codes.FailedPrecondition},
		{objectstore.ErrNotOurs, codes.FailedPrecondition},
		{objectstore.ErrExpired, codes.FailedPrecondition},
		{objectstore.ErrBusy, codes.Aborted},
		{objectstore.ErrNoSpace, codes.ResourceExhausted},
		{context.Canceled, codes.Canceled},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
	} {
		if errors.Is(err, m.kind) {
			code = m.code
			break
		}
	}
	return grpcstatus.Error(code, err.Error())
}
