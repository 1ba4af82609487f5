# A thin front for CMake; `make help` lists the targets.
MAKEFLAGS += --no-print-directory
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
# The thread sanitizer looks at the tests with more than one thread, valgrind at the parts it gets through fast enough.
TSAN_MODULES = base backend device data
TSAN_OTHERS = run.programs run.bad_input tensor.handles
VALGRIND_TESTS ?= 'base_[mc]*' ir_shape ir_index ir_spec device_pool 'data_*' 'tensor_*' run_alloc
CLANG_MODULES = base data device grad ir nn prove rewrite tensor
COQ_TESTS = ^prove\.(coq|doors_slow)$$
ASAN_TESTS = --label-exclude '^(house|slow)$$' --exclude-regex '$(COQ_TESTS)'
# What the interpreter stands for (backend/ref).
GUISES ?= ref:sm_80 ref:sm_90 ref:opencl

# $(call preset,NAME,TARGETS): configures and builds build-NAME, all of it or these.  $(call ctest,DIR): runs its tests.
# $(call programs,MODULES): the names of their tests' programs.  $(call any,WORDS): a pattern for one of them.
preset = cmake --preset $(1) >/dev/null && cmake --build build-$(1) -j $(JOBS) $(if $(2),--target $(2))
programs = $(foreach m,$(1),$(patsubst test/$(m)/test_%.c,test_$(m)_%,$(wildcard test/$(m)/test_*.c)))
any = ($(shell echo $(1) | tr ' ' '|'))
ctest = ctest --test-dir $(1) -j $(JOBS) --output-on-failure --no-tests=error
# Stages that try in another way what `make test` tries, on request a part of it: PART=1/4, say.
ctest-part = $(call ctest,$(1)) $$(tools/part)

all: build/configured ## build the library and the tenet command, optimised, in build/
	@cmake --build build -j $(JOBS)

build/configured:
	@tools/install-deps build
	@cmake --preset release -DTENET_TESTS=OFF
	@touch $@

with-tests: deps-test
	@cmake --preset release -DTENET_TESTS=ON >/dev/null
	@touch build/configured
	@cmake --build build -j $(JOBS)

demo: all ## train a network on real digits, from nothing to pictures of its mistakes
	@build/tenet train mnist --model cnn --demo

check: test check-asan check-tsan ## what every change must pass: tests, layers, headers, sanitizers

check-quick: with-tests ## the same in at most 90 s: without sanitizers and slow tests
	@$(call ctest,build) --label-exclude slow

test: with-tests ## all tests, layers and headers included, on the release build
	@$(call ctest,build)

# What Coq says of a text does not depend on who compiled its printer.  Tests that are not built here are read, for
# clang's warnings.
check-clang: deps-test ## the library and its command built by clang, optimised, and the tests that compile few kernels
	@$(call preset,clang,tenet $(call programs,$(CLANG_MODULES)))
	@tools/check-warnings build-clang
	@CASES_EVERY=7 $(call ctest,build-clang) --label-regex '^$(call any,$(CLANG_MODULES))$$' --label-exclude '^slow$$' \
	  --exclude-regex '$(COQ_TESTS)'

# The interpreter, sanitized, is slow: a sample of what it is asked many times.  Slow tests are left out: they give code
# that others reach all values, or many mistakes.  Of a part of the tests no other's programs are built.
check-asan: deps-test ## all tests under the sanitizers of addresses, undefined behaviour and numbers that wrap
	@$(call preset,asan,$$(tools/part-programs build-asan $(ASAN_TESTS)))
	@CASES_EVERY=10 $(call ctest-part,build-asan) $(ASAN_TESTS)

# backend.own_places_slow compiles its program by itself, without the sanitizer: it is the one that `make test` runs.
check-tsan: deps-test ## the threaded tests under the thread sanitizer
	@$(call preset,tsan,tenet $(call programs,$(TSAN_MODULES)) $(subst .,_,$(TSAN_OTHERS:%=test_%)))
	@$(call ctest,build-tsan) --tests-regex '^$(call any,$(TSAN_MODULES))\.|^$(call any,$(TSAN_OTHERS))$$' \
	  --exclude-regex '^backend\.own_places_slow$$'

