# Compiles the libraries that smolconv links, from the sources that scripts/vendor fetches, for wheels and source
# distributions: OUT/libjansson.a, OUT/libzstd.a, OUT/include.
#
#     make -f python/vendor.mk VENDOR="$(scripts/vendor)" OUT=build/vendor CC=...

VENDOR ?= python/vendor
OUT ?= build/vendor
CFLAGS ?= -O2
AR ?= ar
JANSSON := $(wildcard $(VENDOR)/jansson/*.c)
ZSTD := $(wildcard $(VENDOR)/zstd/common/*.c $(VENDOR)/zstd/compress/*.c $(VENDOR)/zstd/decompress/*.c)
object = $(patsubst $(VENDOR)/%.c,$(OUT)/%.o,$(1))

all: $(OUT)/libjansson.a $(OUT)/libzstd.a

$(OUT)/libjansson.a: $(call object,$(JANSSON))
$(OUT)/libzstd.a: $(call object,$(ZSTD))
$(OUT)/%.a:
	rm -f $@ && $(AR) rcs $@ $^

# the assembler's part of zstd is for one machine only; pieces of the same data give the same bytes without it
$(OUT)/zstd/%.o: OWN := -DZSTD_DISABLE_ASM=1 -DZSTD_LEGACY_SUPPORT=0 -DXXH_NAMESPACE=ZSTD_
$(OUT)/jansson/%.o: OWN := -DHAVE_CONFIG_H -I$(OUT)/include
$(OUT)/%.o: $(VENDOR)/%.c $(OUT)/include/made
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections "-ffile-prefix-map=$(VENDOR)=vendor" \
		$(CFLAGS) $(OWN) -w -c -o $@ $<

# what jansson's configure script finds on every system that smol runs on
$(OUT)/include/made: $(firstword $(MAKEFILE_LIST))
	@mkdir -p $(@D)
	cp $(VENDOR)/jansson/jansson.h $(VENDOR)/zstd/zstd.h $(VENDOR)/zstd/zstd_errors.h $(VENDOR)/xxhash/xxhash.h $(@D)
	printf '%s\n' '#define JSON_INLINE inline' '#define JSON_INTEGER_IS_LONG_LONG 1' '#define JSON_HAVE_LOCALECONV 1' \
		'#define JSON_HAVE_ATOMIC_BUILTINS 1' '#define JSON_HAVE_SYNC_BUILTINS 1' '#define JSON_PARSER_MAX_DEPTH 2048' \
		>$(@D)/jansson_config.h
	printf '%s\n' '#define HAVE_STDINT_H 1' '#define HAVE_UNISTD_H 1' '#define HAVE_FCNTL_H 1' '#define HAVE_SYS_TIME_H 1' \
		'#define HAVE_LOCALE_H 1' '#define HAVE_LOCALECONV 1' '#define HAVE_OPEN 1' '#define HAVE_READ 1' '#define HAVE_CLOSE 1' \
		'#define HAVE_GETPID 1' '#define HAVE_GETTIMEOFDAY 1' '#define HAVE_SCHED_H 1' '#define HAVE_SCHED_YIELD 1' '#define HAVE_ATOMIC_BUILTINS 1' \
		'#define HAVE_SYNC_BUILTINS 1' '#define HAVE_STRTOLL 1' '#define USE_URANDOM 1' '#define INITIAL_HASHTABLE_ORDER 3' \
		>$(@D)/jansson_private_config.h
	@touch $@
