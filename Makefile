# ckpt - `make help` lists the targets; V=1 shows the commands.
.SUFFIXES:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

B        ?= build
PREFIX   ?= /usr/local
LIBDIR   ?= $(PREFIX)/lib
DESTDIR  ?=
CFLAGS   ?= -O2 -g
# objcopy for the target of CC, which may be a cross compiler
OBJCOPY  ?= $(or $(shell $(CC) -print-prog-name=objcopy),objcopy)
# "yes" if libarchive's header is installed. Without it, `ckpt scan` reports bzip2, xz, 7-Zip … as INCOMPLETE. A program
# loads the library when it needs it; with "linked", it is linked.
ifeq ($(origin LIBARCHIVE),undefined)
LIBARCHIVE := $(shell echo | $(CC) -include archive.h -E -x c - >/dev/null 2>&1 && echo yes)
endif
# "yes" if programs can be linked with libcurl. Without it, ckpt reads nothing from servers.
ifeq ($(origin LIBCURL),undefined)
LIBCURL := $(shell echo 'int main(void) { curl_easy_init(); return 0; }' | \
    $(CC) $(CFLAGS) $(LDFLAGS) -include curl/curl.h -o /dev/null -x c - -lcurl >/dev/null 2>&1 && echo yes)
endif
# The names of the shared libraries that are loaded when they are needed, because to link them doubles the time that every
# command takes to start. A library without a name here is linked: in static programs, and with "make ON_DEMAND=".
ifeq ($(origin ON_DEMAND),undefined)
ON_DEMAND := $(if $(SAN),,$(shell t=$$(mktemp) && echo 'int main(void) { return 0; }' | \
    $(CC) $(CFLAGS) $(LDFLAGS) -Wl,--no-as-needed -o "$$t" -x c - -lzip -lcrypto $(if $(LIBCURL),-lcurl) 2>/dev/null && \
    $$($(CC) -print-prog-name=readelf) -d "$$t" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'; rm -f "$$t"))
endif
# The file to which the linker writes from which object or archive each part of the program is.
LINK_MAP  ?=
# The files where a libcurl that is linked looks for the authorities to trust, if it was not built for one distribution.
CA_FILES  ?=
LIBZIP    := $(filter libzip.%,$(ON_DEMAND))
LIBCRYPTO := $(filter libcrypto.%,$(ON_DEMAND))
CURL_SO   := $(filter libcurl.%,$(ON_DEMAND))
CORPUS_PUBLIC ?= ../shared/corpus/public
FUZZ_SECONDS  ?= 800

# accepted FLAGS - expands to FLAGS if the compiler accepts them all, else to nothing. It writes an object, because zig
# cc accepts nothing with -S.
accepted  = $(shell t=$$(mktemp) && echo | $(CC) -Werror -O2 $(1) -include stdio.h -c -o "$$t" -x c - 2>/dev/null && \
    echo '$(1)'; rm -f "$$t")
# once NAME VALUE - expands to VALUE, which is computed when NAME is first used and stored in it
once      = $(eval $(1) := $(2))$($(1))

# Without x87 and fused multiply-add, results have the same bits on every processor. Without the path of the source
# folder, builds in different folders have the same bytes.
SAME_BITS = $(call once,SAME_BITS,$(call accepted,-ffp-contract=off) \
    $(if $(shell echo __i386__ | $(CC) $(CPPFLAGS) $(CFLAGS) -E -P -x c - | grep 1),-msse2 -mfpmath=sse -Wno-psabi) \
    $(call accepted,-ffile-prefix-map=$(CURDIR)=.))
# Builds for sanitizers and coverage are not hardened. _FORTIFY_SOURCE needs an optimized build; the user may set it.
OPTIMIZED = $(filter-out -O0,$(filter -O%,$(CFLAGS)))
FORTIFY   = $(if $(OPTIMIZED),$(if $(findstring _FORTIFY_SOURCE,$(CFLAGS) $(CPPFLAGS)),, \
    $(or $(call accepted,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)))
HARDEN    = $(if $(SAN),,$(call once,HARDEN,$(call accepted,-fstack-protector-strong) \
    $(call accepted,-fstack-clash-protection) \
    $(or $(call accepted,-fcf-protection=full),$(call accepted,-mbranch-protection=standard)) $(FORTIFY)))
# linkable FLAGS - expands to FLAGS if `ld -r` accepts them, else to nothing
linkable  = $(shell $(CC) -r -nostdlib -o /dev/null $(1) -x assembler /dev/null 2>/dev/null && echo '$(1)')
# Joins objects into one, without LTO bytecode. The COMDAT groups of i386's PIC thunks are dissolved first, because their
# names must not become local.
JOIN      = $(call once,JOIN,$(CC) $(CFLAGS) $(filter -flto% -fuse-ld=%,$(LDFLAGS)) -r -nostdlib \
    $(call linkable,-flinker-output=nolto-rel) $(call linkable,-Wl$(comma)--force-group-allocation))
# Relative relocations in a bitmap: the program is smaller and starts faster. Only where the linker records that the C
# library must know this form, because one that does not would start the program unrelocated.
RELR      = $(if $(SAN),,$(call once,RELR,$(shell t=$$(mktemp) && echo 'int main(void) { return 0; }' | \
    $(CC) $(CFLAGS) $(LDFLAGS) -fPIE -pie -Wl,-z,pack-relative-relocs -o "$$t" -x c - 2>/dev/null && \
    $$($(CC) -print-prog-name=readelf) -V "$$t" | grep -q GLIBC_ABI_DT_RELR && echo -Wl,-z,pack-relative-relocs; \
    rm -f "$$t")))
PIE       = $(if $(filter -static -static-pie -no-pie,$(CFLAGS) $(LDFLAGS)),,-pie)

WARN      = -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror=implicit-function-declaration
DEFINES   = -Ilib -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 $(if $(LIBARCHIVE),-DHAVE_LIBARCHIVE) $(if $(filter linked,$(LIBARCHIVE)),-DLIBARCHIVE_LINKED) \
    $(if $(LIBCURL),-DHAVE_LIBCURL $(if $(CURL_SO),-DLIBCURL_SONAME='"$(CURL_SO)"')) \
    $(if $(CA_FILES),-DCA_FILES='$(foreach f,$(CA_FILES),"$f"$(comma))') \
    $(if $(LIBZIP),-DLIBZIP_SONAME='"$(LIBZIP)"') $(if $(LIBCRYPTO),-DLIBCRYPTO_SONAME='"$(LIBCRYPTO)"')
ALL_CFLAGS = -std=c11 $(WARN) $(DEFINES) $(SAME_BITS) $(HARDEN) $(CPPFLAGS) $(CFLAGS) $(SAN) -fPIC -fvisibility=hidden -pthread
LIB_LIBS  = $(if $(LIBZIP),,-lzip) -lz $(if $(LIBCRYPTO),,-lcrypto) $(if $(LIBCURL),$(if $(CURL_SO),,-lcurl)) \
    $(if $(filter linked,$(LIBARCHIVE)),-larchive) -lm -ldl
CLI_LIBS  = -lcjson
SHARE     = $(or $(DRIVER),$(CC)) $(CFLAGS) $(SAN) -Wl,--as-needed -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack $(RELR)
LINK      = $(SHARE) $(PIE)
comma    := ,
SANITIZE  = -fno-sanitize-recover=all -fno-omit-frame-pointer -fsanitize=address,undefined

VERSION  := $(shell sed -n 's/^\#define CKPT_VERSION  *"\(.*\)"/\1/p' lib/ckpt.h)
SONAME    = libckpt.so.0

LIB_SRC  := $(sort $(wildcard lib/*.c lib/*/*.c lib/*/*/*.c))
# ckpt-mpi has comm_mpi.c in place of comm_self.c.
MPI_SRC  := $(wildcard cli/comm_mpi.c)
CLI_SRC  := $(filter-out $(MPI_SRC),$(sort $(wildcard cli/*.c)))
UNIT_SRC := $(sort $(wildcard tests/unit/*.c))
RECIPES  := $(sort $(wildcard share/ckpt/rules/*.rules))
LIB_OBJ  := $(LIB_SRC:%.c=$(B)/obj/%.o) $(if $(RECIPES),$(B)/obj/recipes.o)
CLI_OBJ  := $(CLI_SRC:%.c=$(B)/obj/%.o)
MPI_OBJ  := $(MPI_SRC:%.c=$(B)/obj/%.o)
UNIT_OBJ := $(UNIT_SRC:%.c=$(B)/obj/%.o)
PUBLIC   := truth mem robust tsan oracle/create fuzz/open fuzz/scan fuzz/write
BENCH    := mkckpt mkset runner count dequantize
BENCH_PROGRAMS = $(BENCH:%=$(B)/tests/bench/%)
PUB_OBJ  := $(PUBLIC:%=$(B)/obj/tests/%.o) $(BENCH:%=$(B)/obj/tests/bench/%.o)
DEPS      = $(patsubst %.o,%.d,$(LIB_OBJ) $(CLI_OBJ) $(MPI_OBJ) $(UNIT_OBJ) $(PUB_OBJ))

# A make that this one starts uses every processor, unless the user has given -j.
PARALLEL  = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 2))
SUB       = $(MAKE) --no-print-directory $(PARALLEL)
# clang also checks that unsigned numbers do not wrap in lib; without clang, gcc builds these programs.
WRAP      = $(if $(CLANG),-fsanitize=unsigned-integer-overflow)
CLANG     = $(call once,CLANG,$(shell t=$$(mktemp) && echo 'int main(void) { return 0; }' | \
    clang $(SANITIZE) -o "$$t" -x c - 2>/dev/null && echo clang; rm -f "$$t"))
ASAN      = B=$(B)/asan CC=$(or $(CLANG),$(CC)) CFLAGS="-O1 -g" SAN="$(SANITIZE)" SAN_LIB=$(WRAP)
# If programs with ThreadSanitizer do not build and run here, tests/tsan.sh is skipped.
TSAN      = B=$(B)/tsan CFLAGS="-O1 -g" SAN=-fsanitize=thread
# Each basic block of this build calls a function of tests/bench/steps.c.
STEPS     = B=$(B)/steps CFLAGS=-O0 SAN=-fsanitize-coverage=trace-pc
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

# These files change when the flags do, and what depends on them is built again.
$(B)/compile.flags: export FLAGS = $(CC) $(ALL_CFLAGS) $(SAN_LIB)
$(B)/link.flags: export FLAGS = $(LINK) $(JOIN) $(OBJCOPY) $(AR) $(LDFLAGS) $(CLI_LIBS) $(LIB_LIBS) $(FUZZER) $(LIB_SRC) $(CLI_SRC) $(RECIPES)
$(B)/compile.flags $(B)/link.flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' "$$FLAGS" | cmp -s - $@ || printf '%s\n' "$$FLAGS" >$@
FORCE:

$(B)/obj/%.o: %.c $(B)/compile.flags
	$(say) CC $<
	@mkdir -p $(@D)
	$(Q)$(or $(DRIVER),$(CC)) $(ALL_CFLAGS) $(if $(filter lib/%,$<),$(SAN_LIB)) -MMD -MP -c $< -o $@

# The recipes of `ckpt edit` are built into the library.
$(B)/obj/recipes.c: share/ckpt/embed.sh $(RECIPES) $(B)/link.flags
	$(say) GEN $@
	@mkdir -p $(@D)
	$(Q)sh share/ckpt/embed.sh $(RECIPES) >$@
$(B)/obj/recipes.o: $(B)/obj/recipes.c $(B)/compile.flags
	$(say) CC $<
	$(Q)$(or $(DRIVER),$(CC)) $(ALL_CFLAGS) $(SAN_LIB) -MMD -MP -c $< -o $@

# In this relocatable object only the names ckpt_* are global.
$(B)/libckpt.o: $(LIB_OBJ) $(B)/link.flags
	$(say) LD $@
	$(Q)$(JOIN) -o $@ $(LIB_OBJ)
	$(Q)$(OBJCOPY) --wildcard --keep-global-symbol='ckpt_*' $@

$(B)/libckpt.a: $(B)/libckpt.o
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcsD $@ $<

$(B)/libckpt.so: $(B)/libckpt.o lib/libckpt.map $(B)/link.flags
	$(say) LD $@
	$(Q)$(SHARE) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=lib/libckpt.map -o $@ $< $(LDFLAGS) $(LIB_LIBS) -pthread

$(B)/ckpt: $(CLI_OBJ) $(B)/libckpt.a
	$(say) LD $@
	$(Q)$(LINK) -o $@ $(CLI_OBJ) $(B)/libckpt.a $(LDFLAGS) $(CLI_LIBS) $(LIB_LIBS) -pthread $(if $(LINK_MAP),-Wl$(comma)--print-map >$(LINK_MAP))

# mpicc runs the compiler with the folders and libraries of its MPI.
MPICC    ?= mpicc
HAS_MPI   = $(call once,HAS_MPI,$(shell command -v $(MPICC)))
$(B)/ckpt-mpi $(MPI_OBJ): private DRIVER = OMPI_CC="$(CC)" MPICH_CC="$(CC)" $(MPICC)
$(B)/ckpt-mpi: $(MPI_OBJ) $(filter-out %/comm_self.o,$(CLI_OBJ)) $(B)/libckpt.a $(B)/link.flags
	$(say) LD $@
	$(Q)$(LINK) -o $@ $(filter %.o %.a,$^) $(LDFLAGS) $(CLI_LIBS) $(LIB_LIBS) -pthread

## mpi: build ckpt-mpi, of which the ranks of an MPI share the work
mpi: all
	@command -v $(MPICC) >/dev/null || { echo 'ckpt: there is no command $(MPICC)' >&2; \
	    echo 'hint: install an MPI, on Debian libopenmpi-dev and openmpi-bin, or set MPICC' >&2; exit 1; }
	+@$(SUB) $(B)/ckpt-mpi

# Unit tests call internal functions, so they link the objects.
UNIT_CLI  = $(B)/obj/cli/text.o $(B)/obj/cli/print.o $(B)/obj/cli/relay.o
$(B)/unit: $(UNIT_OBJ) $(UNIT_CLI) $(LIB_OBJ)
	$(say) LD $@
	$(Q)$(LINK) -Wl,--wrap=ioctl -o $@ $(UNIT_OBJ) $(UNIT_CLI) $(LIB_OBJ) $(LDFLAGS) $(LIB_LIBS) -lcunit -pthread

# These test programs call the functions of ckpt.h only.
$(PUBLIC:%=$(B)/tests/%): $(B)/tests/%: $(B)/obj/tests/%.o $(B)/libckpt.a
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $(filter %.o %.a,$^) $(LDFLAGS) -lcjson $(LIB_LIBS) -pthread
$(B)/tests/robust: $(B)/obj/tests/outcome.o
# The benchmarks run ckpt, and do not link the library, except dequantize.
$(BENCH_PROGRAMS): $(B)/tests/bench/%: $(B)/obj/tests/bench/%.o
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $(filter %.o,$^) $(LDFLAGS) $(BENCH_LIBS)
$(B)/tests/bench/dequantize: $(LIB_OBJ)
$(B)/tests/bench/dequantize: BENCH_LIBS = $(LIB_LIBS) -pthread

# ckpt-steps is the ckpt command, which counts its steps.
STEPS_WRAP = $(patsubst %,-Wl$(comma)--wrap=%,memcpy memmove memset memcmp memchr calloc realloc inflate pread64 open64 lstat64)
$(B)/obj/tests/bench/steps.o: SAN =
$(B)/tests/bench/ckpt-steps: $(B)/obj/tests/bench/steps.o $(CLI_OBJ) $(B)/libckpt.a $(B)/link.flags
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) $(STEPS_WRAP) -o $@ $(filter %.o %.a,$^) $(LDFLAGS) $(CLI_LIBS) $(LIB_LIBS) -pthread

# ckpt-slow is the ckpt command, which waits before each read.
$(B)/tests/bench/ckpt-slow: $(B)/obj/tests/bench/slow.o $(CLI_OBJ) $(B)/libckpt.a $(B)/link.flags
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) -Wl,--wrap=pread64,--wrap=copy_file_range -o $@ $(filter %.o %.a,$^) $(LDFLAGS) $(CLI_LIBS) $(LIB_LIBS) -pthread

$(B)/tests/fuzz/open $(B)/tests/fuzz/scan $(B)/tests/fuzz/write: $(B)/obj/tests/fuzz/main.o
# fuzz/parts calls internal functions. FUZZER=-fsanitize=fuzzer links it with clang's libFuzzer instead of fuzz/main.c.
FUZZ_PARTS = $(patsubst %,$(B)/obj/tests/%.o,fuzz/parts fuzz/flows fail/folder)
$(B)/tests/fuzz/parts: $(FUZZ_PARTS) $(LIB_OBJ) $(if $(FUZZER),,$(B)/obj/tests/fuzz/main.o)
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) $(FUZZER) -o $@ $(filter %.o %.a,$^) $(LDFLAGS) $(LIB_LIBS) -pthread
PUB_OBJ += $(B)/obj/tests/bench/steps.o $(B)/obj/tests/bench/slow.o $(FUZZ_PARTS) $(B)/obj/tests/outcome.o $(B)/obj/tests/threats/names.o $(B)/obj/tests/threats/attacks.o \
    $(B)/obj/tests/fuzz/main.o $(B)/obj/tests/fail/faults.o $(B)/obj/tests/fail/oom.o $(B)/obj/tests/fail/each_call.o \
    $(B)/obj/tests/fail/sets.o $(B)/obj/tests/schema.o \
    $(patsubst %,$(B)/obj/tests/remote/%.o,server reply behaviours signature)

-include $(DEPS)

# --------------------------------------------------------------- what to run

setup setup-check setup-cross setup-oracle:
	@sh tests/setup.sh $(subst setup-,,$@)

## demo: install what is missing, build, and fix a real training checkpoint
demo: setup
	+@$(SUB) all
	@$(ENV) sh tests/demo.sh

# runs PARTS - expands to a word if one of PARTS is to run: T is empty (all parts), ^PART (all but one), or lists it
runs      = $(if $(filter-out ^%,$(T)),$(filter $(1),$(T)),all)

## check: install what is missing, build, run the tests that a change needs; the last line counts them
check check-all: setup-check
	+@$(SUB) all test-programs $(if $(call runs,mpi),$(if $(HAS_MPI),mpi))
	+@$(SUB) all $(if $(call runs,robust replay public threats faults fuzz truth-asan unit-asan),asan-programs) \
	    $(if $(call runs,tsan),tsan-programs) $(if $(call runs,growth plan budget),steps-programs)
	@$(ENV) sh tests/run.sh $(if $(filter check-all,$@),--all) $(T)

## check-all: run every test; what make check has passed is counted, not run again

# faults runs the ckpt command and does not link the library.
FAULTS    = $(patsubst %,$(B)/obj/tests/fail/%.o,faults errors folder trace)
$(B)/tests/fail/faults: $(FAULTS)
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $(FAULTS)

# ckpt-oom is the ckpt command with allocations that fail when faults chooses.
OOM_WRAP  = $(if $(findstring address,$(SAN)),$(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc aligned_alloc strdup))
$(B)/tests/fail/ckpt-oom: $(B)/obj/tests/fail/oom.o $(CLI_OBJ) $(B)/libckpt.a
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) $(OOM_WRAP) -o $@ $(filter %.o %.a,$^) $(LDFLAGS) $(CLI_LIBS) $(LIB_LIBS) -pthread

# each_call runs the fuzz targets many times, so that each call of the functions in FAIL_WRAP fails once.
FAIL_WRAP     = $(patsubst %,-Wl$(comma)--wrap=%,arena_alloc arena_array arena_grow arena_str arena_printf buf_ok \
    scan_source map_put map_put_num map_set_num sink_patch sink_skip sink_write source_read \
    fd_pread fsync link linkat lstat mkdir open realpath rename renameat renameat2 stat unlink unlinkat)
$(B)/tests/fail/each_call: $(patsubst %,$(B)/obj/tests/fail/%.o,each_call oom sets) $(FUZZ_PARTS) $(LIB_OBJ)
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) $(OOM_WRAP) $(FAIL_WRAP) -o $@ $(filter %.o %.a,$^) $(LDFLAGS) $(LIB_LIBS) -pthread

$(B)/tests/threats/names $(B)/tests/threats/attacks: $(B)/tests/threats/%: $(B)/obj/tests/threats/%.o
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $<

# A scripted server for the tests of remote reading.
SERVER    = $(patsubst %,$(B)/obj/tests/remote/%.o,server reply behaviours signature)
$(B)/tests/remote/server: $(SERVER)
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $(SERVER) $(LDFLAGS) -lcrypto -pthread

$(B)/tests/schema: $(B)/obj/tests/schema.o
	$(say) LD $@
	@mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $< $(LDFLAGS) -lcjson -lm

$(B)/ckpt $(B)/unit $(PUBLIC:%=$(B)/tests/%) $(BENCH_PROGRAMS) $(B)/tests/fuzz/parts $(B)/tests/threats/names \
    $(B)/tests/schema $(B)/tests/threats/attacks $(B)/tests/remote/server \
    $(patsubst %,$(B)/tests/fail/%,faults ckpt-oom each_call): $(B)/link.flags

test-programs: $(B)/unit $(B)/tests/robust $(B)/tests/threats/names $(B)/tests/threats/attacks $(B)/tests/remote/server \
    $(B)/tests/bench/ckpt-slow $(B)/tests/fail/faults $(B)/tests/fail/ckpt-oom $(B)/tests/fail/each_call $(B)/tests/truth $(B)/tests/mem $(B)/tests/schema $(B)/tests/oracle/create $(BENCH_PROGRAMS)
asan-programs:
	+@$(SUB) $(ASAN) $(B)/asan/ckpt $(B)/asan/unit $(B)/asan/tests/robust $(B)/asan/tests/truth \
	    $(B)/asan/tests/fuzz/open $(B)/asan/tests/fuzz/scan $(B)/asan/tests/fuzz/write $(B)/asan/tests/fuzz/parts $(B)/asan/tests/fail/ckpt-oom \
	    $(B)/asan/tests/fail/each_call

tsan-programs:
	+@mkdir -p $(B)/tsan && rm -f $(B)/tsan/can
	+@if echo 'int main(void) { return 0; }' | $(CC) -fsanitize=thread -o $(B)/tsan/can -x c - 2>$(B)/tsan/can.log && \
	    $(B)/tsan/can 2>>$(B)/tsan/can.log; then $(SUB) $(TSAN) $(B)/tsan/tests/tsan; else rm -f $(B)/tsan/can; fi

steps-programs:
	+@mkdir -p $(B)/steps && rm -f $(B)/steps/tests/bench/ckpt-steps
	+@if echo 'int main(void) { return 0; }' | $(CC) -fsanitize-coverage=trace-pc -c -o $(B)/steps/can.o -x c - \
	    2>$(B)/steps/can.log; then $(SUB) $(STEPS) $(B)/steps/tests/bench/ckpt-steps; fi

## growth: check that commands take at most 2.3 times the steps for twice the tensors (part of check)
growth: all test-programs steps-programs
	@$(ENV) sh tests/run.sh --all growth

## tsan: read one file by several threads at once under ThreadSanitizer (part of check)
tsan: all test-programs tsan-programs
	@$(ENV) sh tests/run.sh --all tsan

## unit: run the unit tests (SUITE=name for one)
unit: $(B)/unit
	$(B)/unit $(SUITE)

## lint: check the rules of CONTRIBUTING.md that a machine can check
lint: $(B)/ckpt $(B)/libckpt.a $(B)/libckpt.so
	@$(ENV) sh tests/lint/run.sh

## abi: write the description of libckpt.so's interface that the part abi compares with (needs abidw)
abi: $(B)/libckpt.so
	abidw --header-file lib/ckpt.h --drop-private-types --no-show-locs --no-comp-dir-path --no-corpus-path \
	    --no-elf-needed --out-file tests/abi/libckpt.abi $<

## asan: run the unit tests and read every corpus file under AddressSanitizer and UBSan
asan: asan-programs
	@$(ENV) sh tests/run.sh --all unit-asan replay robust

## ubsan: do the same under UBSan alone, which needs less memory
ubsan:
	+@$(SUB) B=$(B)/ubsan CFLAGS="-O1 -g" SAN="-fsanitize=undefined -fno-sanitize-recover=all" \
	    $(B)/ubsan/unit $(B)/ubsan/tests/robust
	@$(B)/ubsan/unit
	@$(B)/ubsan/tests/robust --replay tests/corpus

## valgrind: run the unit tests and the demo's commands under valgrind
valgrind: all $(B)/unit
	@$(ENV) sh tests/valgrind.sh

## faults: run every writer with failing calls and allocations, a full disk, SIGKILL, a changing input
faults: all $(B)/unit $(B)/tests/fail/faults $(B)/tests/fail/ckpt-oom $(B)/tests/fail/each_call
	+@$(SUB) $(ASAN) $(B)/asan/tests/fail/ckpt-oom $(B)/asan/tests/fail/each_call
	@$(ENV) OOM_STEP=1 sh tests/run.sh --all faults

## attacks: scan files made to evade scanners, and harmless ones that look alike (part of check)
attacks: all $(B)/tests/threats/attacks
	@$(ENV) sh tests/run.sh --all attacks

## threats: read files with hostile bytes, numbers and names in little memory (part of check)
threats: all test-programs
	+@$(SUB) $(ASAN) $(B)/asan/tests/robust
	@$(ENV) sh tests/run.sh --all threats

## fuzz: give mutated files to every reader and every round trip, for FUZZ_SECONDS (800) in all, by libFuzzer if clang has it
fuzz:
	+@$(SUB) $(ASAN) $(B)/asan/tests/fuzz/parts
	+@echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | \
	    clang -fsanitize=fuzzer,address -x c -o $(B)/asan/libfuzzer - 2>$(B)/asan/libfuzzer.log && \
	    $(SUB) B=$(B)/fuzz CC=clang CFLAGS="-O1 -g" SAN="$(SANITIZE),fuzzer-no-link" FUZZER=-fsanitize=fuzzer \
	    $(B)/fuzz/tests/fuzz/parts || echo 'no libFuzzer: mutating by tests/fuzz/main.c'
	@$(ENV) FUZZ_SECONDS=$(FUZZ_SECONDS) sh tests/fuzz/run.sh --long

## coverage: print which share of the readers' branches the tests take, file by file, by gcov
COUNT = $(B)/coverage/obj/tests/coverage.o
COVER = B=$(B)/coverage LDFLAGS="-Wl,--wrap=_exit,--wrap=sandbox_enter,--wrap=sandbox_self_test $(COUNT)" SAN=--coverage
coverage:
	+@$(SUB) $(COVER) CFLAGS="-O0 -g -fprofile-update=atomic" $(COUNT)
	+@$(SUB) $(COVER) CFLAGS="-O0 -g -fprofile-update=atomic" $(patsubst %,$(B)/coverage/%,ckpt unit tests/robust \
	    tests/fuzz/open tests/fuzz/scan tests/fuzz/write tests/fuzz/parts tests/fail/each_call)
	@$(ENV) B=$(B)/coverage sh tests/coverage.sh

## check-cross: check builds for i386, musl, arm64 and s390x, and compare their output (needs a network once)
check-cross: setup setup-cross
	+@$(SUB) all
	@$(ENV) sh tests/cross/run.sh $(T)

## bench: measure time and memory next to those of common tools
bench: setup
	+@$(SUB) all $(BENCH_PROGRAMS)
	@$(ENV) ORACLE_PYTHON="$(ORACLE_PYTHON)" sh tests/bench/run.sh

## bench-results: measure 2 GB files and keep the table in tests/bench/RESULTS.md
bench-results: setup
	+@$(SUB) all $(BENCH_PROGRAMS)
	@$(ENV) ORACLE_PYTHON="$(ORACLE_PYTHON)" BENCH_BIG=1 sh tests/bench/run.sh >$(B)/results.md; \
	    code=$$?; [ ! -s $(B)/results.md ] || cp $(B)/results.md tests/bench/RESULTS.md; exit $$code

## bench-gates: check the bytes, system calls, memory and instructions that commands take (part of check-all)
bench-gates: setup
	+@$(SUB) all $(BENCH_PROGRAMS)
	@$(ENV) sh tests/bench/gates.sh

## check-oracle: let torch, safetensors and other libraries check what ckpt writes (ORACLE_PYTHON; T='oracle-edit')
check-oracle:
	+@$(SUB) all $(B)/tests/oracle/create $(B)/tests/bench/mkckpt
	@$(ENV) ORACLE_PYTHON="$(ORACLE_PYTHON)" sh tests/oracle/run.sh $(T)

## oracle-env: make a virtual environment in build/ with the libraries for check-oracle
oracle-env: setup-oracle
	python3 -m venv $(B)/oracle-env
	$(B)/oracle-env/bin/pip install --quiet torch safetensors numpy transformers peft gguf msgpack h5py hdf5plugin keras flax
	$(B)/oracle-env/bin/pip install --quiet ray==2.60.0 kubernetes-validate==1.37.0 check-jsonschema==0.39.0 \
	    dvc==3.67.1 pre-commit==4.7.0 mergekit==0.1.5 ml_dtypes
	for v in 4 5; do python3 -m venv $(B)/oracle-env$$v && \
	    $(B)/oracle-env$$v/bin/pip install --quiet "transformers==$$v.*" safetensors && \
	    for d in $(B)/oracle-env$$v/lib/python3*/site-packages; do \
	    ls -d $(abspath $(B))/oracle-env/lib/python3*/site-packages >$$d/oracle-env.pth; done || exit 1; done

# ----------------------------------------------------------------- packaging

ARCHS    ?= x86_64

## dist: build the static program, the Python wheels and what is published in build/dist: see packaging/README.md
dist: wheel
	@$(ENV) sh packaging/archives.sh $(ARCHS)

## wheel: build the Python wheels and the static program in them
wheel:
	@$(ENV) sh packaging/wheel.sh $(ARCHS)

## check-dist: check what dist has built, next to this machine's build
check-dist:
	+@$(SUB) all $(B)/tests/bench/runner $(B)/tests/bench/mkckpt $(B)/tests/remote/server
	@for arch in $(ARCHS); do for test in static roots archives wheel cli; do \
	    $(ENV) sh tests/dist/$$test.sh "$$arch" || exit 1; done; done
	@for test in container recipes ways; do $(ENV) sh tests/dist/$$test.sh || exit 1; done

## check-reproducible: build dist once more, in another folder, and compare all bytes
check-reproducible: dist
	@$(ENV) sh tests/dist/reproducible.sh $(ARCHS)

## recipes: fill in conda's recipe and Homebrew's formula for a release, after dist (URL, HOMEPAGE)
recipes:
	@$(ENV) sh packaging/recipes.sh $(URL) $(HOMEPAGE)

## deb: build packages for this machine's Debian in build/deb (needs debhelper)
deb:
	@$(ENV) sh packaging/deb.sh

## check-deb: build packages twice, check them by lintian and in a new Debian root (needs lintian, debootstrap, root)
check-deb: deb
	@$(ENV) sh tests/dist/deb.sh

# ------------------------------------------------------------------- install

bindir  = $(DESTDIR)$(PREFIX)/bin
libdir  = $(DESTDIR)$(LIBDIR)
incdir  = $(DESTDIR)$(PREFIX)/include
pcdir   = $(libdir)/pkgconfig
mandir  = $(DESTDIR)$(PREFIX)/share/man
schemadir = $(DESTDIR)$(PREFIX)/share/ckpt/schema
rulesdir = $(DESTDIR)$(PREFIX)/share/ckpt/rules
bashdir = $(DESTDIR)$(PREFIX)/share/bash-completion/completions
zshdir  = $(DESTDIR)$(PREFIX)/share/zsh/site-functions
fishdir = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
exampledir = $(DESTDIR)$(PREFIX)/share/doc/ckpt/examples
PAGES  := $(sort $(wildcard man/*.[1-9]))
EXAMPLES := $(sort $(wildcard examples/*.c examples/scale/*))

## install: install command, library, header, man pages, examples, completions (PREFIX, LIBDIR, DESTDIR)
install: all
	install -d "$(bindir)" "$(pcdir)" "$(incdir)" "$(bashdir)" "$(zshdir)" "$(fishdir)"
	install -d "$(mandir)/man1" "$(mandir)/man3" "$(mandir)/man5" "$(mandir)/man7" "$(schemadir)" "$(rulesdir)" "$(exampledir)/scale"
	install -m 755 $(B)/ckpt "$(bindir)/ckpt"
	[ ! -e $(B)/ckpt-mpi ] || install -m 755 $(B)/ckpt-mpi "$(bindir)/ckpt-mpi"
	install -m 644 lib/ckpt.h "$(incdir)/ckpt.h"
	install -m 644 $(B)/libckpt.a "$(libdir)/libckpt.a"
	install -m 755 $(B)/libckpt.so "$(libdir)/libckpt.so.$(VERSION)"
	ln -sf libckpt.so.$(VERSION) "$(libdir)/$(SONAME)"
	ln -sf $(SONAME) "$(libdir)/libckpt.so"
	sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|^libdir=$(PREFIX)/|libdir=$${prefix}/|; s|@VERSION@|$(VERSION)|' \
	    libckpt.pc.in >"$(pcdir)/libckpt.pc"
	for p in $(PAGES); do install -m 644 $$p "$(mandir)/man$${p##*.}/" || exit 1; done
	install -m 644 man/schema/*.json "$(schemadir)"
	for r in $(RECIPES); do install -m 644 $$r "$(rulesdir)" || exit 1; done
	for e in $(EXAMPLES:examples/%=%); do install -m 644 examples/$$e "$(exampledir)/$$e" || exit 1; done
	install -m 644 completion/ckpt.bash "$(bashdir)/ckpt"
	install -m 644 completion/ckpt.zsh "$(zshdir)/_ckpt"
	install -m 644 completion/ckpt.fish "$(fishdir)/ckpt.fish"

## uninstall: remove what install put there
uninstall:
	rm -f "$(bindir)/ckpt" "$(bindir)/ckpt-mpi" "$(incdir)/ckpt.h" "$(libdir)/libckpt.a" "$(libdir)/libckpt.so" "$(libdir)/$(SONAME)"
	rm -f "$(libdir)/libckpt.so.$(VERSION)" "$(pcdir)/libckpt.pc"
	rm -f $(foreach p,$(PAGES),"$(mandir)/man$(subst .,,$(suffix $(p)))/$(notdir $(p))")
	rm -f $(foreach p,$(notdir $(wildcard man/schema/*.json)),"$(schemadir)/$(p)")
	rm -f $(foreach p,$(notdir $(RECIPES)),"$(rulesdir)/$(p)")
	rm -f $(EXAMPLES:examples/%="$(exampledir)/%")
	rm -f "$(bashdir)/ckpt" "$(zshdir)/_ckpt" "$(fishdir)/ckpt.fish"

## format: format the sources with clang-format, of the version that tests/format.sh installs
format:
	@mkdir -p $(B)
	@$(ENV) sh tests/format.sh --fix

## clean: remove the build folder
clean:
	@case '$(CURDIR)/' in '$(abspath $(B))'/*) echo 'not removed: B=$(B) contains the sources' >&2; exit 1 ;; esac
	rm -rf "$(B)"

## help: print this list
help:
	@sed -n 's/^## \([a-z-]*\): \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{printf "%-22s %s\n", $$1, $$2}'

.PHONY: all abi asan asan-programs bench bench-gates bench-results check check-all check-cross check-deb check-dist check-oracle check-reproducible clean coverage deb demo dist faults format \
    attacks fuzz growth help install lint mpi oracle-env recipes setup setup-check setup-cross setup-oracle steps-programs test-programs threats tsan tsan-programs ubsan uninstall unit valgrind wheel
