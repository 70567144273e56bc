package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// bridge passes calls on, whatever service they are for.
type bridge struct {
	conn *grpc.ClientConn
	to   string // for messages
}

// anyCall may stream in both directions; one message each way is a case of it.
var anyCall = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

// handle passes one call on. Its context carries the caller's deadline and
// cancellation.
func (b *bridge) handle(_ any, in grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(in)
	if !ok {
		return status.Error(codes.Internal, "call without a method")
	}
	ctx, cancel := context.WithCancel(in.Context())
	defer cancel()
	md, subtype := endToEnd(in.Context())
	out, err := b.conn.NewStream(metadata.NewOutgoingContext(ctx, md), anyCall, method, grpc.CallContentSubtype(subtype))
	if err != nil {
		return b.away(ctx, err)
	}
	// It ends with this call: reading from a caller fails once the handler has returned.
	go func() {
		if forward(in, out) != nil {
			cancel() // the caller went away
		}
	}()
	return back(out, in)
}

// endToEnd is the caller's metadata less what belongs to one hop, and the
// message encoding that its content type names.
func endToEnd(ctx context.Context) (md metadata.MD, subtype string) {
	md, _ = metadata.FromIncomingContext(ctx)
	if types := md.Get("content-type"); len(types) > 0 {
		_, subtype, _ = strings.Cut(types[0], "+")
	}
	for key := range md {
		switch {
		case strings.HasPrefix(key, ":"):
		case key == "content-type", key == "user-agent", key == "te", key == "connection", key == "host":
		case key == "grpc-accept-encoding", key == "grpc-encoding", key == "grpc-timeout":
		default:
			continue
		}
		delete(md, key)
	}
	return md, subtype
}

// away is the error of a call that could not be passed on at all.
func (b *bridge) away(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	if status.Code(err) != codes.Unavailable {
		return err
	}
	return status.Error(codes.Unavailable, fmt.Sprintf("proxy cannot reach %s: %s", b.to, status.Convert(err).Message()))
}

// forward copies messages until the caller has sent its last one.
func forward(in grpc.ServerStream, out grpc.ClientStream) error {
	for {
		var m []byte
		switch err := in.RecvMsg(&m); {
		case errors.Is(err, io.EOF):
			return out.CloseSend()
		case err != nil:
			return err
		}
		switch err := out.SendMsg(&m); {
		case errors.Is(err, io.EOF): // the plugin has answered already; back sees what
			return nil
		case err != nil:
			return err
		}
	}
}

// back copies the answer: header, messages, trailer and status.
func back(out grpc.ClientStream, in grpc.ServerStream) error {
	header, err := out.Header()
	if err != nil {
		return err
	}
	if header != nil { // nil where there is only a trailer
		delete(header, "content-type")
		if err := in.SendHeader(header); err != nil {
			return err
		}
	}
	for {
		var m []byte
		if err := out.RecvMsg(&m); err != nil {
			in.SetTrailer(out.Trailer())
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err // the plugin's own status, details too
		}
		if err := in.SendMsg(&m); err != nil {
			return err
		}
	}
}

// rawCodec leaves messages as they are.
type rawCodec struct{}

// Name is the usual content subtype; a call's own replaces it.
func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("raw codec: cannot marshal %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*m)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("raw codec: cannot unmarshal into %T", v)
	}
	*m = data.Materialize()
	return nil
}
