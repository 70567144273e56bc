package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/internal/plugin"
)

type liar struct{}

func (liar) Error() string              { return "not really" }
func (liar) GRPCStatus() *status.Status { return status.New(codes.OK, "fine") }

// Req: COSI-092, COSI-093, COSI-112, COSI-114
func TestStatus(t *testing.T) {
	detailed, err := status.New(codes.NotFound, "no bucket").WithDetails(&cosipb.S3{Region: "r"})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		in   error
		code codes.Code
		text string
	}{
		"details":       {detailed.Err(), codes.NotFound, "no bucket"},
		"no message":    {status.Error(codes.NotFound, ""), codes.NotFound, "the driver answered NOT_FOUND and did not say why"},
		"blank message": {status.Error(codes.Canceled, " \n"), codes.Canceled, "the driver answered CANCELLED and did not say why"},
		"wrapped":       {fmt.Errorf("make bucket: %w", detailed.Err()), codes.NotFound, "make bucket: no bucket"},
		"plain error":   {errors.New("disk on fire"), codes.Internal, "disk on fire"},
		"empty error":   {errors.New(""), codes.Internal, "the driver answered INTERNAL and did not say why"},
		"deadline":      {fmt.Errorf("ask store: %w", context.DeadlineExceeded), codes.DeadlineExceeded, "ask store: context deadline exceeded"},
		"cancelled":     {context.Canceled, codes.Canceled, "context canceled"},
		"code 42":       {status.Error(42, "odd"), codes.Unknown, "the driver failed with the code 42, which no error has: odd"},
		"code OK":       {liar{}, codes.Unknown, "the driver failed with the code 0, which no error has: fine"},
		"no UTF-8":      {errors.New("a\xffb"), codes.Internal, "a\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) {
			s := status.Convert(plugin.Status(test.in))
			if s.Code() != test.code || s.Message() != test.text || len(s.Proto().GetDetails()) != 0 {
				t.Errorf("got %v %q with %d details; want %v %q", s.Code(), s.Message(), len(s.Proto().GetDetails()), test.code, test.text)
			}
		})
	}
	if plugin.Status(nil) != nil {
		t.Error("nil became an error")
	}
	long := status.Convert(plugin.Status(errors.New(strings.Repeat("ü", 10000)))).Message()
	if len(long) > 5000 || !utf8.ValidString(long) {
		t.Errorf("message of %d bytes", len(long))
	}
}
