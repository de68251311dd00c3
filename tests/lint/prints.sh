# prints.sh - text for people is printed by cli/print.h, which makes it ASCII if the locale requires that: no other file
# of cli/ prints, except those that print only for programs, and for lack of memory. Each character beyond ASCII in a
# text that may be printed is in cli/ascii.def; texts of the library have only the first of them.
prints='printf vprintf fprintf vfprintf dprintf puts fputs putchar putc fputc fwrite perror'

for file in cli/*.[ch]; do
    case $file in cli/print.c | cli/json.c | cli/cmd_completion.c) continue ;; esac
    awk -v named=1 -f "$LINT/strip.awk" "$file"
done | grep -E "^[^:]*:[0-9]*:(.*[^A-Za-z0-9_>.])?($(echo $prints | tr ' ' '|'))[[:space:]]*\(" | cut -d : -f 1,2 |
    while read -r call; do
        sed -n "${call##*:}p" "${call%:*}" | grep -q 'fputs("ckpt: out of memory' ||
            echo "$call: prints text by a function that is not in cli/print.h"
    done

[ -e cli/ascii.def ] || exit 0
known=$(sed -n 's/^GLYPH("\([^"]*\)".*/\1/p' cli/ascii.def)
# find_unknown CHARACTERS FILE… - prints FILE:LINE:TEXT for each line with a string that has other characters beyond
# ASCII; the bars of a histogram are only printed if the locale has them
find_unknown()
{
    removed=$(printf '%s\n' "$1" | sed 's/.*/s|&||g;/')
    shift
    grep -n '"[^"]*[^ -~	][^"]*"' "$@" /dev/null | grep -v '^[^:]*:[0-9]*: *static const char \*const block_bars' |
        sed "$removed" | grep '[^ -~	]' |
        sed 's/^\([^:]*:[0-9]*\):.*/\1: a string has a character that is not in cli\/ascii.def/'
}
find_unknown "$known" cli/*.[ch] cli/*.def
find_unknown "$(printf '%s\n' "$known" | head -n 1)" $(find lib -name '*.[ch]' -o -name '*.def')
