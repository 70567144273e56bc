#!/bin/sh
# gofmt, go vet, staticcheck, the layers (.depguard.yaml), tidy modules.
set -eu

tool() { go tool -modfile=tools/go.mod "$@"; }

unformatted=$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l)
if [ -n "$unformatted" ]; then
	echo "gofmt would change:"
	echo "$unformatted"
	exit 1
fi
go mod tidy -diff
go vet ./...
tool staticcheck ./...
tool depguard ./...
for f in scripts/*.sh .ci/run; do sh -n "$f"; done
