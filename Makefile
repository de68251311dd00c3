# ckpt - `make help` lists the targets; V=1 shows the commands.
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

B        ?= build
PREFIX   ?= /usr/local
DESTDIR  ?=
CFLAGS   ?= -O2 -g
# Whether libarchive's header is here; empty: without it, `ckpt scan` calls what only it opens INCOMPLETE.
ifeq ($(origin LIBARCHIVE),undefined)
LIBARCHIVE := $(shell echo | $(CC) -include archive.h -E -x c - >/dev/null 2>&1 && echo yes)
endif
CORPUS_PUBLIC ?= ../shared/corpus/public
FUZZ_SECONDS  ?= 800

WARN      = -Wall -Wextra -Wpedantic -Wconversion -Wshadow
CPPFLAGS += -Ilib -D_GNU_SOURCE $(if $(LIBARCHIVE),-DHAVE_LIBARCHIVE)
ALL_CFLAGS = -std=c11 $(WARN) $(CPPFLAGS) $(CFLAGS) $(SAN) -fPIC -fvisibility=hidden -pthread
LIB_LIBS  = -lzip -lz -lcrypto -lm -ldl
CLI_LIBS  = -lcjson
LINK      = $(CC) $(SAN) -Wl,--as-needed
SANITIZE  = -fno-sanitize-recover=all -fno-omit-frame-pointer -fsanitize=address,undefined

VERSION  := $(shell sed -n 's/^\#define CKPT_VERSION "\(.*\)"/\1/p' lib/ckpt.h)
SONAME    = libckpt.so.0

