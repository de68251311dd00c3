#!/bin/sh
# lint/selftest.sh - tests the lints: each must print nothing for a small tree without a fault, and something for that
# tree with one fault.
set -u
LINT=${LINT:-$PWD/tests/lint}
CC=${CC:-cc}
tree=$(mktemp -d) && made=$(mktemp -d) || exit 2
trap 'rm -rf "$tree" "$made"' EXIT
export LINT LC_ALL=C B=build CKPT="$tree/build/ckpt"
bad=0

put() { mkdir -p "$tree/$(dirname "$1")" && printf '%b' "$2" >"$tree/$1"; }

# compile OBJECT TEXT - compiles TEXT to the object of lib/OBJECT.c
compile() { mkdir -p "$(dirname "$made/$1")" && printf '%s\n' "$2" | $CC -fPIC -c -o "$made/$1.o" -x c -; }

library()
{
    (cd "$tree" && $CC -fPIC -c -o build/obj/lib/api.o lib/api.c && rm -f build/libckpt.a &&
        ar rc build/libckpt.a build/obj/lib/api.o &&
        $CC -shared -Wl,--version-script=lib/libckpt.map -o build/libckpt.so build/obj/lib/api.o)
}

clean()
{
    rm -rf "$tree"
    put lib/ckpt.h '#define CKPT_API\nCKPT_API int ckpt_one(void);\n'
    put lib/api.c '#include "ckpt.h"\n#include "base/b.h"\nint ckpt_one(void) { return 1; }\n'
    put lib/libckpt.map 'CKPT_0 { global: *; };\n'
    put lib/base/b.h '#include <stddef.h>\n'
    put lib/codec/c.c '#include <zip.h>\n#include "base/b.h"\n/* strcpy(a, b); len * 2 */\nchar *x = "atoi(1)";\n'
    put lib/op/o.c '#include "base/b.h"\nint o(void) { return fail(e, g("a"), "is {%s}, not {=%s}", "{", "}"); }\n'
    put lib/format/f.c '#include "codec/c.h"\nint f(int size) { return size - 1; }\n'
    put lib/scan/s.c '#include "op/o.h"\nint s(void) { return 0; }\n'
    put lib/README.md '| `ckpt.h` |\n| `api.c` |\n| `base/b` |\n| `codec/c` |\n| `op/o.c` |\n'
    printf '| `format/f` |\n| `format/toy/toy.c` |\n| `scan/s.c` |\n' >>"$tree/lib/README.md"
    put lib/format/toy/toy.c 'const struct format format_toy = {.name = "toy"};\n'
    put cli/cmds.def 'CMD(ls)\n'
    put cli/cmd_ls.c '#include "ckpt.h"\n#include "out.h"\n'
    put man/ckpt.1 '.It Xr ckpt-ls 1\nlist\n'
    put man/ckpt-formats.7 '.It toy\n'
    put man/ckpt-ls.1 '.Nd list\n.It Fl l\n.It Fl -json\n'
    put man/ckpt_one.3 '.Sh NAME\n.Nm ckpt_one\n.Sh SYNOPSIS\n.Ft int\n.Fn ckpt_one void\n'
    put build/ckpt '#!/bin/sh\necho "  -l           long"; echo "      --json   JSON, not --text"; echo "  ls  list"\n'
    put Makefile 'all: x\n\n## all: build\n.PHONY: all\n'
    put tests/unit/t.c 'int t;\n'
    chmod +x "$tree/build/ckpt"
    mkdir -p "$tree/build/obj/lib"
    cp -R "$made"/. "$tree/build/obj/lib"
    library
}

# expect silence|speech LINT WHAT - checks that LINT prints nothing ("silence") or something ("speech")
expect()
{
    found=$(cd "$tree" && sh "$LINT/$2.sh" 2>&1)
    case $1:$found in
    silence: | speech:?*) return ;;
    esac
    echo "selftest: $2: $3${found:+: $found}"
    bad=1
}

# plant LINT FILE TEXT - adds TEXT to FILE of the clean tree and checks that LINT finds it
plant()
{
    clean
    mkdir -p "$tree/$(dirname "$2")"
    printf '%b' "$3" >>"$tree/$2"
    [ "$1" = symbols ] && library
    expect speech "$1" "does not find $3 in $2"
}

compile codec/c 'int c(void) { return 0; }'
compile op/o 'int o(void) { return 0; }'
compile format/f 'int c(void); int f(void) { return c(); }'
compile scan/s 'int o(void); int s(void) { return o(); }'
compile format/toy/toy 'int toy;'
clean
for name in floors owners symbols banned arithmetic marks text plan help commands comments options manual pages; do
    expect silence "$name" 'finds a fault where there is none'
