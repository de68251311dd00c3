#!/bin/sh
# musl 1.2.5 (as zig 0.15.2 links it): with a group in the expression, regexec may return a match that begins after the
# leftmost one. POSIX takes the earliest. In "aabbb", b?(.)b{1,2} matches from 1 on (a, bb), but musl returns 2 to 5;
# without the parentheses, which change nothing in what matches, it returns 1 to 4. glibc returns 1 to 4 for both. A
# program that replaces what regmatch_t delimits changes another part of the text with musl than with glibc.
#
# Output seen:
#   b?.b{1,2} in aabbb: 1 to 4
#   b?(.)b{1,2} in aabbb: 2 to 5
#   ^.b?(.)b{1,2} in aabbb: 0 to 4
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --only-binary :all: ziglang==0.15.2
cat >"$folder/find.c" <<'END'
#include <regex.h>
#include <stdio.h>

int main(void)
{
    static const char *const expressions[] = {"b?.b{1,2}", "b?(.)b{1,2}", "^.b?(.)b{1,2}"};
    for (int i = 0; i < 3; i++) {
        regex_t compiled;
        regmatch_t match;
        if (regcomp(&compiled, expressions[i], REG_EXTENDED) || regexec(&compiled, "aabbb", 1, &match, 0))
            return 1;
        printf("%s in aabbb: %d to %d\n", expressions[i], (int)match.rm_so, (int)match.rm_eo);
    }
    return 0;
}
END
export ZIG_GLOBAL_CACHE_DIR="$folder/cache" ZIG_LOCAL_CACHE_DIR="$folder/cache"
"$folder/venv/bin/python" -m ziglang cc -target x86_64-linux-musl "$folder/find.c" -o "$folder/find"
"$folder/find" >"$folder/got"
sed -n 's/^#   //p' "$0" | diff - "$folder/got"
echo 'as seen'
