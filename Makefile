# SPDX-License-Identifier: Apache-2.0
# For the fingers: everything is done by meson and the scripts under tools/.
.PHONY: all demo test stress-test bench check-gpu soak install uninstall clean abi-check

all:
	@tools/setup
	@tools/build plain

demo:
	@tools/setup
	@tools/demo

test:
	@tools/setup test
	@tools/test

stress-test:
	@tools/setup test
	@tools/stress-test

bench:
	@tools/setup test
	@tools/bench $(BENCH)

check-gpu:
	@tools/setup
	@tools/check-gpu

soak:
	@tools/setup test
	@tools/soak

abi-check:
	@tools/setup
	@tools/check-abi

install: all
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' tools/install

uninstall:
	@tools/uninstall

clean:
	@rm -rf build
