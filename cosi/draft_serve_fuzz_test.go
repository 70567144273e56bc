package cosi

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// FuzzOutOfRange gives a driver's refusals in any words.
func FuzzOutOfRange(f *testing.F) {
	for _, seed := range []string{`unknown parameter "zone"; known: region`, "multizone", "zone", "zones and zone", "", "\xff zone"} {
		f.Add(seed, "z1")
	}
	f.Fuzz(func(t *testing.T, message, zone string) {
		if i := indexWord(message, paramZone); i >= 0 && message[i:i+len(paramZone)] != paramZone {
			t.Fatalf("indexWord(%q) = %d", message, i)
		}
		place := map[string]string{paramZone: zone}
		err := outOfRange(status.Error(codes.InvalidArgument, message), place, place)
		moved := status.Code(err) == codes.OutOfRange
		if want := zone != "" && indexWord(message, paramZone) >= 0; moved != want {
			t.Fatalf("zone %q, message %q became %v", zone, message, err)
		}
		if err := outOfRange(status.Error(codes.NotFound, message), place, place); status.Code(err) != codes.NotFound {
			t.Fatalf("NOT_FOUND became %v", err)
		}
	})
}
