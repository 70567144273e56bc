package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxMessage keeps a driver's error text below what header lists may hold, in bytes.
const maxMessage = 4096

// CodeName is c as the specifications spell it, such as ALREADY_EXISTS.
func CodeName(c codes.Code) string { return code.Code(c).String() }

// Status turns whatever a driver returned as an error into the status that the
// specifications ask for: a canonical code, a human message, no details
// (COSI-092, COSI-093, COSI-112, COSI-114). The end of a context becomes
// DEADLINE_EXCEEDED or CANCELLED, an error without a code INTERNAL, a code that
// gRPC does not know, or OK, UNKNOWN. Nil stays nil.
func Status(err error) error {
	if err == nil {
		return nil
	}
	c, text := codes.Internal, err.Error()
	if s, ok := status.FromError(err); ok {
		c = s.Code()
		// A wrapped status shows its Go form in the middle of the sentence.
		text = strings.ReplaceAll(s.Message(), "rpc error: code = "+c.String()+" desc = ", "")
	} else if errors.Is(err, context.DeadlineExceeded) {
		c = codes.DeadlineExceeded
	} else if errors.Is(err, context.Canceled) {
		c = codes.Canceled
	}
	if c == codes.OK || c > codes.Unauthenticated {
		text = strings.TrimSuffix(fmt.Sprintf("the driver failed with the code %d, which no error has: %s", c, text), ": ")
		c = codes.Unknown
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if strings.TrimSpace(text) == "" {
		text = "the driver answered " + CodeName(c) + " and did not say why"
	}
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return status.Error(c, text)
}
