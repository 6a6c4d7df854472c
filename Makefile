# "make help" lists the targets.

GO ?= go
FUZZTIME ?= 2m
# A go test run that takes longer than this hangs; make test has no such limit, but
# one on silence.
TIMEOUT ?= 2h

.DEFAULT_GOAL := help
.PHONY: help build demo test kill conformance conformance-modules golden kernel fuzz bench bench-apply bench-ipvs bench-kernel same cross lint tidy dist dist-check

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What a release is built for, and the flags by which its bytes depend on the
# source, the version and the Go release alone.
PLATFORMS ?= linux/amd64 linux/arm64
VERSION ?= $(shell git describe --tags --always --dirty)
REPRODUCIBLE = -trimpath -buildvcs=false -ldflags '-s -w -buildid= -X svcc/cmd/svcc/cli.version=$(VERSION)'
DIST ?= dist
CHECK ?= linux/amd64

build: ## the binary, bin/svcc
	$(GO) build -o bin/svcc ./cmd/svcc

demo: build ## compile the example cluster and print the rules of its node-0
	bin/svcc build docs/example --node node-0 --cluster-cidr 10.128.0.0/9

# Quick packages first, then the slowest, then the rest, that both cores stay busy.
QUICK = ./ir/...,./compiler/...,./emit/...,./golden/testrun
REST = ./golden,./apply/ipvs,./apply,./cmd/...,./golden/uml,./...

test: ## go vet and every test, quick ones first; installs what they need (.ci/setup); ALL=1 for all of what is sampled
	@.ci/setup
	$(GO) vet ./...
	@$(if $(ALL),SVCC_ALL=1) PATH="$$PATH:/usr/local/sbin:/usr/sbin:/sbin" $(GO) run ./golden/testrun $(QUICK) $(REST)

# A module of its own, so that svcc needs none of its modules. GOWORK=off: a
# workspace around svcc is none of its. -vet=off: vet would look at each of its 850
# packages.
CONFORMANCE = cd conformance && GOWORK=off $(GO)

conformance-modules:
	@$(CONFORMANCE) list -deps -test ./... >/dev/null || { \
	  echo "conformance: the modules of conformance/go.sum are not in the module cache and cannot be downloaded;"; \
	  echo "set GOPROXY to a proxy that this machine can reach, or fill the cache there: cd conformance && go mod download"; exit 1; }

conformance: conformance-modules ## svcc beside k8s.io/kubernetes: input beside its API server's, -O 0 beside its kube-proxy's (ARGS="-run TestInput -seed N")
	@echo "compiling k8s.io/kubernetes and svcc; the first time some minutes"
	@$(CONFORMANCE) test -vet=off -count=1 -timeout $(TIMEOUT) $(ARGS)

golden: ## write anew what golden cases derive from the compiler (never their trace lines)
	$(GO) test -count=1 ./golden -update

kernel: ## only the tests that send packets through a kernel (root)
	$(GO) test -count=1 -timeout $(TIMEOUT) -run Kernel ./...

kill: ## runs killed at every call of a tool and at many moments, of which make test takes a few (root, 10 minutes)
	SVCC_ALL=1 $(GO) test -count=1 -v -timeout 2h -run 'Killed|ToldToStop' ./apply

