# The one build file. `make help` lists the targets.

CC ?= gcc
# THREADS=no: without threads, for systems that have none; in a folder of its own
THREADS := yes
BUILD ?= $(if $(filter no,$(THREADS)),build/alone,build)
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
PKGCONFIGDIR ?= $(LIBDIR)/pkgconfig
CFLAGS ?= -O2 -g
EXTRA_CFLAGS ?=
ifneq ($(words $(filter yes no,$(THREADS))),1)
$(error THREADS=$(THREADS): must be yes or no)
endif
# make splits names at blanks, and `make clean` or `make uninstall` would remove each part.
FOLDERS := BUILD DESTDIR PREFIX BINDIR LIBDIR INCLUDEDIR PKGCONFIGDIR MANDIR BASHDIR ZSHDIR FISHDIR
$(foreach name,$(FOLDERS),$(if $(word 2,$($(name))),$(error $(name)=$($(name)): must be a folder without blanks)))
PTHREAD := $(if $(filter no,$(THREADS)),-DSMOL_NO_THREADS,-pthread)
# The code needs these, whatever CFLAGS contains: C11, and strict floating point (the results are defined
# to the bit, see docs/architecture.md). The folder of the tree leaves no trace in the output.
SMOL_CFLAGS := -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -D_TIME_BITS=64 -I. -Wall -Wextra -Wshadow \
	-Wstrict-prototypes -Wmissing-prototypes -fPIC -fvisibility=hidden -fno-fast-math -ffp-contract=off \
	-fno-math-errno -fno-trapping-math -ftree-vectorize $(PTHREAD) -MMD -MP \
	"-ffile-prefix-map=$(CURDIR)=." $(EXTRA_CFLAGS)

# Hardening: random addresses, read-only tables of the linker, guarded stacks, calls of the C library that
# know the sizes of their targets. Flags that a compiler lacks are omitted. The calls need an optimizer,
# and sanitizers replace them.
supported = $(shell $(CC) -Werror -O2 $(1) -include stdio.h -S -x c -o - /dev/null >/dev/null 2>&1 \
	&& echo '$(1)')
fortify = -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(1)
HARDENING := -fstack-protector-strong $(call supported,-fstack-clash-protection) \
	$(call supported,-fcf-protection) $(call supported,-mbranch-protection=standard)
ifneq ($(filter -O1 -O2 -O3 -Os,$(CFLAGS)),)
ifeq ($(filter -fsanitize=%,$(CFLAGS) $(EXTRA_CFLAGS)),)
HARDENING += $(or $(call supported,$(call fortify,3)),$(call fortify,2))
endif
endif
SMOL_CFLAGS += $(HARDENING)
LINK = $(CC) $(CFLAGS) $(SMOL_CFLAGS) $(LDFLAGS) $(FILE_LDFLAGS) -Wl,-z,relro,-z,now,-z,noexecstack

LDLIBS_RUN := -lm $(filter -pthread,$(PTHREAD))
LDLIBS_CONVERT := -ljansson -lzstd $(LDLIBS_RUN)
LDLIBS_SERVE := -lmicrohttpd $(LDLIBS_RUN)

VERSION := $(shell sed -n 's/^\#define SMOL_VERSION_[A-Z]* \([0-9]*\)$$/\1/p' smol.h | paste -sd.)
# The version of the library's interface. A release that breaks programs linked with the one before
# raises it, with the version in runtime/libsmol.map.
SOVERSION := 0

ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))

