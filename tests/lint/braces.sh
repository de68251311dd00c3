# braces.sh - in the format of an error, {…} encloses the value found and {=…} what is allowed (base/error.h).
# Braces must be closed, and a format may have only one pair of each kind. {=…} may be passed only to functions that
# interpret it, as fail() does.
for file in $(find lib -name '*.[ch]'); do
    awk -v file="$file" '
    # check_text(name) - checks "text", an argument of a call of "name"; the first text of a call is its format.
    function check_text(name,    i, c, open, kind, seen) {
        if (!interprets[name] && text ~ /\{=/) report("{=…} outside of a call that interprets it")
        if (!interprets[name] || ntexts[depth]++) return
        for (i = 1; i <= length(text); i++) {
            c = substr(text, i, 1)
            if (c != "{" && c != "}") continue
            if ((c == "{") == open) return report(open ? "{ between { and }" : "} without {")
            open = c == "{"
            kind = substr(text, i + 1, 1) == "=" ? "allowed" : "found"
            if (open && seen[kind]++) return report("two pairs of braces for the value " kind)
        }
        if (open) report("{ without }")
    }
    function report(what) { print file ":" first_line ": " what }
    BEGIN {
        state = "code"
        split("fail fail_v gguf_fail set_ggml_error tar_fail fail_op unpickler_fail graph_fail " \
              "json_fail scan_found SCAN_FOUND fail_entry zip_fail rule_fail edit_fail", list, " ")
        for (i in list) interprets[list[i]] = 1
    }
    {
        n = length($0)
        if (state == "code") word = ""
        for (i = 1; i <= n; i++) {
            c = substr($0, i, 1)
            if (state == "comment") {
                if (substr($0, i, 2) == "*/") { state = "code"; i++ }
            } else if (state == "\"" && c == "\\") {
                text = text " "
                i++
            } else if (state == "\"" && c != "\"") {
                text = text c
            } else if (state == "\"") {
                state = "code"
            } else if (state == "\047") {
                if (c == "\\") i++
                else if (c == "\047") state = "code"
            } else if (substr($0, i, 2) == "/*") {
                state = "comment"
                i++
            } else if (c == "\"") {
                if (!has_text) first_line = FNR
                has_text = 1 # until anything but a string or a macro such as PRIu64 follows
                state = c
            } else if (c ~ /[A-Za-z0-9_]/) {
                word = word c
            } else if (c != " ") {
                if (has_text) check_text(call[depth])
                has_text = 0
                text = ""
                if (c == "\047") state = c
                if (c == "(") { call[++depth] = word; ntexts[depth] = 0 }
                if (c == ")" && depth) depth--
                word = ""
            } else if (!has_text && i < n && substr($0, i + 1, 1) != "(") {
                word = ""
            }
        }
    }' "$file"
done
