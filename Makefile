# Thin front of meson: `make help` lists what there is. BUILD is the build directory.
BUILD ?= build
MESON_OPTIONS ?=

.PHONY: all help setup demo test check format asan tsan fuzz clean
all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) sluice sluice-chat sluice-serve sluice-verify

help:
	@echo "make          builds $(BUILD)/sluice"
	@echo "make demo     runs the demo model with less memory than it has bytes, twice, and compares"
	@echo "make test     builds and runs every test"
	@echo "make check    style and layers alone"
	@echo "make asan     unit, fault and fuzz tests with address and undefined behaviour sanitizers"
	@echo "make tsan     unit tests with the thread sanitizer"
	@echo "make fuzz     builds the fuzzers with libFuzzer (clang)"
	@echo "make format   lays out the sources with clang-format"
	@echo "make setup    installs the packages that building and testing need"
	@echo "make clean    removes $(BUILD) and build-*"

setup:
	@tools/setup.sh build test

$(BUILD)/build.ninja:
	@tools/setup.sh build
	@meson setup $(BUILD) $(MESON_OPTIONS) > /dev/null || { meson setup $(BUILD) $(MESON_OPTIONS); exit 1; }

# The stamp says that this build directory has its tests configured.
$(BUILD)/tests.stamp: | $(BUILD)/build.ninja
	@tools/setup.sh test
	@meson configure $(BUILD) -Dtests=enabled
	@touch $@

demo: all
	@BUILD=$(BUILD) demo/run.sh

test: $(BUILD)/tests.stamp
	@tools/run_tests.py $(BUILD)

check: $(BUILD)/tests.stamp
	@tools/tidy.py .
	@tools/check_headers.py . $(BUILD)

asan:
	@tools/setup.sh build test
	@[ -f build-asan/build.ninja ] || meson setup build-asan -Dtests=enabled -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1
	@tools/run_tests.py build-asan --suite unit --suite kernels --suite faults --suite fuzz

tsan:
	@tools/setup.sh build test
	@[ -f build-tsan/build.ninja ] || meson setup build-tsan -Dtests=enabled -Db_sanitize=thread -Db_lundef=false -Doptimization=1
	@tools/run_tests.py build-tsan --suite unit --suite faults

fuzz:
	@[ -f build-fuzz/build.ninja ] || CC=clang meson setup build-fuzz -Dtests=enabled -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false
	@ninja -C build-fuzz
	@echo "for example: build-fuzz/tests/fuzz/fuzz_json -max_total_time=60 /tmp/corpus tests/data/fuzz/json"

format:
	@git ls-files -co --exclude-standard '*.c' '*.h' | grep -v /generated/ | xargs clang-format -i

clean:
	rm -rf $(BUILD) build-*
