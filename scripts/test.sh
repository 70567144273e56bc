#!/bin/sh
# All tests with the race detector. Without its pause of a second at the end of
# each process: many tests are about processes that end.
set -eu

export GORACE="atexit_sleep_ms=0"
go test -race -timeout 15m "$@"
