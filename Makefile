# What people type. `make test` is what CI runs; it needs Go, and npm or an installed PostgreSQL.

GO       ?= go
TOOL      = $(GO) tool -modfile=tools/go.mod
FUZZTIME ?= 20s
SOAK     ?= 10m
RUN      ?= .

.PHONY: all build demo test deps test18 test15 short lint fmt fuzz mutate bench microbench soak clean

all: lint test

build:            ## the binary, in bin/
	CGO_ENABLED=0 $(GO) build -o bin/notifyworker ./cmd/notifyworker

demo:             ## real updates through a PostgreSQL of its own, in half a minute
	$(GO) run ./cmd/notifyworker demo

test: deps test18 test15   ## everything, with the race detector, on PostgreSQL 18 and on 15

deps:
	@tools/test-deps.sh

# The faults have the machine to themselves: their tests are about how long things take.
FAULTS = ./integration/faults
PARTS  = $$($(GO) list $(1) | grep -v '/integration/faults$$')

test18:
	NOTIFYWORKER_PG=18 $(GO) test -race -timeout 25m $(call PARTS,./...)
	NOTIFYWORKER_PG=18 $(GO) test -race -timeout 25m $(FAULTS)

test15:           ## what talks to PostgreSQL, on the distribution's 15
	NOTIFYWORKER_PG=15 $(GO) test -race -timeout 25m -short $(call PARTS,./internal/... ./examples/... ./migrations/... ./integration/...)
	NOTIFYWORKER_PG=15 $(GO) test -race -timeout 25m -short $(FAULTS)

short:            ## the quick ones
	$(GO) test -short ./...

lint:             ## vet, format and staticcheck
	$(GO) vet ./...
	@test -z "$$($(TOOL) gofumpt -l . | tee /dev/stderr)" || { echo 'run "make fmt"'; exit 1; }
	$(TOOL) staticcheck ./...

fmt:
	$(TOOL) gofumpt -w .

fuzz:             ## each fuzz target for FUZZTIME
	@for f in $$(grep -rl '^func Fuzz' --include='*_test.go' .); do \
	  for n in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\).*/\1/p' $$f); do \
	    echo "$$n in $$(dirname $$f)"; $(GO) test -run '^$$' -fuzz "^$$n$$" -fuzztime $(FUZZTIME) $$(dirname $$f) || exit 1; done; done

mutate:           ## takes lines out of the SQL, those that RUN matches, and says which tests fail: docs/mutations.md
	$(GO) run ./integration/mutate -run '$(RUN)' -write docs/mutations.md

bench:            ## notifyworker measured beside polling and other ways, in three minutes, on a PostgreSQL of its own
	$(GO) run ./cmd/notifyworker bench --short

microbench:       ## Go benchmarks of the hot paths, on a PostgreSQL with durable settings
	NOTIFYWORKER_PG_DURABLE=1 $(GO) test -run '^$$' -bench . -benchtime 2s ./internal/... ./integration/...

soak:             ## the fault tests in their long form, SOAK each; several at once
	$(GO) test -race -timeout 0 -v ./integration/faults -args -soak $(SOAK)

clean:
	rm -rf bin
