# ringfence: `make up` runs the platform, `make test` runs every test. `make help` lists the rest.

BUILD ?= build
PREFIX ?= /usr/local
ARGS ?=

MESON_FLAGS :=
ifneq ($(SANITIZE),)
BUILD := build-san
MESON_FLAGS += -Db_sanitize=address,undefined -Db_lundef=false
endif

.PHONY: all up fence test properties e2e image fuzz lint format install clean help deps-build

all: deps-build  ## build everything into build/
	@test -f $(BUILD)/build.ninja || echo "Building in $(BUILD)/ (a minute or two)"
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) $(MESON_FLAGS) >$(BUILD).log 2>&1 || \
		{ cat $(BUILD).log; rm -rf $(BUILD) $(BUILD).log; exit 1; }
	@ninja -C $(BUILD) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

deps-build:
	@deps/install build

up: all  ## build, then run the platform on this machine (ARGS="--simulate 4xH200")
	@deps/install run
	@$(BUILD)/ringfence up $(ARGS)

fence:  ## build the fence alone into build-fence/: a C compiler and libc are all it needs
	@src/fence/build build-fence

test: deps-build  ## build and run all tests (SANITIZE=1: under ASan and UBSan)
	@deps/install run test
	@$(MAKE) --no-print-directory all
	@test/run $(BUILD)

properties: all  ## the scheduler's promises over EVENTS random events (default 10 million), SEED repeats a run
	@RF_SEED=$(or $(SEED),$(shell date +%s)) RF_EVENTS=$(or $(EVENTS),10000000) $(BUILD)/src/sched/test_core_property

e2e: image  ## run ringfence on a real Kubernetes of two nodes on this machine (Go and root are needed)
	@deps/install run test e2e
	@test/kubernetes/e2e $(BUILD)

image: all  ## pack build/ringfence-image.tar, the OCI image that deploy/ runs
	@deploy/image $(BUILD) $(BUILD)/ringfence-image.tar

fuzz:  ## fuzz every parser, TIME seconds each (default 600)
	@deps/install build test
	@test/fuzz/run $(or $(TIME),600)

lint:  ## clang-tidy over src/
	@deps/install build lint
	@$(MAKE) --no-print-directory all
	@clang-tidy -p $(BUILD) --quiet $$(git ls-files 'src/*.c')

format:  ## clang-format over the C files
	@deps/install lint
	@clang-format -i $$(git ls-files '*.c' '*.h')

install: all  ## install under PREFIX (default /usr/local)
	@meson configure $(BUILD) -Dprefix=$(PREFIX) && meson install -C $(BUILD)

clean:  ## remove what was built
	@rm -rf build build-san build-fuzz build-fence

help:
	@sed -n 's/^\([a-z0-9]*\):.*## \(.*\)/  make \1\t\2/p' Makefile