done

plant floors lib/op/o.c '#include "format/format.h"\n'
plant floors lib/format/f.c '#include "op/op.h"\n'
plant floors lib/format/f.c '#include "scan/scan.h"\n'
plant floors lib/base/b.h '#include "io/source.h"\n'
plant floors lib/codec/c.c '#include "buf.h"\n'
plant floors cli/cmd_ls.c '#include "base/buf.h"\n'
compile op/o 'int ckpt_one(void); int o(void) { return ckpt_one(); }'
plant floors lib/op/o.c '/* calls ckpt_one of lib/api.c */\n'
compile op/o 'int f(void); int o(void) { return f(); }'
plant floors lib/op/o.c '/* calls f of lib/format/f.c */\n'
compile op/o 'int o(void) { return 0; }'
plant owners lib/codec/d.c '#include <zip.h>\n'
plant owners lib/base/b.h '#include <cjson/cJSON.h>\n'
plant symbols lib/api.c 'int helper(void) { return 1; }\n'
plant symbols lib/ckpt.h 'CKPT_API int ckpt_two(void);\n'
plant banned lib/op/o.c 'void f(char *a) { strcpy(a, "x"); }\n'
plant banned cli/cmd_ls.c 'int f(char *a) { return atoi(a); }\n'
plant banned lib/op/o.c 'void f(void) { printf("x"); }\n'
plant banned lib/op/o.c 'void f(void) { fputs("x", stderr); }\n'
plant banned lib/op/o.c 'static int calls;\n'
plant arithmetic lib/format/f.c 'int g(int size) { return size * 4; }\n'
plant arithmetic lib/codec/c.c 'int g(struct s *s) { return 30 + s->len; }\n'
plant marks lib/op/o.c 'int f(void) { return fail(e, 1, 2, "is {%u, not %u", 3, 4); }\n'
plant marks lib/op/o.c 'int f(void) { return fail(e, 1, 2, "is %u}", 3); }\n'
plant marks lib/op/o.c 'int f(void) {\n    return fail(e, 1, 2, "is {%" PRIu64\n        ", not {=%u}", 3, 4);\n}\n'
plant marks lib/op/o.c 'int f(void) { return fail(e, 1, 2, "{%u} is {%u}", 3, 4); }\n'
plant marks lib/op/o.c 'int f(void) { return fail(e, 1, 2, "{=%u} is {=%u}", 3, 4); }\n'
plant marks lib/op/o.c 'void f(void) { fail_hint(e, "take {=%u}", 3); }\n'
plant text lib/op/o.c '/* TO''DO */\n'
plant text lib/op/o.c 'int a; \n'
plant text lib/op/o.c '\tint a;\n'
plant text man/ckpt-ls.1 'see /wor''k/x\n'
plant text lib/op/o.c "/* $(printf '%0120d' 0) */\n"
plant plan lib/op/p.c 'int p;\n'
plant plan lib/README.md '| `op/gone.c` | gone |\n'
if git --version >/dev/null 2>&1; then
    clean
    put stray.pt ''
    (cd "$tree" && git init -q . && git add stray.pt)
    expect speech plan 'does not find a stray file at the top'
fi
plant help Makefile 'extra: x\n'
plant help Makefile 'extra: x\n.PHONY: extra\n'
plant comments lib/op/o.c '/* one - counts. */\nint two(void);\n'
plant comments lib/op/o.c '/* two - adds N. */\nint two(int m);\n'
plant commands cli/cmds.def 'CMD(new)\n'
plant commands man/ckpt-ls.1 '.Nd other\n'
plant commands lib/format/toy/new.c 'const struct format format_new = {.name = "new"};\n'
plant options man/ckpt-ls.1 '.It Fl -gone\n'
plant options build/ckpt 'echo "      --new   new"\n'
plant manual lib/ckpt.h 'CKPT_API int ckpt_two(void);\n'
plant manual man/ckpt_two.3 '.Sh NAME\n.Nm ckpt_one\n.Sh SYNOPSIS\n.Ft int\n.Fn ckpt_one void\n'
plant manual man/ckpt_one.3 '.Ft int\n.Fn ckpt_gone void\n'
plant manual man/ckpt_one.3 '.Sh NAME\n.Nm ckpt_gone\n'
plant manual man/ckpt_two.3 '.Sh SYNOPSIS\n.Ft int\n.Fn ckpt_one "int n"\n'
plant pages man/ckpt-ls.1 '.Ql "key":[]\n'
plant pages man/ckpt-ls.1 '.Bd -literal\nx\n.Ed\ntext\n'
exit $bad
