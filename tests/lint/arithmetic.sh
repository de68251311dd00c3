# arithmetic.sh - arithmetic on numbers from a file belongs to base/checked.h. In codec/ and format/ a name that is
# usual for such a number may not be an operand of +, * or <<, unless a comment on or above the line gives the
# reason:
#     /* bounded: both are below the record's size */
for file in $(find lib/codec lib/format lib/scan -name '*.[ch]'); do
    awk -f "$LINT/strip.awk" "$file" | paste - "$file" | awk -F '\t' -v file="$file" '
    BEGIN {
        word = "(size|csize|usize|len|length|count|total|offset|off|at|begin|end|nbytes|bytes|numel|elements|stride|" \
               "shape|dims|ndim|items|entries|need|span|left)"
        path = "([A-Za-z_][A-Za-z0-9_]*(->|\\.|\\[[^]]*\\]))*" word "(\\[[^]]*\\])?"
        before = "(^|[^A-Za-z0-9_.>])" path " *(\\+[^+]|\\*[^/]|<<)"
        after = "[A-Za-z0-9_)\\]] (\\+=?|\\*=?|<<=?) " path "([^A-Za-z0-9_(]|$)"
    }
    {
        reason = $2 ~ /\/\* bounded: /
        if (($1 ~ before || $1 ~ after) && !reason && !above)
            print file ":" NR ": raw arithmetic on a number from a file; use base/checked.h or say /* bounded: why */"
        above = reason
    }'
done