LIB_SRC  := $(sort $(wildcard lib/*.c lib/*/*.c))
CLI_SRC  := $(sort $(wildcard cli/*.c))
UNIT_SRC := $(sort $(wildcard tests/unit/*.c))
LIB_OBJ  := $(LIB_SRC:%.c=$(B)/obj/%.o)
CLI_OBJ  := $(CLI_SRC:%.c=$(B)/obj/%.o)
UNIT_OBJ := $(UNIT_SRC:%.c=$(B)/obj/%.o)
PUBLIC   := truth robust fuzz/open fuzz/scan fuzz/write
BENCH    := mkckpt runner count
BENCH_PROGRAMS = $(BENCH:%=$(B)/tests/bench/%)
PUB_OBJ  := $(PUBLIC:%=$(B)/obj/tests/%.o) $(BENCH:%=$(B)/obj/tests/bench/%.o)
DEPS      = $(patsubst %.o,%.d,$(LIB_OBJ) $(CLI_OBJ) $(UNIT_OBJ) $(PUB_OBJ))

# Inner makes use every processor unless the caller chose a number.
JOBS      = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 2))
SUB       = $(MAKE) --no-print-directory $(JOBS)
ASAN      = B=$(B)/asan CFLAGS="-O1 -g" SAN="$(SANITIZE)"
ENV       = B=$(B) CC="$(CC)" MAKE="$(MAKE)" VERSION=$(VERSION) CORPUS_PUBLIC="$(CORPUS_PUBLIC)"

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-5s %s\n'
endif

## all: build ckpt, libckpt.a and libckpt.so
all: $(B)/ckpt $(B)/libckpt.a $(B)/libckpt.so
	@:

$(B)/obj/%.o: %.c
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# One relocatable object with every internal name made local: only ckpt_* leaves it.
$(B)/libckpt.o: $(LIB_OBJ)
	$(say) LD $@
	$(Q)$(CC) -r -nostdlib -o $@ $(LIB_OBJ)
	$(Q)objcopy --wildcard --keep-global-symbol='ckpt_*' $@

$(B)/libckpt.a: $(B)/libckpt.o
	$(say) AR $@
	$(Q)rm -f $@ && ar rcsD $@ $<

$(B)/libckpt.so: $(LIB_OBJ)
	$(say) LD $@
	$(Q)$(LINK) -shared -Wl,-soname,$(SONAME) -o $@ $(LIB_OBJ) $(LDFLAGS) $(LIB_LIBS) -pthread

$(B)/ckpt: $(CLI_OBJ) $(B)/libckpt.a
	$(say) LD $@
	$(Q)$(LINK) -o $@ $(CLI_OBJ) $(B)/libckpt.a $(LDFLAGS) $(CLI_LIBS) $(LIB_LIBS) -pthread

# Unit tests see the internals, so they link the objects themselves.
UNIT_CLI  = $(B)/obj/cli/text.o
$(B)/unit: $(UNIT_OBJ) $(UNIT_CLI) $(LIB_OBJ)
	$(say) LD $@
	$(Q)$(LINK) -Wl,--wrap=sink_clone -o $@ $(UNIT_OBJ) $(UNIT_CLI) $(LIB_OBJ) $(LDFLAGS) $(LIB_LIBS) -lcunit -pthread

# The other test programs see ckpt.h alone.
$(PUBLIC:%=$(B)/tests/%): $(B)/tests/%: $(B)/obj/tests/%.o $(B)/libckpt.a
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^ $(LDFLAGS) -lcjson $(LIB_LIBS) -pthread
$(B)/tests/robust: $(B)/obj/tests/outcome.o
# These measure from outside.
$(BENCH_PROGRAMS): $(B)/tests/bench/%: $(B)/obj/tests/bench/%.o
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $< $(LDFLAGS)

$(B)/tests/fuzz/open $(B)/tests/fuzz/scan $(B)/tests/fuzz/write: $(B)/obj/tests/fuzz/main.o
# The readers one by one see the internals. With clang's libFuzzer in place of main.c: FUZZER=-fsanitize=fuzzer.
FUZZ_PARTS = $(B)/obj/tests/fuzz/parts.o $(B)/obj/tests/fuzz/flows.o
$(B)/tests/fuzz/parts: $(FUZZ_PARTS) $(LIB_OBJ) $(if $(FUZZER),,$(B)/obj/tests/fuzz/main.o)
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) $(FUZZER) -o $@ $^ $(LDFLAGS) $(LIB_LIBS) -pthread
PUB_OBJ += $(FUZZ_PARTS) $(B)/obj/tests/outcome.o $(B)/obj/tests/threats/names.o $(B)/obj/tests/threats/attacks.o \
    $(B)/obj/tests/fuzz/main.o $(B)/obj/tests/fail/faults.o $(B)/obj/tests/fail/oom.o $(B)/obj/tests/fail/in_turn.o \
    $(B)/obj/tests/fail/sets.o $(B)/obj/tests/fail/folder.o $(B)/obj/tests/schema.o

-include $(DEPS)

# --------------------------------------------------------------- what to run

setup setup-check setup-oracle:
	@sh tests/setup.sh $(subst setup-,,$@)

## demo: install what is missing, build, and fix a real training checkpoint
demo: setup
	+@$(SUB) all
	@$(ENV) sh tests/demo.sh

## check: install what is missing, build, run every test; the last line counts them
check: setup-check
	+@$(SUB) all test-programs
	+@$(SUB) asan-programs
	@$(ENV) sh tests/run.sh $(T)

# Knows nothing of ckpt: it runs it.
FAULTS    = $(patsubst %,$(B)/obj/tests/fail/%.o,faults errors folder trace)
$(B)/tests/fail/faults: $(FAULTS)
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $(FAULTS)

# ckpt itself, but its allocations fail when faults wants them to.
OOM_WRAP  = $(if $(findstring address,$(SAN)),$(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc aligned_alloc strdup))
comma    := ,
$(B)/tests/fail/ckpt-oom: $(B)/obj/tests/fail/oom.o $(CLI_OBJ) $(B)/libckpt.a
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) $(OOM_WRAP) -o $@ $^ $(LDFLAGS) $(CLI_LIBS) $(LIB_LIBS) -pthread

# The fuzz targets, but each call that can fail fails in turn.
TURNS     = $(patsubst %,-Wl$(comma)--wrap=%,arena_alloc arena_array arena_grow arena_str arena_printf buf_ok \
    format_scan map_put map_put_num map_set_num sink_patch sink_skip sink_write source_read \
    fd_pread fsync link linkat lstat mkdir open realpath rename renameat renameat2 stat unlink unlinkat)
$(B)/tests/fail/in_turn: $(patsubst %,$(B)/obj/tests/fail/%.o,in_turn oom sets folder) $(FUZZ_PARTS) $(LIB_OBJ)
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) $(OOM_WRAP) $(TURNS) -o $@ $^ $(LDFLAGS) $(LIB_LIBS) -pthread

$(B)/tests/threats/names $(B)/tests/threats/attacks: $(B)/tests/threats/%: $(B)/obj/tests/threats/%.o
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $<

$(B)/tests/schema: $(B)/obj/tests/schema.o
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $< $(LDFLAGS) -lcjson -lm

test-programs: $(B)/unit $(B)/tests/robust $(B)/tests/threats/names $(B)/tests/threats/attacks \
    $(B)/tests/fail/faults $(B)/tests/fail/ckpt-oom $(B)/tests/fail/in_turn $(B)/tests/truth $(B)/tests/schema $(BENCH_PROGRAMS)
asan-programs:
	+@$(SUB) $(ASAN) $(B)/asan/ckpt $(B)/asan/unit $(B)/asan/tests/robust $(B)/asan/tests/truth \
	    $(B)/asan/tests/fuzz/open $(B)/asan/tests/fuzz/scan $(B)/asan/tests/fuzz/write $(B)/asan/tests/fuzz/parts $(B)/asan/tests/fail/ckpt-oom \
	    $(B)/asan/tests/fail/in_turn

## unit: run the unit tests (SUITE=name for one)
unit: $(B)/unit
	$(B)/unit $(SUITE)

## lint: floors, symbols, owners, options against man pages, banned calls
lint: $(B)/ckpt $(B)/libckpt.a $(B)/libckpt.so
	@$(ENV) sh tests/lint/run.sh

## asan: unit tests and every corpus file under AddressSanitizer and UBSan
asan: asan-programs
	@$(ENV) sh tests/run.sh unit-asan replay robust

## ubsan: the same under UBSan alone, without ASan's memory
ubsan:
	+@$(SUB) B=$(B)/ubsan CFLAGS="-O1 -g" SAN="-fsanitize=undefined -fno-sanitize-recover=all" \
	    $(B)/ubsan/unit $(B)/ubsan/tests/robust
	@$(B)/ubsan/unit
	@$(B)/ubsan/tests/robust --replay tests/corpus

## valgrind: unit tests and the demo's commands under valgrind
valgrind: all $(B)/unit
	@$(ENV) sh tests/valgrind.sh

## faults: every writer with failing calls and allocations, a full disk, SIGKILL, a changing input
faults: all $(B)/unit $(B)/tests/fail/faults $(B)/tests/fail/ckpt-oom $(B)/tests/fail/in_turn
	+@$(SUB) $(ASAN) $(B)/asan/tests/fail/ckpt-oom $(B)/asan/tests/fail/in_turn
	@$(ENV) OOM_STEP=1 sh tests/run.sh faults

## attacks: files made to slip past scan, and harmless ones that look alike (part of check)
attacks: all $(B)/tests/threats/attacks
	@$(ENV) sh tests/run.sh attacks

## threats: hostile bytes, numbers and names, in little memory (part of check)
threats: all test-programs
	+@$(SUB) $(ASAN) $(B)/asan/tests/robust
	@$(ENV) sh tests/run.sh threats

## fuzz: every reader and every round trip, FUZZ_SECONDS (800) in all: by libFuzzer where clang has it
fuzz:
	+@$(SUB) $(ASAN) $(B)/asan/tests/fuzz/parts
	+@echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | \
	    clang -fsanitize=fuzzer,address -x c -o $(B)/asan/libfuzzer - 2>$(B)/asan/libfuzzer.log && \
	    $(SUB) B=$(B)/fuzz CC=clang CFLAGS="-O1 -g" SAN="$(SANITIZE),fuzzer-no-link" FUZZER=-fsanitize=fuzzer \
	    $(B)/fuzz/tests/fuzz/parts || echo 'no libFuzzer: mutating by tests/fuzz/main.c'
	@$(ENV) FUZZ_SECONDS=$(FUZZ_SECONDS) sh tests/fuzz/run.sh --long

## coverage: branches of the readers that tests take, file by file, as gcov counts them
COUNT = $(B)/coverage/obj/tests/coverage.o
COVER = B=$(B)/coverage LDFLAGS="-Wl,--wrap=_exit,--wrap=sandbox_enter $(COUNT)" SAN=--coverage
coverage:
	+@$(SUB) $(COVER) CFLAGS="-O0 -g -fprofile-update=atomic" $(COUNT)
	+@$(SUB) $(COVER) CFLAGS="-O0 -g -fprofile-update=atomic" $(patsubst %,$(B)/coverage/%,ckpt unit tests/robust \
	    tests/fuzz/open tests/fuzz/scan tests/fuzz/write tests/fuzz/parts tests/fail/in_turn)
	@$(ENV) B=$(B)/coverage sh tests/coverage.sh

## bench: measure time and memory beside public tools
bench: setup
	+@$(SUB) all $(BENCH_PROGRAMS)
	@$(ENV) ORACLE_PYTHON="$(ORACLE_PYTHON)" sh tests/bench/run.sh

## bench-results: measure 2 GB files and keep the table in tests/bench/RESULTS.md
bench-results: setup
	+@$(SUB) all $(BENCH_PROGRAMS)
	@$(ENV) ORACLE_PYTHON="$(ORACLE_PYTHON)" BENCH_BIG=1 sh tests/bench/run.sh >$(B)/results.md; \
	    code=$$?; [ ! -s $(B)/results.md ] || cp $(B)/results.md tests/bench/RESULTS.md; exit $$code

## bench-gates: what needs no clock: bytes, system calls, memory, instructions (part of check)
bench-gates: setup
	+@$(SUB) all $(BENCH_PROGRAMS)
	@$(ENV) sh tests/bench/gates.sh

## check-oracle: hold what we write against torch and safetensors (ORACLE_PYTHON)
check-oracle:
	+@$(SUB) all
	@$(ENV) ORACLE_PYTHON="$(ORACLE_PYTHON)" sh tests/oracle/run.sh

## oracle-env: a virtual environment with torch, safetensors and numpy under build/
oracle-env: setup-oracle
	python3 -m venv $(B)/oracle-env
	$(B)/oracle-env/bin/pip install --quiet torch safetensors numpy

# ------------------------------------------------------------------- install

bindir  = $(DESTDIR)$(PREFIX)/bin
libdir  = $(DESTDIR)$(PREFIX)/lib
incdir  = $(DESTDIR)$(PREFIX)/include
pcdir   = $(libdir)/pkgconfig
mandir  = $(DESTDIR)$(PREFIX)/share/man
schemadir = $(DESTDIR)$(PREFIX)/share/ckpt/schema
bashdir = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
zshdir  = $(DESTDIR)$(PREFIX)/share/zsh/site-functions
fishdir = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
PAGES  := $(sort $(wildcard man/*.[1-9]))

## install: command, library, header, man pages, completions (PREFIX, DESTDIR)
install: all
	install -d $(bindir) $(pcdir) $(incdir) $(bashdir) $(zshdir) $(fishdir) $(addprefix $(mandir)/man,1 3 7) $(schemadir)
	install -m 755 $(B)/ckpt $(bindir)/ckpt
	install -m 644 lib/ckpt.h $(incdir)/ckpt.h
	install -m 644 $(B)/libckpt.a $(libdir)/libckpt.a
	install -m 755 $(B)/libckpt.so $(libdir)/libckpt.so.$(VERSION)
	ln -sf libckpt.so.$(VERSION) $(libdir)/$(SONAME)
	ln -sf $(SONAME) $(libdir)/libckpt.so
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' libckpt.pc.in > $(pcdir)/libckpt.pc
	for p in $(PAGES); do install -m 644 $$p $(mandir)/man$${p##*.}/ || exit 1; done
	install -m 644 man/schema/*.json $(schemadir)
	$(B)/ckpt completion bash > $(bashdir)/ckpt
	$(B)/ckpt completion zsh > $(zshdir)/_ckpt
	$(B)/ckpt completion fish > $(fishdir)/ckpt.fish

## uninstall: remove what install put there
uninstall:
	rm -f $(bindir)/ckpt $(incdir)/ckpt.h $(libdir)/libckpt.a $(libdir)/libckpt.so $(libdir)/$(SONAME)
	rm -f $(libdir)/libckpt.so.$(VERSION) $(pcdir)/libckpt.pc
	rm -f $(foreach p,$(PAGES),$(mandir)/man$(subst .,,$(suffix $(p)))/$(notdir $(p)))
	rm -f $(patsubst man/schema/%,$(schemadir)/%,$(wildcard man/schema/*.json))
	rm -f $(bashdir)/ckpt $(zshdir)/_ckpt $(fishdir)/ckpt.fish

## format: lay out the sources with clang-format
format:
	clang-format -i $(wildcard lib/*.[ch] lib/*/*.[ch] cli/*.[ch] tests/*.[ch] tests/*/*.[ch])

## clean: remove everything that was built
clean:
	rm -rf build

## help: this list
help:
	@sed -n 's/^## \([a-z-]*\): \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{printf "%-22s %s\n", $$1, $$2}'

.PHONY: all asan asan-programs bench bench-gates bench-results check check-oracle clean coverage demo faults format \
    attacks fuzz help install lint oracle-env setup setup-check setup-oracle test-programs threats ubsan uninstall unit valgrind
