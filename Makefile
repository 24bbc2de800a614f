# partline: build and check. GNU make; `make help` lists the targets.

ifeq ($(origin LUA),undefined)
LUA := $(or $(shell for l in lua5.4 lua54 lua-5.4 lua; do command -v $$l >/dev/null && echo $$l && break; done),lua5.4)
endif
ifeq ($(origin LUA_INC),undefined)
LUA_INC := $(or $(shell for p in lua5.4 lua-5.4 lua54 lua; do pkg-config --cflags $$p 2>/dev/null && break; done),\
             $(addprefix -I,$(firstword $(wildcard /usr/include/lua5.4 /usr/local/include/lua54 /usr/local/include/lua))))
endif
LUA_LIB   ?= $(or $(shell for p in lua5.4 lua-5.4 lua54 lua; do pkg-config --libs $$p 2>/dev/null && break; done),-llua5.4)
LUA53_INC ?= $(or $(shell pkg-config --cflags lua5.3 2>/dev/null),-I/usr/include/lua5.3)

BUILD     ?= build
PREFIX    ?= /usr/local
LUA_DIR   ?= $(PREFIX)/share/lua/5.4
LUA_CDIR  ?= $(PREFIX)/lib/lua/5.4
DEMO_PORT ?= 8080

CFLAGS    ?= -O2 -g
WERROR    ?= -Werror
WARN       = -Wall -Wextra $(WERROR) -Wshadow -Wpointer-arith -Wstrict-prototypes -Wwrite-strings -Wvla
COMPILE    = $(CC) -std=c11 -fPIC $(WARN) $(CFLAGS) -MMD -MP -Icsrc/core
ifeq ($(shell uname -s),Darwin)
SHARED    ?= -bundle -undefined dynamic_lookup
else
SHARED    ?= -shared
endif

