# errors.sh - no function of the library gets NULL for its `ckpt_error *`, because a callee may read the status of a
# failure from it: a call whose error is of no interest gets the variable `ignored` of the calling function, and each
# public function, whose callers may pass NULL, begins with CKPT_OWN_ERROR (base/error.h). As a reader keeps the pointer
# to its error, no error is a compound literal or a variable of a block in a function.
mkdir -p "$B/lint"
stripped=$B/lint/errors.stripped
for file in $(find lib -name '*.[ch]'); do
    echo "@file $file"
    awk -f "$LINT/strip.awk" "$file"
done >"$stripped"
# The first pass over the stripped sources notes which functions end with a `ckpt_error *`, the second checks the calls.
awk '
    # take_call(name) - handles the end of the parentheses after "name"; "argument" is the last of them.
    function take_call(name) {
        gsub(/[ \t]+/, " ", argument)
        gsub(/^ | $/, "", argument)
        if (pass == 1 && argument ~ /^ckpt_error \*[a-z_]+$/)
            takes_error[name] = 1
        if (pass == 2 && (name in takes_error) && argument ~ /(^|: )NULL$/)
            print file ":" line[depth] ": " name " gets NULL for its error: pass &ignored"
        if (pass == 2 && name ~ /^ckpt_/ && argument ~ /^ckpt_error \*[a-z_]+$/)
            public_function = name
    }
    FNR == 1 { pass++; depth = 0 }
    /^@file / { file = $2; n = 0; depth = 0; public_function = ""; next }
    {
        n++
        if (pass == 2 && /&\(ckpt_error\)/)
            print file ":" n ": a compound literal ends with its block: declare the error at the begin of the function"
        if (pass == 2 && /^        +ckpt_error [a-z]/)
            print file ":" n ": an error in a block: declare it at the begin of the function"
        if ($0 ~ /^}/) public_function = ""
        if (pass == 2 && public_function != "" && $0 ~ /^{/) in_body = n
        if (in_body && n == in_body + 1) {
            if ($0 !~ /CKPT_OWN_ERROR\(err\);/)
                print file ":" n ": " public_function " must begin with CKPT_OWN_ERROR(err)"
            in_body = 0
        }
        if ($0 ~ /^#/) next
        length_of_line = length($0)
        for (i = 1; i <= length_of_line; i++) {
            c = substr($0, i, 1)
            if (c ~ /[A-Za-z0-9_]/) { word = word c; argument = argument c; continue }
            if (c == "(") {
                saved[depth] = argument
                call[++depth] = word != "" ? word : last
                line[depth] = n
                argument = ""
            } else if (c == ")" && depth) {
                # the name of a function pointer is inside its own parentheses: (*read)(…)
                last = call[depth] == "" || argument ~ /^\*/ ? substr(argument, 2) : ""
                take_call(call[depth])
                argument = saved[--depth] "()"
                word = ""
                continue
            } else if (c == "," && depth) {
                argument = ""
            } else {
                argument = argument c
            }
            if (c == ";" || c == "{" || c == "}") depth = 0
            if (c != " ") last = ""
            word = ""
        }
        argument = argument " "
        word = ""
    }' "$stripped" "$stripped"
