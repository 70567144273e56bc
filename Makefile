# make help lists what there is. Everything that a target needs it brings:
# Go modules through go, programs through apt-get on Debian as root.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# Two builds of one commit are equal to the byte: no paths, no build ids of
# this machine, no time but the commit's.
GOBUILD = CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w -buildid= -X main.version=$(VERSION)'
TOOL    = go tool -modfile=tools/go.mod
PACKAGES ?= ./...
PREFIX  ?= /usr/local

.PHONY: help build install demo test lint bench bench-cdi differences generate man clean prerequisites

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/fairlead and bin/fairlead-hook, static and reproducible
	$(GOBUILD) -o bin/fairlead ./cmd/fairlead
	$(GOBUILD) -o bin/fairlead-hook ./cmd/fairlead-hook

# CDI specs name the hook by its absolute path; fairlead looks for it beside itself.
install: build ## both programs and the man pages below PREFIX (/usr/local), below DESTDIR
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 0755 bin/fairlead bin/fairlead-hook $(DESTDIR)$(PREFIX)/bin
	install -m 0644 docs/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1

demo: prerequisites build ## a bucket from claim to container, explained on the way
	@PATH="$(CURDIR)/bin:$$PATH" sh scripts/demo.sh

test: prerequisites ## all tests, with the race detector
	sh scripts/test.sh $(PACKAGES)

lint: ## formatting, go vet, staticcheck, layering, tidy modules
	sh scripts/lint.sh

bench: build ## the tables of docs/reference/performance.md
	@PATH="$(CURDIR)/bin:$$PATH" go run ./internal/bench
	@$(MAKE) --no-print-directory bench-cdi
	go test ./cmd/fairlead-hook -run '^$$' -bench .

bench-cdi: build ## our CDI library beside upstream's, in a module of its own
	cd internal/bench/cdi && go run . -program ../../../bin/fairlead

differences: ## the part of make test that compares our CDI library with upstream's
	cd internal/bench/cdi && go test ./...

generate: ## stubs, pages and whatever else is made from something
	go generate ./...

man: build ## man pages below docs/man
	bin/fairlead man docs/man

prerequisites:
	@sh scripts/prerequisites.sh

clean: ## remove what was built
	rm -rf bin