fuzz: ## each fuzz target for FUZZTIME (default 2m)
	@set -e; for pkg in $$($(GO) list ./...); do \
	  list=$$($(GO) test -list '^Fuzz' $$pkg); \
	  for target in $$(echo "$$list" | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
	  done; \
	done

bench: ## time, memory and size of builds of 100, 1000 and 10000 services; how commands grow with one Service
	$(GO) run ./golden/bench

bench-apply: ## what an apply costs on a node with 10000 services (root, 2 minutes; ARGS="-O 0", -services N)
	$(GO) run ./golden/applybench $(ARGS)

bench-ipvs: ## what an apply in IPVS mode costs, inside User Mode Linux (2 minutes)
	SVCC_BENCH_IPVS=1 $(GO) test -count=1 -v -timeout 30m ./golden/ipvsbench

bench-kernel: ## what rules cost in the kernel, at each level and of each iptables (root, 15 minutes; ARGS=-quick: 3)
	$(GO) run ./golden/kernelbench $(ARGS)

same: ## the working tree's svcc writes the same bytes as that of BASE=<commit> (ARGS=-messages: and says the same)
	@test -n "$(BASE)" || { echo "same: BASE=<commit> is missing"; exit 2; }
	$(GO) run ./golden/samebytes -base '$(BASE)' $(ARGS)

# Where people review, and where nodes run.
REVIEWERS = darwin/arm64 windows/amd64
NODES = arm64 arm ppc64le s390x

lint: ## gofmt, go vet, staticcheck, and govulncheck where its database can be had
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted:"; echo "$$files"; exit 1; fi
	$(GO) vet ./...
	@set -e; for p in $(REVIEWERS); do echo "go build for $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/svcc; done
	@set -e; for a in $(NODES); do echo "go vet for linux/$$a"; GOOS=linux GOARCH=$$a CGO_ENABLED=0 $(GO) vet ./...; done
	$(GO) tool staticcheck ./...
	@out=$$(timeout 300 $(GO) tool govulncheck ./... 2>&1); case $$? in \
	  0) echo "govulncheck: nothing found";; \
	  3) echo "$$out"; exit 1;; \
	  *) echo "govulncheck: skipped: $$(echo "$$out" | tail -n 1)";; \
	esac

# The other byte order, and 32 bits; but for tests that run tools in a namespace, which
# qemu-user cannot make.
CROSS = s390x arm
NAMESPACED = ^(TestDumps|TestCanonicalAsDumped)$$

cross: ## the tests of ir, compiler and emit for CROSS, under qemu-user (apt install qemu-user)
	@set -e; for a in $(CROSS); do command -v qemu-$$a >/dev/null || { echo "cross: qemu-$$a is not there (apt install qemu-user)"; exit 1; }; \
	  echo "go test for linux/$$a"; \
	  GOOS=linux GOARCH=$$a CGO_ENABLED=0 $(GO) test -count=1 -timeout 0 -vet=off -skip '$(NAMESPACED)' -exec qemu-$$a $(ARGS) ./ir/... ./compiler/... ./emit/...; done

tidy: ## go.mod and go.sum as the imports need them
	$(GO) mod tidy

dist: ## static binaries for PLATFORMS with their sums, in dist/
	rm -rf $(DIST)
	@set -e; for p in $(PLATFORMS); do \
	  echo "building $$p, version $(VERSION)"; \
	  CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} GOAMD64=v1 GOARM64=v8.0 GOFLAGS=-mod=readonly \
	    $(GO) build $(REPRODUCIBLE) -o $(DIST)/svcc-$${p%/*}-$${p#*/} ./cmd/svcc; \
	done
	cd $(DIST) && sha256sum svcc-* > SHA256SUMS && cat SHA256SUMS

dist-check: ## builds linux/amd64 (or CHECK) again, elsewhere and from nothing, and compares
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; mkdir "$$tmp/src" "$$tmp/else"; \
	git ls-files -co --exclude-standard | while read -r f; do if [ -f "$$f" ]; then echo "$$f"; fi; done | tar -cf - -T - | tar -xf - -C "$$tmp/src"; \
	cp -r "$$tmp/src" "$$tmp/else/where"; \
	$(MAKE) --no-print-directory -C "$$tmp/else/where" dist VERSION=$(VERSION) PLATFORMS='$(CHECK)' DIST="$$tmp/one"; \
	GOCACHE="$$tmp/cache" $(MAKE) --no-print-directory -C "$$tmp/src" dist VERSION=$(VERSION) PLATFORMS='$(CHECK)' DIST="$$tmp/two"; \
	cmp "$$tmp/one/SHA256SUMS" "$$tmp/two/SHA256SUMS"; \
	for f in "$$tmp"/one/svcc-*; do \
	  if command -v readelf >/dev/null && readelf -lW "$$f" | grep INTERP; then echo "$$f is not static"; exit 1; fi; \
	done; \
	echo "both builds are the same"
