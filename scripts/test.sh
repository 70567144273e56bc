#!/bin/sh
# The tests, with the race detector, of the packages given; of the whole tree,
# those of internal/bench/cdi too. That is a module of its own, so that upstream's
# CDI library is fetched for its tests alone, which compare ours with it, and is
# linked to nothing that we ship. They run without the race detector, which ours
# has seen already and under which they take four times as long.
set -eu

# Without the detector's pause of a second at the end of each process: many tests
# are about processes that end.
export GORACE="atexit_sleep_ms=0"
failed=
go test -race -timeout 15m "$@" || failed=yes
if [ "$*" = ./... ]; then
	(cd internal/bench/cdi && go test -timeout 10m ./...) || failed=yes
fi
[ -z "$failed" ]
