#!/bin/sh
# lint/selftest.sh - tests the lints. Each must print nothing for a small source tree without violations, and something
# for the same tree with one violation.
set -u
LINT=${LINT:-$PWD/tests/lint}
CC=${CC:-cc}
tree=$(mktemp -d) && clean=$(mktemp -d) && objects=$(mktemp -d) || exit 2
trap 'rm -rf "$tree" "$clean" "$objects"' EXIT
export LINT LC_ALL=C B=build CKPT="$tree/build/ckpt"
status=0

# write_file FILE TEXT - writes TEXT, with printf's escapes, to FILE of the tree
write_file() { mkdir -p "$tree/$(dirname "$1")" && printf '%b' "$2" >"$tree/$1"; }

# compile OBJECT TEXT - compiles TEXT to the object of lib/OBJECT.c
compile() { mkdir -p "$(dirname "$objects/$1")" && printf '%s\n' "$2" | $CC -fPIC -c -o "$objects/$1.o" -x c -; }

# build_library - builds libckpt.a and libckpt.so of the tree, out of lib/api.c alone
build_library()
{
    (cd "$tree" && $CC -fPIC -c -o build/obj/lib/api.o lib/api.c && rm -f build/libckpt.a &&
        ar rc build/libckpt.a build/obj/lib/api.o &&
        $CC -shared -Wl,--version-script=lib/libckpt.map -o build/libckpt.so build/obj/lib/api.o)
}

# write_clean_tree - writes a tree without violations, and keeps a copy in $clean
write_clean_tree()
{
    write_file lib/ckpt.h '#define CKPT_API\nCKPT_API int ckpt_one(void);\n'
    write_file lib/api.c '#include "ckpt.h"\n#include "base/b.h"\nint ckpt_one(void) { return 1; }\n'
    write_file lib/libckpt.map 'CKPT_0 { global: *; };\n'
    write_file lib/base/b.h '#include <stddef.h>\n'
    write_file lib/core/f.h '/* torch */\nstruct f { void *container; }; /* toy */\n'
    write_file lib/format/formats.def 'FORMAT(toy)\n'
    write_file lib/codec/c.c '#include <zip.h>\n#include "base/b.h"\n/* strcpy(a, b); len * 2 */\nchar *x="atoi(1)";\n'
    write_file lib/op/o.c '#include "base/b.h"\nint o(void) { return fail(e, g("a"), "{%s}, not {=%s}", "{", "}"); }\n'
    write_file lib/op/n.c 'int n(void) { return fail(e, "%.*s", STR_ARG(g(2))); }\n'
    write_file lib/format/f.c '#include "codec/c.h"\nint f(int size) { return size - 1; }\n'
    write_file lib/scan/s.c '#include "op/o.h"\nint s(void) { return 0; }\n'
    write_file lib/README.md '| `ckpt.h` |\n| `api.c` |\n| `base/b` |\n| `codec/c` |\n| `op/o.c` |\n| `op/n.c` |\n'
    printf '| `core/f.h` |\n| `format/formats.def` |\n' >>"$tree/lib/README.md"
    printf '| `format/f` |\n| `format/toy/toy.c` |\n| `scan/s.c` |\n' >>"$tree/lib/README.md"
    write_file lib/format/toy/toy.c '#include "format/files/f.h"\nconst struct format format_toy = {.name = "toy"};\n'
    write_file cli/cmds.def 'CMD(ls)\n'
    write_file cli/ascii.def 'GLYPH("…", "...")\nGLYPH("→", "->")\n'
    write_file cli/cmd_ls.c '#include "ckpt.h"\n#include "out.h"\n'
    write_file man/ckpt.1 '.It Xr ckpt-ls 1\nlist\n'
    write_file man/ckpt-formats.7 '.It toy\n'
    write_file man/ckpt-ls.1 '.Nd list\n.It Fl l\n.It Fl -json\n'
    write_file man/ckpt_one.3 '.Sh NAME\n.Nm ckpt_one\n.Sh SYNOPSIS\n.Ft int\n.Fn ckpt_one void\n'
    write_file build/ckpt '#!/bin/sh\necho "  -l       long"; echo "  --json   JSON, not --text"; echo "  ls  list"\n'
    write_file Makefile 'all: x\n\n## all: build\n.PHONY: all\n'
    write_file tests/unit/t.c 'int t;\n'
    chmod +x "$tree/build/ckpt"
    mkdir -p "$tree/build/obj/lib"
    build_library
    cp -R "$tree"/. "$clean"
}

# make_clean_tree - makes the tree without violations again, with the objects that were compiled last
make_clean_tree()
{
    rm -rf "$tree"
    cp -R "$clean" "$tree"
    cp -R "$objects"/. "$tree/build/obj/lib"
}