CORE      := $(sort $(wildcard csrc/core/*.c))
BIND      := $(sort $(wildcard csrc/bind/*.c))
CTESTS    := $(sort $(wildcard ctest/*_test.c))
BINDTESTS := $(sort $(wildcard ctest/bind/*_test.c))
FUZZ      := $(sort $(wildcard fuzz/*_fuzz.c))
LUA_FILES := $(wildcard lua/partline/*.lua lua/partline/*/*.lua)
HEADERS   := $(wildcard csrc/core/*.h csrc/bind/*.h ctest/*.h fuzz/*.h)

CORE_OBJ  := $(CORE:%.c=$(BUILD)/obj/%.o)
BIND_OBJ  := $(BIND:%.c=$(BUILD)/obj/%.o)
CTEST_BIN := $(CTESTS:%.c=$(BUILD)/%)
BINDTEST_BIN := $(BINDTESTS:%.c=$(BUILD)/%)
FUZZ_BIN  := $(FUZZ:%.c=build/%)
MODULE    := $(BUILD)/partline/core.so

# Every Lua below finds this checkout first, then whatever the caller had. Lua 5.4 prefers the variables
# with the version in their name, so those must not reach it.
export LUA
export LUA_PATH  := $(CURDIR)/lua/?.lua;$(CURDIR)/lua/?/init.lua;$(or $(LUA_PATH_5_4),$(LUA_PATH),;)
export LUA_CPATH := $(abspath $(BUILD))/?.so;$(or $(LUA_CPATH_5_4),$(LUA_CPATH),;)
unexport LUA_PATH_5_4 LUA_CPATH_5_4

need       = sh scripts/deps.sh need
again      = $(MAKE) --no-print-directory

all: $(MODULE)  ## build the module partline.core (the default)

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | while IFS='	' read -r t d; do printf '  make %-12s %s\n' "$$t" "$$d"; done
	@echo 'Variables: LUA LUA_INC (compiler flags) LUA_LIB CC CFLAGS LDFLAGS WERROR PREFIX DESTDIR SPECS BUSTED_FLAGS FUZZ_SECONDS'

# --- build ---------------------------------------------------------------------------------------------------------

$(MODULE): $(CORE_OBJ) $(BIND_OBJ)
	@mkdir -p $(@D)
	$(CC) $(SHARED) -o $@ $^ $(LDFLAGS)

$(CORE_OBJ): $(BUILD)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(COMPILE) -c -o $@ $<

$(BIND_OBJ): $(BUILD)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(COMPILE) -Icsrc/bind $(LUA_INC) -c -o $@ $<

$(CTEST_BIN): $(BUILD)/%: %.c $(CORE_OBJ) Makefile
	@mkdir -p $(@D)
	$(COMPILE) -o $@ $< $(CORE_OBJ) $(LDFLAGS)

# Tests of the binding from C (failing allocators, for example) link the interpreter as a library.
$(BINDTEST_BIN): $(BUILD)/%: %.c $(CORE_OBJ) $(BIND_OBJ) Makefile
	@mkdir -p $(@D)
	$(COMPILE) -Icsrc/bind -Ictest $(LUA_INC) -o $@ $< $(CORE_OBJ) $(BIND_OBJ) $(LUA_LIB) $(LDFLAGS)

-include $(wildcard $(BUILD)/obj/*/*.d $(BUILD)/obj/*/*/*.d $(BUILD)/ctest/*.d $(BUILD)/ctest/bind/*.d)

# --- test ----------------------------------------------------------------------------------------------------------

test:  ## build, then run the C tests and the specs
	@$(need) cc lua headers luasocket busted json
	+@$(again) all
	+@$(again) ctest
	+@$(again) spec

ctest: $(CTEST_BIN) $(BINDTEST_BIN)  ## the C tests
	@bad=0; for t in $^; do printf '%s: ' "$$t"; $(WRAP) "$$t" || { bad=1; echo "$$t FAILED"; }; done; exit $$bad

SPECS ?= spec
spec: all  ## the busted specs; SPECS=spec/reader_spec.lua runs one file
	@$(WRAP) $(LUA) scripts/busted.lua $(BUSTED_FLAGS) $(SPECS)

SOAK_SECONDS ?= 300
soak: all  ## mixed abuse against the server for SOAK_SECONDS (300); SOAK_SEED repeats a run
	@SOAK_SECONDS=$(SOAK_SECONDS) $(LUA) scripts/busted.lua spec/soak_spec.lua

demo:  ## install what is missing (Debian), build, start the upload server
	@sh scripts/deps.sh install cc lua headers luasocket
	+@$(again) all demo-server

demo-server: all
	@printf '\nTry it from another terminal:\n\n  curl -F note=hello -F file=@README.md http://127.0.0.1:$(DEMO_PORT)/upload\n\n'
	@exec $(LUA) examples/upload.lua --port $(DEMO_PORT)

# --- the gate ------------------------------------------------------------------------------------------------------

check:  ## the whole gate, one step after the other
	+@for t in layers lint test asan valgrind fuzz-smoke rock; do echo "== $$t"; $(again) $$t || exit 1; done; echo 'check: all good'

layers:  ## no layer knows what is above it
	@sh scripts/layers.sh

SYNTAX = -std=c11 $(WARN) -fsyntax-only -Icsrc/core
lint:  ## luacheck; gcc and clang warnings as errors; Lua 5.3 headers too
	@$(need) luacheck gcc clang headers headers53
	luacheck --no-color -q $(wildcard lua spec examples bench scripts types)
	@for cc in gcc clang; do \
	  for f in $(CORE) $(CTESTS) $(FUZZ); do $$cc $(SYNTAX) $$f || exit 1; done; \
	  for f in $(BIND); do for inc in "$(LUA_INC)" "$(LUA53_INC)"; do \
	    $$cc $(SYNTAX) -Icsrc/bind $$inc $$f || { echo "with $$inc"; exit 1; }; done; done; \
	  for f in $(BINDTESTS); do $$cc $(SYNTAX) -Icsrc/bind -Ictest $(LUA_INC) $$f || exit 1; done; \
	done; echo "lint: no warnings"

# gcc's runtime must be loaded before everything else, but only into Lua: curl and others do not start with it.
# So build/asan/bin/lua5.4 is a wrapper, first in PATH, and nopreload.so takes LD_PRELOAD away again.
ASAN_CC    ?= gcc
ASAN_FLAGS  = -fsanitize=address,undefined -fno-sanitize-recover=all
ASAN_MAKE   = $(again) BUILD=build/asan CC=$(ASAN_CC) WERROR= CFLAGS="-O1 -g -fno-omit-frame-pointer $(ASAN_FLAGS)"
ASAN_ENV    = ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1 \
              UBSAN_OPTIONS=print_stacktrace=1 PARTLINE_UNDER=asan
asan: build/asan/bin/$(LUA)  ## C tests and specs under AddressSanitizer, UBSan and LeakSanitizer
	+@$(ASAN_ENV) $(ASAN_MAKE) LDFLAGS="$(ASAN_FLAGS)" ctest
	+@$(ASAN_MAKE) LDFLAGS="$(ASAN_FLAGS) -Wl,-z,nodelete" all
	+@$(ASAN_ENV) PATH="$(CURDIR)/build/asan/bin:$$PATH" $(ASAN_MAKE) LDFLAGS="$(ASAN_FLAGS) -Wl,-z,nodelete" spec

build/asan/bin/$(LUA): scripts/nopreload.c Makefile
	@$(need) gcc lua busted
	@mkdir -p $(@D)
	@$(ASAN_CC) -shared -fPIC -o build/asan/nopreload.so scripts/nopreload.c
	@{ echo '#!/usr/bin/env bash'; \
	  echo 'export LD_PRELOAD="$(shell $(ASAN_CC) -print-file-name=libasan.so) $(CURDIR)/build/asan/nopreload.so"'; \
	  echo "exec -a $(LUA) $$(command -v $(LUA)) \"\$$@\""; } > $@; chmod +x $@

VALGRIND       = valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,indirect \
                 --child-silent-after-fork=yes --keep-debuginfo=yes
VALGRIND_SPECS ?= $(wildcard $(addprefix spec/,reader_spec.lua headers_spec.lua message_spec.lua multipart_spec.lua parser_spec.lua misuse_spec.lua))
valgrind: all  ## C tests and the specs of the binding under valgrind
	@$(need) valgrind
	+@PARTLINE_UNDER=valgrind $(again) ctest WRAP="$(VALGRIND)"
	+@test -z "$(VALGRIND_SPECS)" || PARTLINE_UNDER=valgrind $(again) spec WRAP="$(VALGRIND)" SPECS="$(VALGRIND_SPECS)"

FUZZ_SECONDS ?= 60
FUZZ_JOBS    ?= 2
FUZZ_CC      ?= clang
fuzz: $(FUZZ_BIN)  ## build the fuzz targets into build/fuzz/
build/fuzz/%: fuzz/%.c $(CORE) $(HEADERS) Makefile
	@mkdir -p $(@D)
	$(FUZZ_CC) -std=c11 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Icsrc/core -o $@ $< $(CORE)

fuzz-smoke:  ## run each fuzz target for FUZZ_SECONDS (60)
	@$(need) fuzzer
	+@$(again) fuzz
	@sh scripts/fuzz.sh $(FUZZ_SECONDS) $(FUZZ_JOBS) $(FUZZ_BIN)

rock:  ## luarocks make into a temporary tree, then use partline from there
	@$(need) luarocks lua headers luasocket
	@LUA_INC="$(LUA_INC)" sh scripts/rock.sh

rockspec:  ## write partline-scm-1.rockspec anew from the files on disk
	@$(LUA) scripts/rockspec.lua write

coverage:  ## lines of C that the tests reach
	+@$(again) BUILD=build/coverage WERROR= CFLAGS="-O0 -g --coverage" LDFLAGS=--coverage test
	@cd build/coverage && gcov -n -s $(CURDIR) obj/csrc/*/*.gcda | sed -n "/^File '.*csrc.*\.c'/{N;s/^File '.*\(csrc[^']*\)'\nLines executed:/\1 /p;}"

# --- the rest ------------------------------------------------------------------------------------------------------

doc:  ## the reference as HTML in build/doc/
	@$(need) ldoc
	ldoc -q -c config.ld -d build/doc .

install: all  ## copy the module and the Lua files below PREFIX (and DESTDIR)
	@for f in $(LUA_FILES:lua/%=%); do \
	  mkdir -p "$(DESTDIR)$(LUA_DIR)/$$(dirname $$f)" && install -m 644 lua/$$f "$(DESTDIR)$(LUA_DIR)/$$f" || exit 1; done
	@mkdir -p "$(DESTDIR)$(LUA_CDIR)/partline" && install -m 755 $(MODULE) "$(DESTDIR)$(LUA_CDIR)/partline/core.so"

clean:  ## remove build/ and what luarocks leaves behind
	rm -rf build partline/core.so
	rm -f csrc/core/*.o csrc/bind/*.o

.DELETE_ON_ERROR:
.PHONY: all help test ctest spec soak demo demo-server check layers lint asan valgrind fuzz fuzz-smoke rock rockspec coverage doc install clean

# --- benchmarks ----------------------------------------------------------------------------------------------------

# Peers are Debian's: libhttp-parser-dev, and librust-httparse-dev with a rustc. Each takes part when it is installed.
HTTPARSE = $(firstword $(wildcard /usr/share/cargo/registry/httparse-*/src/lib.rs))
PEERS    = $(if $(wildcard /usr/include/http_parser.h),-DHAVE_HTTP_PARSER -lhttp_parser) \
           $(if $(wildcard $(BUILD)/bench/libpeer.a),-DHAVE_HTTPARSE $(BUILD)/bench/libpeer.a -lpthread -ldl -lm)