# One list for each folder; scripts/check-modules holds what each may include.
COMMON_SRC := $(wildcard common/*.c common/*/*.c)
FORMAT_SRC := $(wildcard format/*.c)
RUNTIME_SRC := $(wildcard runtime/*.c runtime/*/*.c)
CONVERT_SRC := $(wildcard convert/*.c convert/*/*.c)
CLI_SRC := $(wildcard cli/*.c)
REQUEST_SRC := $(wildcard cli/request/*.c)
SMOLRUN_SRC := $(wildcard smolrun/*.c smolrun/*/*.c)
SMOLSERVE_SRC := $(wildcard smolserve/*.c)
PYTHON_SRC := $(wildcard python/*.c)
TEST_SRC := $(wildcard tests/unit/test_*.c)

objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
SHARED_OBJ := $(call objects,$(COMMON_SRC) $(FORMAT_SRC))
CONVERT_OBJ := $(call objects,$(CONVERT_SRC))
RUNTIME_OBJ := $(call objects,$(RUNTIME_SRC))
CLI_OBJ := $(call objects,$(CLI_SRC))
SMOLRUN_OBJ := $(call objects,$(SMOLRUN_SRC) $(REQUEST_SRC))
SMOLSERVE_OBJ := $(call objects,$(SMOLSERVE_SRC) $(REQUEST_SRC))
# what tests link: everything but the two main functions
INTERNAL_OBJ := $(filter-out %/main.o,$(SHARED_OBJ) $(CLI_OBJ) $(CONVERT_OBJ) $(RUNTIME_OBJ) \
	$(SMOLRUN_OBJ))
TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(TEST_SRC))
# A fuzz target gets its main function from libFuzzer or AFL++'s driver, or from main.c, which runs
# it on files.
FUZZ_MAIN ?= tests/fuzz/main.c
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_OBJ := $(call objects,$(FUZZ_MAIN) \
	$(filter-out $(FUZZ_SRC) tests/fuzz/main.c,$(wildcard tests/fuzz/*.c)))
FUZZ_TARGETS := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/%,$(FUZZ_SRC))
# These need nothing but the C library, so they are built for 32 bits too.
FUZZ_OWN := $(addprefix $(BUILD)/tests/fuzz_,blob safetensors tokenizer)
KERNEL_TEST_OBJ := $(call objects,$(wildcard tests/kernels/*.c))

# Only patterns lead to these objects, so make would remove them after use.
.SECONDARY: $(call objects,$(TEST_SRC) $(FUZZ_SRC))
.PHONY: all check runtime python deb docs install-docs uninstall-docs static armv7 memory check_kernels tests c_tests unit_tests test soak soak-thread fault fault-address damage families mutations \
	tokenizers templates perplexity long requests pictures report-check \
	fuzz fuzz-afl fuzz_targets bench tidy coverage install uninstall clean help
# The server needs threads.
all: runtime $(BUILD)/smolconv $(if $(filter yes,$(THREADS)),$(BUILD)/smolserve) ## build everything (the default)

runtime: $(BUILD)/smolrun $(BUILD)/libsmol.a $(BUILD)/libsmol.so ## build smolrun and libsmol only

$(BUILD)/smolconv: $(CONVERT_OBJ) $(CLI_OBJ) $(SHARED_OBJ)
	$(LINK) -pie -o $@ $^ $(LDLIBS_CONVERT)

$(BUILD)/smolrun: $(SMOLRUN_OBJ) $(CLI_OBJ) $(BUILD)/libsmol.a
	$(LINK) -pie -o $@ $^ $(LDLIBS_RUN)

$(BUILD)/smolserve: $(SMOLSERVE_OBJ) $(CLI_OBJ) $(BUILD)/libsmol.a
	$(LINK) -pie -o $@ $^ $(LDLIBS_SERVE)

# smolrun linked with the shared library, which proves that the public interface suffices. It has its
# own copy of what cli/ uses of common/. A test runs it.
$(BUILD)/tests/smolrun-shared: $(SMOLRUN_OBJ) $(CLI_OBJ) $(call objects,$(COMMON_SRC)) $(BUILD)/libsmol.so
	@mkdir -p $(@D)
	$(LINK) -pie -o $@ $^ $(LDLIBS_RUN)
	ln -sf ../libsmol.so $(@D)/libsmol.so.$(SOVERSION)

$(BUILD)/libsmol.a: $(RUNTIME_OBJ) $(SHARED_OBJ)
	rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/libsmol.so: $(RUNTIME_OBJ) $(SHARED_OBJ) runtime/libsmol.map
	$(LINK) -shared -Wl,-soname,libsmol.so.$(SOVERSION) -Wl,--version-script=runtime/libsmol.map \
		-o $@ $(filter %.o,$^) $(LDLIBS_RUN)

# One file that runs on any Linux of its architecture: made by the same rules, with another compiler
# and in a folder of its own. musl-gcc does not look into /usr/include, where glibc's headers are:
# it gets a folder with a link to the one header that is wanted from there. Its wrapper does not know
# -static-pie, so the parts of that are spelled out: rcrt1.o starts a program that is loaded anywhere.
# All but the kernels is optimized for size.
STATIC_CC ?= musl-gcc
STATIC_LDFLAGS ?= -static -nostartfiles -l:rcrt1.o -Wl,-pie,--no-dynamic-linker,-z,text
static: $(BUILD)/static/include/xxhash.h ## build a small static smolrun with musl (build/static)
	$(MAKE) CC="$(STATIC_CC)" BUILD=$(BUILD)/static CPPFLAGS="-I$(<D)" \
		CFLAGS="-O2 -Oz -fno-asynchronous-unwind-tables -ffunction-sections -fdata-sections" \
		LDFLAGS="$(STATIC_LDFLAGS) -s -Wl,--gc-sections" \
		$(BUILD)/static/smolrun $(BUILD)/static/tests/minimal

$(BUILD)/static/include/xxhash.h:
	@mkdir -p $(@D)
	ln -sf /usr/include/xxhash.h $@

# The C tests link only the objects that they call: linking all of them takes longer.
$(BUILD)/tests/libsmol_internal.a: $(INTERNAL_OBJ)
	@mkdir -p $(@D)
	rm -f $@ && $(AR) rcs $@ $^

# The Python package as it is installed, to be put on PYTHONPATH: its modules are links. python/backend.py
# makes wheels of it.
PYTHON_PACKAGE := $(BUILD)/python/smolrun
PYTHON_MODULES := $(patsubst python/smolrun/%,$(PYTHON_PACKAGE)/%,$(wildcard python/smolrun/*.py python/smolrun/py.typed))
python: $(PYTHON_PACKAGE)/_native/libsmol.so $(addprefix $(PYTHON_PACKAGE)/_native/,smolconv smolrun) $(PYTHON_MODULES) ## build the Python package (build/python)

$(PYTHON_PACKAGE)/_native/libsmol.so: $(call objects,$(PYTHON_SRC) cli/request/likelihood.c) $(RUNTIME_OBJ) $(SHARED_OBJ)
	@mkdir -p $(@D)
	$(LINK) -shared -Wl,-soname,$(@F) -o $@ $^ $(LDLIBS_RUN)

$(addprefix $(PYTHON_PACKAGE)/_native/,smolconv smolrun): $(PYTHON_PACKAGE)/_native/%: $(BUILD)/%
	@mkdir -p $(@D)
	ln -sf "$(abspath $<)" $@

$(PYTHON_MODULES): $(PYTHON_PACKAGE)/%: python/smolrun/%
	@mkdir -p $(@D)
	ln -sf "$(abspath $<)" $@

# Everything with its internal symbols, for the Python oracles to call through ctypes.
$(BUILD)/tests/libsmol_internal.so: $(INTERNAL_OBJ)
	@mkdir -p $(@D)
	$(LD) -r -o $(@:.so=.o) $^
	./scripts/unhide $(@:.so=.o)
	$(LINK) -shared -Wl,-Bsymbolic -o $@ $(@:.so=.o) $(LDLIBS_CONVERT)

# Needs libc only, so it is built for other machines too.
check_kernels: $(BUILD)/tests/check_kernels ## build the test and benchmark of the kernels only

$(BUILD)/tests/check_kernels: $(KERNEL_TEST_OBJ) $(CLI_OBJ) $(BUILD)/libsmol.a
	@mkdir -p $(@D)
	$(LINK) -pie -o $@ $^ $(LDLIBS_RUN)

tests: c_tests python $(BUILD)/tests/libsmol_internal.so $(BUILD)/tests/smolrun-shared ## build the tests
# without Python: everything that builds with sanitizers run
c_tests: unit_tests fuzz_targets $(addprefix $(BUILD)/tests/,replay soak damage change.so clock.so)
unit_tests: check_kernels $(TESTS)
# The tests that make calls fail replace these.
comma := ,
WRAP := $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc aligned_alloc posix_memalign strdup \
	strndup pthread_create)
$(BUILD)/tests/test_memory: FILE_LDFLAGS := $(WRAP) -Wl,--wrap=mmap
$(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(BUILD)/tests/libsmol_internal.a
	@mkdir -p $(@D)
	$(LINK) -pie -o $@ $^ -lcmocka $(LDLIBS_CONVERT)

fuzz_targets: $(FUZZ_TARGETS)
$(BUILD)/tests/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(FUZZ_OBJ) $(BUILD)/tests/libsmol_internal.a
	@mkdir -p $(@D)
	$(LINK) -pie $(FUZZ_LDFLAGS) -o $@ $^ $(LDLIBS_CONVERT)

# the whole server, but for its main function
$(BUILD)/tests/fuzz_serve: $(BUILD)/obj/tests/fuzz/fuzz_serve.o $(FUZZ_OBJ) $(filter-out %/main.o,$(SMOLSERVE_OBJ)) \
		$(BUILD)/tests/libsmol_internal.a
	@mkdir -p $(@D)
	$(LINK) -pie $(FUZZ_LDFLAGS) -o $@ $^ $(LDLIBS_CONVERT) $(LDLIBS_SERVE)

$(FUZZ_OWN): $(BUILD)/tests/%: $(BUILD)/obj/tests/fuzz/%.o $(FUZZ_OBJ) $(BUILD)/tests/libsmol_internal.a
	@mkdir -p $(@D)
	$(LINK) -pie $(FUZZ_LDFLAGS) -o $@ $^ $(LDLIBS_RUN)

$(addprefix $(BUILD)/tests/,replay minimal soak damage): $(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(BUILD)/libsmol.a
	@mkdir -p $(@D)
	$(LINK) -pie -o $@ $^ $(LDLIBS_RUN)

# Kernels are worth the optimizer's full effort, unless a sanitizer or a debugger wants less. Where
# size counts, those that are written with vectors get -O2: as fast, and 19 KB smaller on x86-64.
# Files that hold one instruction set are compiled for it; everything else for the baseline.
ifneq ($(filter -O2,$(CFLAGS)),)
$(BUILD)/obj/runtime/kernels/%.o: FILE_CFLAGS += $(if $(filter -Oz,$(CFLAGS)),$(if $(filter %/scalar.o,$@),-O3,-O2),-O3)
# So are the sums of statistics, whose loops are plain C.
$(addprefix $(BUILD)/obj/convert/inspect/,model_tensor.o moments.o statistics.o): FILE_CFLAGS += -O3
endif
# Code that runs once for a constraint or a pre-tokenizer is optimized for size. That of tests is not optimized: it
# compiles in half the time, and what it calls takes longest.
ifeq ($(filter -O2 -Oz,$(CFLAGS)),-O2)
$(call objects,$(TEST_SRC) $(FUZZ_SRC)): FILE_CFLAGS += -O0 -U_FORTIFY_SOURCE
$(call objects,$(wildcard common/pattern/*.c) $(addprefix runtime/constrain/,characters.c regex.c grammar.c)): FILE_CFLAGS += -Os
endif
# The address sanitizer sees pointers of a kernel that wrap or are null where they are used; checking each
# step of a pointer through unrolled loops takes most of the compiler's time.
ifneq ($(findstring address,$(EXTRA_CFLAGS)),)
$(BUILD)/obj/runtime/kernels/%.o: FILE_CFLAGS += -fno-sanitize=pointer-overflow,null,object-size
endif
# Tests compiled without optimization are sooner done, unless they compute: that code is optimized, but for the
# kernels that this machine cannot run.
ifneq ($(filter -O0,$(CFLAGS)),)
lacks = $(shell grep -qsw $(1) /proc/cpuinfo || echo $(addprefix runtime/kernels/,$(2)))
CANNOT_RUN := $(call lacks,avx512f,avx512.c avx512vbmi.c avx512amx.c) $(call lacks,avx_vnni,avxvnni.c)
$(call objects,$(COMMON_SRC) $(FORMAT_SRC) $(filter-out $(CANNOT_RUN),$(filter runtime/calibrate/% runtime/kernels/% runtime/engine/% runtime/template/% runtime/tokenizer/%,$(RUNTIME_SRC))) \
	$(filter convert/calibration/% convert/tokenizer/% convert/weights/%,$(CONVERT_SRC))): FILE_CFLAGS += -O1
endif
ifeq ($(ARCH),x86_64)
# gcc's reordering of sums keeps more values alive than there are registers; clang has no such options
IN_ORDER := $(call supported,-fno-tree-reassoc -fno-tree-ter)
%avx2.o: FILE_CFLAGS += -mavx2 -mfma -mf16c $(IN_ORDER)
%sha256_x86.o: FILE_CFLAGS += -mssse3 -msha
%avxvnni.o: FILE_CFLAGS += -mavx2 -mfma -mf16c -mavxvnni
%avx512.o %avx512vbmi.o %avx512amx.o: FILE_CFLAGS += -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl \
	-mavx512vnni -mprefer-vector-width=512
%avx512vbmi.o %avx512amx.o: FILE_CFLAGS += -mavx512vbmi
else ifeq ($(ARCH),aarch64)
# gcc's early scheduling keeps more values alive than there are registers; clang has no such option
%neon.o %neon_dotprod.o %neon_i8mm.o: FILE_CFLAGS += -fno-schedule-insns -Wno-ignored-optimization-argument
# zig takes features of a processor, but not of an architecture
extended = $(or $(call supported,-march=$(1)+$(2)),-mcpu=generic+$(2))
DOTPROD := $(call extended,armv8.2-a,dotprod)
I8MM := $(call extended,armv8.2-a,dotprod+i8mm)
CRYPTO := $(call extended,armv8-a,crypto)
%neon_dotprod.o: FILE_CFLAGS += $(DOTPROD)
%neon_i8mm.o: FILE_CFLAGS += $(I8MM)
%sha256_arm.o: FILE_CFLAGS += $(CRYPTO)
endif

# The chat page and the description of the interface are a part of the server; the compiler does not tell that it
# reads these.
$(BUILD)/obj/smolserve/pages.o: $(wildcard smolserve/page/*) smolserve/openapi.json

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(SMOL_CFLAGS) $(FILE_CFLAGS) -c -o $@ $<

check: ## the inner loop, a minute from a built tree: modules, C tests, some hundred oracle cases
	./scripts/check --quick

test: all tests ## run the C tests and the Python oracles
	./scripts/run-unit-tests $(BUILD)/tests
	./scripts/fuzz replay $(BUILD)
	SMOL_TEST_ALL=1 SMOL_BUILD="$(abspath $(BUILD))" "$$(./scripts/venv)" -m pytest -q tests/oracle

# A shim that makes one call fail: preloaded, or linked in where a sanitizer owns malloc.
$(BUILD)/tests/fault.so: tests/fault/shim.c
	@mkdir -p $(@D)
	$(LINK) -shared -o $@ $<

# Another that changes a file while it is open.
$(BUILD)/tests/change.so $(BUILD)/tests/clock.so: $(BUILD)/tests/%.so: tests/fault/%.c
	@mkdir -p $(@D)
	$(LINK) -shared -o $@ $<

SHIM_OBJ := $(BUILD)/obj/tests/fault/shim.o
$(SHIM_OBJ): FILE_CFLAGS += -DFAULT_WRAP
$(BUILD)/fault/smolconv: $(CONVERT_OBJ) $(CLI_OBJ) $(SHARED_OBJ) $(SHIM_OBJ)
	@mkdir -p $(@D)
	$(LINK) -pie $(WRAP) -o $@ $^ \
		$(patsubst -l%,-l:lib%.a,$(filter-out $(LDLIBS_RUN),$(LDLIBS_CONVERT))) $(LDLIBS_RUN)
$(BUILD)/fault/smolrun: $(SMOLRUN_OBJ) $(CLI_OBJ) $(SHIM_OBJ) $(BUILD)/libsmol.a
	@mkdir -p $(@D)
	$(LINK) -pie $(WRAP) -o $@ $^ $(LDLIBS_RUN)

$(BUILD)/fault/smolserve: $(SMOLSERVE_OBJ) $(CLI_OBJ) $(SHIM_OBJ) $(BUILD)/libsmol.a
	@mkdir -p $(@D)
	$(LINK) -pie $(WRAP) -o $@ $^ $(LDLIBS_SERVE)

# FAULTS="--first 9 --stride 50" takes some calls only
fault: all $(BUILD)/tests/fault.so ## make every call of every command fail in turn
	tests/fault/sweep.py $(FAULTS) $(BUILD)
	tests/fault/sweep_server.py $(FAULTS) $(BUILD)
	tests/fault/kills.py $(BUILD)
	$(MAKE) CC=clang BUILD=$(BUILD)/address CFLAGS="-O1 -g" LDFLAGS="$(ADDRESS)" \
		EXTRA_CFLAGS="$(EXTRA_CFLAGS) $(ADDRESS) -fno-sanitize-recover=all" fault-address

ADDRESS := -fsanitize=address,undefined
fault-address: $(BUILD)/smolconv $(BUILD)/smolserve $(addprefix $(BUILD)/fault/,smolconv smolrun smolserve)
	tests/fault/sweep.py --sanitized $(FAULTS) $(BUILD)/fault
	tests/fault/sweep_server.py --sanitized $(FAULTS) $(BUILD)

# Random questions to one model handle, repeatedly; the long version of a check
SOAK_SECONDS ?= 1800
soak: all $(BUILD)/tests/soak ## ask one model for half an hour (SOAK_SECONDS): same bits, no growth
	$(BUILD)/smolconv --quiet --force demo/model $(BUILD)/soak.smol
	$(BUILD)/tests/soak $(BUILD)/soak.smol $(SOAK_SECONDS)

soak-thread: SOAK_SECONDS = 300
soak-thread: ## the same under the thread sanitizer, for five minutes
	$(MAKE) CC=clang BUILD=$(BUILD)/thread CFLAGS="-O1 -g" EXTRA_CFLAGS="-fsanitize=thread" \
		LDFLAGS="-fsanitize=thread" SOAK_SECONDS=$(SOAK_SECONDS) soak

pictures: all ## draw the documentation's pictures of terminals again (docs/terminal-*.svg)
	./scripts/setup check
	"$$(./scripts/venv)" scripts/build-test-model
	$(BUILD)/smolconv --quiet --force models/SmolLM2-135M-Instruct $(BUILD)/pictures.smol
	./scripts/record $(BUILD) $(BUILD)/pictures.smol docs

report-check: all ## examine reports in headless Chromium (which it installs)
	./scripts/setup browser
	"$$(./scripts/venv)" scripts/build-test-model
	./scripts/check-report $(BUILD)

# On the real model's int8 blob; the long version of tests/oracle/test_damage.py
DAMAGE_ROUNDS ?= 10000
damage: all $(BUILD)/tests/damage ## damage a blob at random, DAMAGE_ROUNDS times: verification refuses all
	"$$(./scripts/venv)" scripts/build-test-model
	$(BUILD)/smolconv --quiet --force models/SmolLM2-135M-Instruct $(BUILD)/damage.smol
	$(BUILD)/tests/damage $(BUILD)/damage.smol $(DAMAGE_ROUNDS) 1

# The kernel kills a process that needs more than the limit.
memory: all static ## with less memory than the blob, in control groups (as root): the same text, slower
	"$$(./scripts/venv)" scripts/build-test-model
	./scripts/check-memory $(BUILD)
	./scripts/measure-budget --limits

armv7: all tests ## 32-bit Arm, emulated: all types of weights, on two kinds of processor
	./scripts/check-armv7 $(BUILD) all

families: tests ## compare 40 drawn checkpoints of every family, and every key of config.json, with transformers
	SMOL_BUILD="$(abspath $(BUILD))" SMOL_FAMILY_CASES=40 "$$(./scripts/venv)" -m pytest -q \
		tests/oracle/test_families.py tests/oracle/test_config.py tests/oracle/test_config_keys.py \
		tests/oracle/test_encoder_keys.py

tokenizers: tests ## cut and tokenize 20,000 strings for each kind of pre-tokenizer, and 3,000 drawn patterns
	SMOL_BUILD="$(abspath $(BUILD))" SMOL_TOKENIZERS=20000 "$$(./scripts/venv)" -m pytest -q \
		tests/oracle/test_scanner.py tests/oracle/test_tokenizer.py tests/oracle/test_tokenizer_families.py \
		tests/oracle/test_charsmap.py

perplexity: tests ## compare perplexities with transformers on the real model too
	SMOL_BUILD="$(abspath $(BUILD))" SMOL_PERPLEXITY=1 "$$(./scripts/venv)" -m pytest -q \
		tests/oracle/test_perplexity.py

requests: tests ## give --jsonl 100,000 lines: its memory does not grow
	SMOL_BUILD="$(abspath $(BUILD))" SMOL_JSONL_LINES=100000 "$$(./scripts/venv)" -m pytest -q -rP \
		tests/oracle/test_jsonl.py -k memory

long: tests ## compare with transformers after 8,192 tokens, all layers of the real model
	SMOL_BUILD="$(abspath $(BUILD))" SMOL_LONG_LAYERS=1000 "$$(./scripts/venv)" -m pytest -q -s \
		tests/oracle/test_logits.py -k 8192

mutations: tests ## read 100,000 mutated safetensors headers as the reference package does
	SMOL_BUILD="$(abspath $(BUILD))" SMOL_FUZZ_ROUNDS=100000 "$$(./scripts/venv)" -m pytest -q \
		tests/oracle/test_safetensors.py -k mutations

templates: tests ## render 2,000 conversations with each family's chat template as the reference does
	SMOL_BUILD="$(abspath $(BUILD))" SMOL_TEMPLATE_ROUNDS=2000 "$$(./scripts/venv)" -m pytest -q \
		tests/oracle/test_template.py

# TARGET=blob fuzzes one of them only; see tests/fuzz/README.md
FUZZ_SECONDS ?= 900
fuzz: ## give every reader arbitrary bytes, each for a quarter of an hour (FUZZ_SECONDS), with libFuzzer
	./scripts/fuzz run $(FUZZ_SECONDS) $(TARGET)

fuzz-afl: ## the same for the most exposed readers with AFL++, one of them built for 32 bits
	./scripts/fuzz afl $(FUZZ_SECONDS) $(TARGET)

# BENCH="--only decode --rounds 3" chooses what; IK_BENCH=path/to/llama-bench measures ik_llama.cpp too
bench: all $(BUILD)/bench/liblimits.so ## measure speed and memory against llama.cpp and the machine's limits
	./scripts/setup bench
	SMOL_BUILD="$(abspath $(BUILD))" IK_BENCH="$(IK_BENCH)" "$$(./scripts/peer)" scripts/bench $(BENCH)

$(BUILD)/bench/liblimits.so: $(BUILD)/obj/tests/bench/limits.o
	@mkdir -p $(@D)
	$(LINK) -shared -o $@ $^ $(LDLIBS_RUN)

tidy: ## run clang-tidy
	printf '%s\n' $(COMMON_SRC) $(FORMAT_SRC) $(RUNTIME_SRC) $(CONVERT_SRC) $(CLI_SRC) $(REQUEST_SRC) $(SMOLRUN_SRC) \
		$(SMOLSERVE_SRC) $(PYTHON_SRC) | \
		xargs -P "$$(nproc)" -n 12 sh -c 'clang-tidy --quiet "$$@" -- \
		$(filter-out $(HARDENING),$(SMOL_CFLAGS)) -mavx2 -mfma -mf16c -msha' sh

# Manual and completions, from the tables of options that the programs were built with: copies of them
# that print these instead of parsing (docs/man/tables.c). They run here, so with another machine's
# compiler there are none: DOCS=no.
$(BUILD)/tables/%: FILE_LDFLAGS := -Wl,--wrap=smol_options_parse
$(BUILD)/tables/smolconv: $(CONVERT_OBJ) $(CLI_OBJ) $(SHARED_OBJ) $(call objects,docs/man/tables.c)
	@mkdir -p $(@D)
	$(LINK) -pie -o $@ $^ $(LDLIBS_CONVERT)
$(BUILD)/tables/smolrun: $(SMOLRUN_OBJ) $(CLI_OBJ) $(call objects,docs/man/tables.c) $(BUILD)/libsmol.a
	@mkdir -p $(@D)
	$(LINK) -pie -o $@ $^ $(LDLIBS_RUN)

$(BUILD)/tables/smolserve: $(SMOLSERVE_OBJ) $(CLI_OBJ) $(call objects,docs/man/tables.c) $(BUILD)/libsmol.a
	@mkdir -p $(@D)
	$(LINK) -pie -o $@ $^ $(LDLIBS_SERVE)

$(BUILD)/docs/made: scripts/gen-docs $(wildcard docs/man/*) $(addprefix $(BUILD)/tables/,smolconv smolrun smolserve)
	rm -rf $(@D)
	scripts/gen-docs $(BUILD)/tables $(@D)
	@touch $@

docs: $(BUILD)/docs/made ## make manual pages (with scdoc) and completions for bash, zsh and fish

# In a copy of the tracked files, because the packages' build cleans its folder.
DEB_BUILD := $(BUILD)/deb/smol-$(VERSION)
deb: ## make Debian packages (build/deb), and let lintian look at them
	./scripts/setup deb
	rm -rf $(BUILD)/deb
	mkdir -p $(DEB_BUILD)
	git ls-files -z | tar -c --null -T - | tar -x -C $(DEB_BUILD)
	cd $(DEB_BUILD) && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL dpkg-buildpackage -us -uc -b
	lintian --allow-root --fail-on error,warning $(BUILD)/deb/*.changes

coverage: ## measure which lines and branches the tests reach (build/coverage/report.html)
	./scripts/coverage

# the installed files; a library's other names are links
SHARED_LIBRARY := $(DESTDIR)$(LIBDIR)/libsmol.so
INSTALLED := $(addprefix $(DESTDIR)$(BINDIR)/,smolconv smolrun smolserve smol-fetch) $(DESTDIR)$(LIBDIR)/libsmol.a \
	$(SHARED_LIBRARY) $(SHARED_LIBRARY).$(SOVERSION) $(SHARED_LIBRARY).$(VERSION) \
	$(DESTDIR)$(INCLUDEDIR)/smol.h $(DESTDIR)$(PKGCONFIGDIR)/smol.pc \
	$(DESTDIR)$(PREFIX)/share/smol/calibration.txt

# Programs and the shared library are stripped. INSTALL="install --strip-program=true" leaves that to
# others; other machines need their own strip there.
INSTALL ?= install
install: all ## install programs, library and header below PREFIX (and DESTDIR)
	install -d $(sort $(dir $(INSTALLED)))
	$(INSTALL) -s -m 755 $(BUILD)/smolconv $(BUILD)/smolrun $(BUILD)/smolserve $(DESTDIR)$(BINDIR)
	install -m 755 scripts/smol-fetch $(DESTDIR)$(BINDIR)
	install -m 644 $(BUILD)/libsmol.a $(DESTDIR)$(LIBDIR)
	$(INSTALL) -s -m 755 $(BUILD)/libsmol.so $(SHARED_LIBRARY).$(VERSION)
	ln -sf libsmol.so.$(VERSION) $(SHARED_LIBRARY).$(SOVERSION)
	ln -sf libsmol.so.$(SOVERSION) $(SHARED_LIBRARY)
	install -m 644 smol.h $(DESTDIR)$(INCLUDEDIR)
	install -m 644 demo/calibration.txt $(DESTDIR)$(PREFIX)/share/smol
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR:$(PREFIX)/%=$${prefix}/%)|' \
		-e 's|@INCLUDEDIR@|$(INCLUDEDIR:$(PREFIX)/%=$${prefix}/%)|' -e 's|@VERSION@|$(VERSION)|' \
		-e 's|@LIBS@|$(LDLIBS_RUN)|' runtime/smol.pc.in >$(DESTDIR)$(PKGCONFIGDIR)/smol.pc
	chmod 644 $(DESTDIR)$(PKGCONFIGDIR)/smol.pc

# Documentation is installed if scdoc and Python are there to make it.
DOCS ?= $(if $(and $(shell command -v scdoc),$(shell command -v python3)),yes,no)
MANDIR ?= $(PREFIX)/share/man
BASHDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
FISHDIR ?= $(PREFIX)/share/fish/vendor_completions.d
ifeq ($(DOCS),yes)
install: install-docs
endif
install-docs: $(BUILD)/docs/made
	install -d $(addprefix $(DESTDIR),$(MANDIR)/man1 $(BASHDIR) $(ZSHDIR) $(FISHDIR))
	install -m 644 $(BUILD)/docs/man/*.1 $(DESTDIR)$(MANDIR)/man1
	install -m 644 $(BUILD)/docs/completions/bash/* $(DESTDIR)$(BASHDIR)
	install -m 644 $(BUILD)/docs/completions/zsh/* $(DESTDIR)$(ZSHDIR)
	install -m 644 $(BUILD)/docs/completions/fish/* $(DESTDIR)$(FISHDIR)

uninstall: uninstall-docs
uninstall-docs:
	rm -f $(patsubst docs/man/%.scd,$(DESTDIR)$(MANDIR)/man1/%,$(wildcard docs/man/*.1.scd)) \
		$(foreach p,smolconv smolrun smolserve,$(DESTDIR)$(BASHDIR)/$(p) $(DESTDIR)$(ZSHDIR)/_$(p) \
		$(DESTDIR)$(FISHDIR)/$(p).fish)

uninstall: ## remove what install put there
	rm -f $(INSTALLED)

clean: ## remove what was built
	rm -rf $(BUILD)

help: ## show this list
	@grep -hE '^[a-z0-9_-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 14

-include $(shell find $(BUILD) -path $(BUILD)/deb -prune -o -name '*.d' -type f -print 2>/dev/null)
