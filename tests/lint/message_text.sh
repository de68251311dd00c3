# message_text.sh - STR_ARG cuts a text for a message at 200 bytes, and "%.*s" ends at a NUL. Data must stay whole, so
# in the library STR_ARG is allowed only among the arguments of a function that makes a message (message_functions),
# and "%.*s" not in the formats of functions that make texts in memory: those take whole texts by ARENA_CONCAT and
# buf_put_str.
message_functions='fail file_notice file_note_loss plan_notice plan_no_match json_fail doctor_report refuse scan_found
unpickler_fail fail_op error_add_where error_add_hint tar_fail report_violation report_mismatch graph_fail notices_add
zip_fail notice SCAN_FOUND rule_fail edit_fail'
text_functions='arena_printf buf_printf'

for file in $(find lib -name '*.[ch]'); do
    awk -f "$LINT/strip.awk" "$file" | sed 's/^[[:space:]]*#define.*//' |
        awk -v allowed="$(echo $message_functions)" -v file="$file" '
            BEGIN { n = split(allowed, names, " "); for (i = 1; i <= n; i++) is_allowed[names[i]] = 1 }
            {
                # word: the token before the present one; callee[depth]: the function whose arguments these are
                while (match($0, /[A-Za-z_][A-Za-z0-9_]*|[^[:space:]]/)) {
                    token = substr($0, RSTART, RLENGTH)
                    $0 = substr($0, RSTART + RLENGTH)
                    if (token == "(") {
                        if (word == "STR_ARG" && !(callee[depth] in is_allowed))
                            print file ":" FNR ": STR_ARG in an argument of " (depth ? callee[depth] : "nothing") \
                                ", which is not listed as a function that makes messages"
                        callee[++depth] = word
                    } else if (token == ")" && depth) {
                        depth--
                    }
                    word = token
                }
            }'
    awk -v names="$(echo $text_functions | tr ' ' '|')" -v file="$file" '
        $0 ~ "(^|[^A-Za-z0-9_])(" names ")\\(" { is_open = 1 }
        is_open && /%\.\*s/ { print file ":" FNR ": \"%.*s\" in a format of " names }
        /;/ { is_open = 0 }' "$file"
done