# check_lint accepts|rejects NAME MESSAGE - runs the lint NAME in the tree; prints MESSAGE if it rejects the tree but
# should accept it, or the other way round
check_lint()
{
    found=$(cd "$tree" && sh "$LINT/$2.sh" 2>&1)
    case $1:$found in
    accepts: | rejects:?*) return ;; # as it should
    esac
    echo "selftest: $2: $3${found:+: $found}"
    status=1
}

# check_rejects NAME FILE TEXT - checks that the lint NAME rejects the clean tree with TEXT added to FILE
check_rejects()
{
    make_clean_tree
    mkdir -p "$tree/$(dirname "$2")"
    printf '%b' "$3" >>"$tree/$2"
    [ "$1" = symbols ] && build_library
    check_lint rejects "$1" "does not reject $3 in $2"
}

write_clean_tree
compile codec/c 'int c(void) { return 0; }'
compile op/n 'int n(void) { return 0; }'
compile op/o 'int o(void) { return 0; }'
compile format/f 'int c(void); int f(void) { return c(); }'
compile scan/s 'int o(void); int s(void) { return o(); }'
compile format/toy/toy 'int toy;'
make_clean_tree
for name in floors format_names third_party symbols banned prints parameters braces message_text text listed_files \
    make_help commands comments options manual mdoc errors; do
    check_lint accepts "$name" 'rejects the tree without violations'
done

check_rejects floors lib/op/o.c '#include "format/format.h"\n'
check_rejects floors lib/format/f.c '#include "op/op.h"\n'
check_rejects floors lib/format/f.c '#include "scan/scan.h"\n'
check_rejects floors lib/base/b.h '#include "io/source.h"\n'
check_rejects floors lib/format/toy/toy.c '#include "format/other/other.h"\n'
check_rejects floors lib/format/files/path.c '#include "format/toy/toy.h"\n'
check_rejects floors lib/format/graph/walk.c '#include "format/parts/parts.h"\n'
check_rejects floors lib/codec/c.c '#include "buf.h"\n'
check_rejects floors cli/cmd_ls.c '#include "base/buf.h"\n'
compile op/o 'int ckpt_one(void); int o(void) { return ckpt_one(); }'
check_rejects floors lib/op/o.c '/* calls ckpt_one of lib/api.c */\n'
compile op/o 'int f(void); int o(void) { return f(); }'
check_rejects floors lib/op/o.c '/* calls f of lib/format/f.c */\n'
compile op/o 'int o(void) { return 0; }'
compile format/toy/toy 'int other(void); int toy(void) { return other(); }'
compile format/other/other 'int other(void) { return 0; }'
check_rejects floors lib/format/other/other.c '/* toy calls other */\n'
compile format/toy/toy 'extern int format_other; int toy(void) { return format_other; }'
compile format/other/other 'int format_other = 1;'
make_clean_tree
write_file lib/format/other/other.c ''
check_lint accepts floors 'rejects the name of a format'
compile format/toy/toy 'int toy;'
check_rejects format_names lib/core/f.h 'struct g { bool for_toy_load; };\n'
check_rejects format_names lib/core/f.h 'enum { TOY };\n'
check_rejects third_party lib/codec/d.c '#include <zip.h>\n'
check_rejects third_party lib/base/b.h '#include <cjson/cJSON.h>\n'
check_rejects symbols lib/api.c 'int helper(void) { return 1; }\n'
check_rejects symbols lib/ckpt.h 'CKPT_API int ckpt_two(void);\n'
check_rejects banned lib/op/o.c 'void f(char *a) { strcpy(a, "x"); }\n'
check_rejects banned cli/cmd_ls.c 'int f(char *a) { return atoi(a); }\n'
check_rejects banned lib/op/o.c 'void f(void) { printf("x"); }\n'
check_rejects banned lib/op/o.c 'void f(void) { fputs("x", stderr); }\n'
check_rejects banned lib/op/o.c 'static int calls;\n'
check_rejects prints cli/cmd_ls.c 'void f(void) { printf("x"); }\n'
check_rejects prints cli/cmd_ls.c 'void f(char *a) { g(a); fputs(a, stderr); }\n'
check_rejects prints cli/cmd_ls.c 'char *a = "5 × 3";\n'
check_rejects prints lib/op/o.c 'char *a = "a → b";\n'
check_rejects parameters lib/op/o.c 'int f(int size, char *s)\n{\n    return size;\n}\n'
check_rejects parameters lib/op/o.c 'static bool f(const ckpt_tensor *t) { return t; }\n'
check_rejects parameters lib/op/o.h 'int f(int (*g)(void), const struct table *p);\n'
check_rejects parameters lib/base/b.h 'int o(int size);\nstatic inline int b(int n) { return n; }\n'
check_rejects braces lib/op/o.c 'int f(void) { return fail(e, 1, 2, "is {%u, not %u", 3, 4); }\n'
check_rejects braces lib/op/o.c 'int f(void) { return fail(e, 1, 2, "is %u}", 3); }\n'
check_rejects braces lib/op/o.c 'int f(void) {\n    return fail(e, 1, 2, "{%" PRIu64\n    ", not {=%u}", 3, 4);\n}\n'
check_rejects braces lib/op/o.c 'int f(void) { return fail(e, 1, 2, "{%u} is {%u}", 3, 4); }\n'
check_rejects braces lib/op/o.c 'int f(void) { return fail(e, 1, 2, "{=%u} is {=%u}", 3, 4); }\n'
check_rejects braces lib/op/o.c 'void f(void) { error_add_hint(e, "take {=%u}", 3); }\n'
check_rejects message_text lib/op/o.c 'char *f(ckpt_str s) { return arena_printf(a, "%s", STR_ARG(s)); }\n'
check_rejects message_text lib/op/o.c 'void f(ckpt_str s) {\n    fail(e, 1, 2, "%s",\n    g(STR_ARG(s)));\n}\n'
check_rejects message_text lib/op/o.c 'void f(ckpt_str s) { use(STR_ARG(s)); }\n'
check_rejects message_text lib/op/o.c 'void f(ckpt_str s) {\n    buf_printf(b,\n    "%.*s", (int)s.len, s.ptr);\n}\n'
check_rejects errors lib/op/o.c 'int g(int a, ckpt_error *err);\nint f(void) { return g(1, NULL); }\n'
check_rejects errors lib/op/o.c 'int g(int a, ckpt_error *err);\nint f(void) { return g(h(2),\n    e ? e : NULL); }\n'
check_rejects errors lib/op/o.c 'int f(struct s *s, int (*g)(int, ckpt_error *err)) { return s->g(1, NULL); }\n'
check_rejects errors lib/op/o.c 'int f(void)\n{\n    return g(1, &(ckpt_error){0});\n}\n'
check_rejects errors lib/op/o.c 'int f(void)\n{\n    if (a) {\n        ckpt_error ignored;\n    }\n}\n'
check_rejects errors lib/api.c 'int ckpt_two(ckpt_error *err)\n{\n    return g(err);\n}\n'
check_rejects text lib/op/o.c '/* TO''DO */\n'
check_rejects text lib/op/o.c 'int a; \n'
check_rejects text lib/op/o.c '\tint a;\n'
check_rejects text man/ckpt-ls.1 'see /wor''k/x\n'
check_rejects text tests/README.md '<<<<<<''< HEAD\n'
check_rejects text lib/op/o.c "/* $(printf '%0120d' 0) */\n"
check_rejects listed_files lib/op/p.c 'int p;\n'
check_rejects listed_files lib/README.md '| `op/gone.c` | gone |\n'
if git --version >/dev/null 2>&1; then
    make_clean_tree
    write_file stray.pt ''
    (cd "$tree" && git init -q . && git add stray.pt)
    check_lint rejects listed_files 'does not reject a file at the top of the tree'
