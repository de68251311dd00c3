# ckpt - `make help` lists the targets; V=1 shows the commands.
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

B        ?= build
PREFIX   ?= /usr/local
CC       ?= cc
CFLAGS   ?= -O2 -g
WARN      = -Wall -Wextra -Wpedantic -Wconversion -Wshadow
CPPFLAGS += -Ilib -D_GNU_SOURCE
ALL_CFLAGS = -std=c11 $(WARN) $(CPPFLAGS) $(CFLAGS) $(SAN) -fPIC -fvisibility=hidden -pthread
LDLIBS    = -lzip -lcjson -lcrypto -lz -lm
VERSION  := $(shell sed -n 's/^\#define CKPT_VERSION "\(.*\)"/\1/p' lib/ckpt.h)

LIB_SRC  := $(sort $(wildcard lib/*.c lib/*/*.c))
CLI_SRC  := $(sort $(wildcard cli/*.c))
UNIT_SRC := $(sort $(wildcard tests/unit/*.c))
LIB_OBJ  := $(LIB_SRC:%.c=$(B)/obj/%.o)
CLI_OBJ  := $(CLI_SRC:%.c=$(B)/obj/%.o)
UNIT_OBJ := $(UNIT_SRC:%.c=$(B)/obj/%.o)

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-5s %s\n'
endif

## all: build ckpt, libckpt.a and libckpt.so
all: $(B)/ckpt $(B)/libckpt.a $(B)/libckpt.so

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
	$(Q)$(CC) $(SAN) -shared -Wl,-soname,libckpt.so.0 -Wl,--as-needed -o $@ $(LIB_OBJ) $(LDFLAGS) $(LDLIBS) -pthread

$(B)/ckpt: $(CLI_OBJ) $(B)/libckpt.a
	$(say) LD $@
	$(Q)$(CC) $(SAN) -Wl,--as-needed -o $@ $(CLI_OBJ) $(B)/libckpt.a $(LDFLAGS) $(LDLIBS) -pthread

# Unit tests see the internals, so they link the objects themselves.
$(B)/unit: $(UNIT_OBJ) $(LIB_OBJ)
	$(say) LD $@
	$(Q)$(CC) $(SAN) -o $@ $(UNIT_OBJ) $(LIB_OBJ) $(LDFLAGS) $(LDLIBS) -lcunit -pthread

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(UNIT_OBJ:.o=.d)

## unit: run the unit tests (SUITE=name for one)
unit: $(B)/unit
	$(B)/unit $(SUITE)

## clean: remove everything that was built
clean:
	rm -rf build

## help: this list
help:
	@sed -n 's/^## \([a-z-]*\): \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-22s %s\n", $$1, $$2}'

.PHONY: all unit clean help
