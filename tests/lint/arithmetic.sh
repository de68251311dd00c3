# arithmetic.sh - calculations with numbers from a file use base/checked.h. In codec/, format/ and scan/, a variable
# whose name is usual for such a number may not be an operand of +, * or <<, unless a comment in that line or the
# line before gives the reason:
#     /* bounded: both are below the record's size */
for file in $(find lib/codec lib/format lib/scan -name '*.[ch]'); do
    awk -f "$LINT/strip.awk" "$file" | paste - "$file" | awk -F '\t' -v file="$file" '
    BEGIN {
        names = "(size|csize|usize|len|length|count|total|offset|off|at|begin|end|nbytes|bytes|numel|elements|stride|" \
               "shape|dims|ndim|items|entries|need|span|left)"
        number = "([A-Za-z_][A-Za-z0-9_]*(->|\\.|\\[[^]]*\\]))*" names "(\\[[^]]*\\])?"
        left_operand = "(^|[^A-Za-z0-9_.>])" number " *(\\+[^+]|\\*[^/]|<<)"
        right_operand = "[A-Za-z0-9_)\\]] (\\+=?|\\*=?|<<=?) " number "([^A-Za-z0-9_(]|$)"
    }
    {
        reason = $2 ~ /\/\* bounded: /
        if (($1 ~ left_operand || $1 ~ right_operand) && !reason && !reason_above)
            print file ":" NR ": arithmetic on a number from a file: use base/checked.h or add /* bounded: … */"
        reason_above = reason
    }'
done