fi
check_rejects make_help Makefile 'extra: x\n'
check_rejects make_help Makefile 'extra: x\n.PHONY: extra\n'
check_rejects comments lib/op/o.c '/* one - counts. */\nint two(void);\n'
check_rejects comments lib/op/o.c '/* two - adds N. */\nint two(int m);\n'
check_rejects commands cli/cmds.def 'CMD(new)\n'
check_rejects commands man/ckpt-ls.1 '.Nd other\n'
check_rejects commands lib/format/toy/new.c 'const struct format format_new = {.name = "new"};\n'
check_rejects options man/ckpt-ls.1 '.It Fl -gone\n'
check_rejects options build/ckpt 'echo "      --new   new"\n'
check_rejects manual lib/ckpt.h 'CKPT_API int ckpt_two(void);\n'
check_rejects manual man/ckpt_two.3 '.Sh NAME\n.Nm ckpt_one\n.Sh SYNOPSIS\n.Ft int\n.Fn ckpt_one void\n'
check_rejects manual man/ckpt_one.3 '.Ft int\n.Fn ckpt_gone void\n'
check_rejects manual man/ckpt_one.3 '.Sh NAME\n.Nm ckpt_gone\n'
check_rejects manual man/ckpt_two.3 '.Sh SYNOPSIS\n.Ft int\n.Fn ckpt_one "int n"\n'
check_rejects mdoc man/ckpt-ls.1 '.Ql "key":[]\n'
check_rejects mdoc man/ckpt-ls.1 '.Ql {"key": "name", 1}\n'
check_rejects mdoc man/ckpt-ls.1 '.Pq or under Fl -root in each ,\n'
check_rejects mdoc man/ckpt-ls.1 ".Ql $(printf %067d 0)\n"
check_rejects mdoc man/ckpt-ls.1 '.It Fl l , Fl -long\n'
check_rejects mdoc man/ckpt-ls.1 '.Bd -literal\nx\n.Ed\ntext\n'
exit $status