# An OpenCL driver compiles for long: fewer random graphs, and every seventh one of many cases.
check-opencl: with-tests ## the tests of values on the first OpenCL device, and an epoch of training
	@TENET_DEVICE=opencl:0 FUZZ_COUNT=10 CASES_EVERY=7 $(call ctest-part,build) --label-regex '^devices$$'
	@tools/check-accuracy build opencl:0 mlp 93

check-levels: with-tests ## compiled values by each C compiler at each level of the processor, and for aarch64
	@tools/check-levels build

check-guises: with-tests ## the same by the interpreter, with kernels printed for each kind of GPU (CUDA: compiled)
	@tools/run-guises build $(GUISES)

# Verdicts are kept in build/proofs by what was proved: a second run asks nobody.
prove: all deps-prove ## prove every rewrite rule, and that docs/rules.md says so
	@build/tenet prove --doc --out build/proofs >build/rules.md
	@diff -u docs/rules.md build/rules.md || { echo 'docs/rules.md is not current: make prove-doc'; exit 1; }

prove-doc: all deps-prove ## write docs/rules.md
	@build/tenet prove --doc --out build/proofs >build/rules.md && mv build/rules.md docs/rules.md

check-verify: with-tests deps-prove ## compare all schedules of the tests with their graphs, and prove all accesses
	@tools/check-verify build

check-strict: with-tests ## 100000 random graphs against node-by-node evaluation in modes strict and default
	@STRICT_COUNT=100000 build/test/test_schedule_strict

check-valgrind: with-tests ## some tests under valgrind
	@tools/run-valgrind build $(VALGRIND_TESTS)

check-install: with-tests ## a program outside the tree, against an installed Tenet, as C and as C++
	@test/consumer/run build

fuzz: deps-test ## run every fuzzer for FUZZ_SECONDS (60)
	@$(call preset,fuzz,$(notdir $(basename $(wildcard test/fuzz/fuzz_*.c))))
	@tools/run-fuzzers build-fuzz/fuzz $(FUZZ_SECONDS)

fuzz-graphs: with-tests ## random graphs on every device for FUZZ_SECONDS (60), from seed FUZZ_SEED (0) on
	@tools/fuzz-graphs build --all-forms --seconds $(FUZZ_SECONDS) --graphs 1000000 --seed $(or $(FUZZ_SEED),0)

fuzz-forms: with-tests ## look anew for graphs that reach what few do: test/schedule/fuzz_forms.txt
	@tools/fuzz-graphs build --find-forms

costs: with-tests ## write anew what programs cost: test/golden/costs.txt
	@build/test/test_schedule_costs test/golden/costs.txt
	@git --no-pager diff --stat -- test/golden/costs.txt

mutate-code: with-tests ## 150 mistakes put into the compiler's code, one at a time: do its checks alone find them?
	@$(call preset,asan)
	@tools/mutate-code build --sanitized build-asan --out build/mutants.txt

coverage: deps-test ## which share of each folder's lines the tests run, and what they never run
	@$(call preset,coverage)
	@$(call ctest,build-coverage) --label-exclude house
	@tools/coverage build-coverage

bench: all ## measure against the peers, in one run
	@cmake --build build -j $(JOBS) --target benches
	@bench/run build

# Builds here what a machine with a GPU needs to check itself; where this is one, it does.  TENET_DATA: the digits of
# MNIST.
check-gpu: with-tests ## pack build-gpu for a machine with a GPU, and run it here if there is one
	@tools/check-gpu pack build-gpu build
	@if build/tenet devices | grep -q '^cuda:'; then build-gpu/check-gpu run; \
	else echo 'no GPU here; on a machine with one: build-gpu/check-gpu run'; fi

install: all ## install below PREFIX (/usr/local), itself below DESTDIR
	@cmake build -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null
	@DESTDIR=$(DESTDIR) cmake --install build
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig

deps: ## install the Debian packages that building needs
	@tools/install-deps build

deps-test: ## install the Debian packages that the tests need
	@tools/install-deps build test

deps-prove: ## install the Debian packages that `make prove` needs
	@tools/install-deps build prove

clean: ## remove every build
	@rm -rf build build-*

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: all with-tests demo check check-quick test check-clang check-asan check-tsan check-opencl check-guises \
  check-verify check-strict prove prove-doc check-valgrind check-install fuzz fuzz-graphs fuzz-forms costs mutate-code \
  coverage bench check-gpu install deps deps-test deps-prove clean help
