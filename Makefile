# The front door. Each target first installs what it needs and does not find (tools/setup.sh), then builds,
# then does its job. `make help` lists them.

JOBS ?= $(shell nproc)
# ON makes warnings errors; CI sets it.
SNUG_WERROR ?= OFF
# ON compiles several files as one, as CI does: the first build is shorter, the next ones are longer.
SNUG_JOIN ?=
# Seconds for each fuzz harness.
FUZZ_SECONDS ?= 10
# Minutes for each in fuzz-long, and where the inputs it finds are kept for the next time.
FUZZ_MINUTES ?= 30
FUZZ_CORPUS ?= .cache/fuzz

setup = ./tools/setup.sh
configure = cmake --preset $(1) --log-level=WARNING -DSNUG_WERROR=$(SNUG_WERROR) \
  $(if $(SNUG_JOIN),-DSNUG_JOIN=$(SNUG_JOIN)) $(2) >/dev/null
build = cmake --build build/$(1) -j $(JOBS)
ctest = ctest --test-dir build/$(1) --output-on-failure --no-tests=error -j $(JOBS)

.DEFAULT_GOAL := build
.NOTPARALLEL:
.PHONY: build cuda bundle demo test test-cores test-debug test-threads test-cuda test-slow bench format lint fuzz \
  fuzz-long clean help

build:  ## build/release/snug (the default)
	@$(setup) build
	@$(call configure,release)
	@$(call build,release) --target snug

cuda:  ## build/cuda/snug, with the CUDA backend (needs the CUDA 13 toolkit)
	@$(setup) build
	@$(call configure,cuda)
	@$(call build,cuda) --target snug

# With CUDA where there is a compiler for it.
bundle_preset := $(if $(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null),cuda,release)
bundle: $(if $(filter cuda,$(bundle_preset)),cuda,build)  ## build/bundle: the program and its libraries, for other machines
	@./tools/bundle.sh build/$(bundle_preset) build/bundle

demo: build  ## plan, fine-tune the embedded model, show text before and after
	@./tools/demo.sh

test:  ## the fast tests
	@$(setup) build test
	@$(call configure,release,-DSNUG_TESTS=ON)
	@$(call build,release)
	@$(call ctest,release) -LE slow

test-debug:  ## the fast tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(setup) build test fuzz
	@$(call configure,debug,-DSNUG_TESTS=ON)
	@$(call build,debug)
	@$(call ctest,debug) -LE slow

test-cores:  ## the numeric tests with the matrix kernels of other processors
	@$(setup) build test
	@$(call configure,release,-DSNUG_TESTS=ON)
	@$(call build,release) --target test_backend test_exec test_train
	@./tools/test_cores.sh build/release

# ThreadSanitizer's memory layout does not go with much randomisation of addresses, hence setarch.
test-threads:  ## the tests of threaded code under ThreadSanitizer
	@$(setup) build test fuzz
	@$(call configure,threads)
	@$(call build,threads) --target test_threads
	@setarch $(shell uname -m) -R $(call ctest,threads) -LE slow -R '^threads_'

test-cuda:  ## build the CUDA backend for one architecture and run its tests, on the host where there is no card
	@$(setup) build test
	@./tools/test_cuda.sh $(JOBS)

test-slow:  ## the tests that take minutes
	@$(setup) build test
	@$(call configure,release,-DSNUG_TESTS=ON)
	@$(call build,release)
	@$(call ctest,release) -L slow

bench: build  ## speed and memory, beside PyTorch where it is installed
	@$(call build,release) --target train_cpu
	@./bench/run.sh

format:  ## lay out the C++ files
	@$(setup) lint
	@./tools/format.sh

lint:  ## layout, layers, sizes, clang-tidy
	@$(setup) build test lint
	@./tools/format.sh --check
	@python3 tools/check_layers.py --self-test
	@python3 tools/check_layers.py
	@python3 tools/check_sizes.py --self-test
	@python3 bench/gpu/rivals.py --self-test
	@python3 tools/check_sizes.py
	@$(call configure,release,-DSNUG_TESTS=ON)
	@$(call build,release) --target snug_commit >/dev/null
	@python3 tools/tidy.py --jobs $(JOBS)

fuzz:  ## each fuzz harness for FUZZ_SECONDS (default 10)
	@$(setup) build fuzz
	@$(call configure,debug)
	@$(call build,debug) --target fuzzers
	@./tools/fuzz.sh $(FUZZ_SECONDS)

fuzz-long:  ## each for FUZZ_MINUTES (default 30), going on from the inputs kept in FUZZ_CORPUS
	@$(setup) build fuzz
	@$(call configure,debug)
	@$(call build,debug) --target fuzzers
	@FUZZ_CORPUS=$(FUZZ_CORPUS) ./tools/fuzz.sh $$(($(FUZZ_MINUTES) * 60)) --long

clean:  ## remove build/
	@rm -rf build

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
