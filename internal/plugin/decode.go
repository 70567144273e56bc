package plugin

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec used below
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// BlameCaller returns desc with handlers that answer INVALID_ARGUMENT to a
// request that cannot be decoded, for example because a string in it is no
// valid UTF-8; gRPC itself would call that INTERNAL, as if it were the
// driver's fault (COSI-098). It takes a server with [patientCodec].
func BlameCaller(desc grpc.ServiceDesc) *grpc.ServiceDesc {
	desc.Methods = slices.Clone(desc.Methods)
	for i, m := range desc.Methods {
		desc.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			return m.Handler(srv, ctx, func(into any) error {
				r := received{into: into}
				if err := decode(&r); err != nil {
					return err
				}
				if r.err != nil {
					return status.Errorf(codes.InvalidArgument, "the request cannot be read: %v", r.err)
				}
				return nil
			}, interceptor)
		}
	}
	return &desc
}

// received is a message to decode into, and what came of it.
type received struct {
	into any
	err  error
}

// patientCodec is gRPC's own protobuf codec, but that it leaves an error in a
// [received] rather than return it: gRPC answers a returned one by itself, at
// once and with INTERNAL.
type patientCodec struct{ encoding.CodecV2 }

func newPatientCodec() patientCodec { return patientCodec{encoding.GetCodecV2("proto")} }

func (c patientCodec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*received)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	r.err = c.CodecV2.Unmarshal(data, r.into)
	return nil
}