bench-core: $(CORE) bench/core.c  ## heads, chunked and boundary search in C, every vector set, beside floors and peers
	@mkdir -p $(BUILD)/bench
	-@[ -z "$(HTTPARSE)" ] || ! command -v rustc >/dev/null || { cd $(BUILD)/bench && \
	  rustc -O --edition 2018 --crate-type rlib --crate-name httparse --cap-lints allow --cfg 'feature="std"' --cfg httparse_simd \
	    -o libhttparse.rlib $(HTTPARSE) && \
	  rustc -O --crate-type staticlib --crate-name peer --extern httparse=libhttparse.rlib -o libpeer.a $(CURDIR)/bench/httparse.rs; }
	@$(again) bench-core-run

bench-core-run:
	$(CC) -std=c11 -O2 -g -D_GNU_SOURCE -Icsrc/core bench/core.c $(CORE) -o $(BUILD)/bench/core $(PEERS)
	$(BUILD)/bench/core

bench-upload: all  ## a 1 GiB upload beside C sinks
	$(LUA) bench/upload.lua

bench-client: all  ## the client beside LuaSocket's and curl, and what bodies cost it in memory
	$$(command -v taskset >/dev/null && echo taskset -c 0) $(LUA) bench/client.lua

bench-server: all  ## the server beside nginx and a responder in C, under wrk
	sh bench/server.sh 4 3

bench-lua: all  ## heads, chunked and multipart bodies as Lua sees them, beside floors in C
	$(LUA) bench/luahead.lua
	$(LUA) bench/chunked.lua
	$(LUA) bench/multipart.lua
	-@node bench/busboy.js

.PHONY: bench-core bench-core-run bench-upload bench-client bench-server bench-lua
