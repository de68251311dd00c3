# marks.sh - braces in the text of an error enclose the value found, and {=…} what is expected (base/error.h). Each
# must be closed, there may be one of each, and only functions that remove them may get such texts.
for file in $(find lib -name '*.[ch]'); do
    awk -v file="$file" '
    # judge - checks the text that just ended, in a call of NAME; only the first text of a call is its format.
    function judge(name,    i, c, open, kind, seen) {
        if (!reads[name] && text ~ /\{=/) tell("marks for " (name ? name "()" : "nobody"))
        if (!reads[name] || texts[depth]++) return
        for (i = 1; i <= length(text); i++) {
            c = substr(text, i, 1)
            if (c != "{" && c != "}") continue
            if ((c == "{") == open) return tell(open ? "a brace within braces" : "a brace that closes none")
            open = c == "{"
            kind = substr(text, i + 1, 1) == "=" ? "allowed" : "found"
            if (open && seen[kind]++) return tell("two places are marked as " kind)
        }
        if (open) tell("a brace that nothing closes")
    }
    function tell(what) { print file ":" begun ": " what }
    BEGIN {
        state = "code"
        split("fail fail_v gguf_fail set_ggml_error tar_fail fail_op machine_fail tracer_fail graph_fail " \
              "json_fail scan_found fail_entry zip_fail", list, " ")
        for (i in list) reads[list[i]] = 1
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
                if (!held) begun = FNR
                held = 1 # adjacent strings and PRIu64 continue it
                state = c
            } else if (c ~ /[A-Za-z0-9_]/) {
                word = word c
            } else if (c != " ") {
                if (held) judge(call[depth])
                held = 0
                text = ""
                if (c == "\047") state = c
                if (c == "(") { call[++depth] = word; texts[depth] = 0 }
                if (c == ")" && depth) depth--
                word = ""
            } else if (!held && i < n && substr($0, i + 1, 1) != "(") {
                word = ""
            }
        }
    }' "$file"
done
