package plugin

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// BlameCaller returns desc with handlers that answer INVALID_ARGUMENT to a
// request that cannot be decoded, for example because a string in it is no
// valid UTF-8; gRPC itself would call that INTERNAL, as if it were the
// driver's fault (COSI-098).
func BlameCaller(desc grpc.ServiceDesc) *grpc.ServiceDesc {
	desc.Methods = slices.Clone(desc.Methods)
	for i, m := range desc.Methods {
		desc.Methods[i].Handler = func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			return m.Handler(srv, ctx, func(into any) error {
				if err := decode(into); err != nil {
					return status.Errorf(codes.InvalidArgument, "the request cannot be read: %s", status.Convert(err).Message())
				}
				return nil
			}, interceptor)
		}
	}
	return &desc
}
