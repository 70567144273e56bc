#!/bin/sh
# gofmt, go vet, staticcheck, the layers (.depguard.yaml), tidy modules: of the
# product and of the modules beside it.
set -eu

root=$PWD
tool() { go tool -modfile="$root/tools/go.mod" "$@"; }

unformatted=$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l)
if [ -n "$unformatted" ]; then
	echo "gofmt would change:"
	echo "$unformatted"
	exit 1
fi
for module in . tools internal/bench/cdi; do
	(cd "$module" && go mod tidy -diff)
done
for module in . internal/bench/cdi; do # tools has no code
	(cd "$module" && go vet ./... && tool staticcheck ./...)
done
tool depguard ./...
for f in scripts/*.sh .ci/run; do sh -n "$f"; done
