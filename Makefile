# SPDX-License-Identifier: Apache-2.0
# For the fingers: everything is done by meson and the scripts under tools/. `make help` lists it.
.PHONY: all help demo demo-kubernetes test test-kubernetes test-image stress-test bench check-gpu soak image install uninstall clean abi-check site dist deb

all: ## build mete; says where it is
	@tools/setup
	@tools/build plain
	@echo 'mete is build/plain/cli/mete; `make install` puts it into /usr/local/bin'

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 18

demo: ## several CUDA programs share a simulated GPU
	@tools/setup
	@tools/demo

demo-kubernetes: ## the same in a small real Kubernetes on this machine (root)
	@tools/setup test
	@tools/demo-kubernetes

test: ## everything that must hold, as CI does it (METE_TEST=quick: the gcc build only)
	@tools/setup test
	@tools/test

test-kubernetes: ## the tests that need a Kubernetes
	@tools/setup test
	@tools/build plain
	@tools/test-kubernetes

test-image: ## the image of deploy/Containerfile: build it, and run deploy/ on it in a Kubernetes (root)
	@tools/setup image
	@tools/build plain
	@tools/test-image

stress-test: ## the suites on a busy machine, with random pauses
	@tools/setup test
	@tools/stress-test

bench: ## list the benchmarks; BENCH=NAME runs one
	@[ -z '$(BENCH)' ] || tools/setup test
	@tools/bench $(BENCH)

check-gpu: ## ask this machine's own GPU what docs/UNVERIFIED.md claims
	@tools/setup
	@tools/check-gpu

soak: ## the tests with their long repetitions, and hours of fuzzing
	@tools/setup test
	@tools/soak

abi-check: ## compare our tables with NVIDIA's published headers
	@tools/setup
	@tools/check-abi

install: ## build what is installed, and install it under PREFIX (/usr/local), below DESTDIR
	@command -v python3 >/dev/null || tools/setup
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' tools/install

uninstall: ## remove what that wrote, and nothing else
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' tools/uninstall

deb: ## Debian packages for Debian 12, in a root of their own (root; SUITE=trixie: for 13)
	@tools/deb $(SUITE)

image: ## the image of the DaemonSet without an engine: build/image/mete-VERSION.oci.tar
	@tools/image

site: ## docs/ as pages for a browser: build/site/index.html
	@[ ! -x build/plain/cli/mete ] || tools/picture build/plain build/pictures/
	@tools/site --pictures build/pictures

dist: ## a tarball of what is committed, and a list of what is linked (SPDX)
	@tools/dist

clean: ## remove build/
	@rm -rf build
