#!/bin/sh
# All tests with the race detector. What is linked against the embedded object
# store is slow to build that way, so the packages are built once, here.
set -eu

export FAIRLEAD_TEST_PREREQUISITES="${CI:-}"
go test -race -timeout 15m "$@"
