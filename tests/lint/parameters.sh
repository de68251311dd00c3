# parameters.sh - parameters are words, except the receivers f (a ckpt_file), p (a ckpt_plan) and a (an arena), and a
# header names those of a function as its definition does
files=$(find lib cli -name '*.[ch]' | sort)
# shellcheck disable=SC2086
awk -v named=1 -f "$LINT/strip.awk" $files | awk '
# take_name PARAMETER - returns the name of a parameter of a declaration; empty: it has none
function take_name(text)
{
    gsub(/\[[^]]*\]/, "", text)
    if (match(text, /\(\*[ a-z]*[A-Za-z_0-9]+\)/))
        text = substr(text, RSTART, RLENGTH - 1)
    else if (text !~ /[* ][A-Za-z_][A-Za-z_0-9]* *$/ || text ~ /^ *(const )?(struct|enum) [a-z_0-9]+ *$/)
        return ""
    sub(/ +$/, "", text)
    sub(/.*[^A-Za-z_0-9]/, "", text)
    return text
}
# check_declaration TEXT - checks the declaration or definition of a function
function check_declaration(text, is_definition,    head, name, list, n, i, c, depth, item, names)
{
    if (text ~ /^(typedef|#)/ || !match(text, /[A-Za-z_0-9]+\(/))
        return
    head = substr(text, 1, RSTART - 1)
    name = substr(text, RSTART, RLENGTH - 1)
    if (head !~ /[A-Za-z_]/ || head ~ /[=(]/ || name ~ /^(__attribute__|CKPT_PRINTF)$/)
        return
    depth = 1
    for (i = RSTART + RLENGTH; depth && i <= length(text); i++) {
        c = substr(text, i, 1)
        depth += (c == "(") - (c == ")")
        if (depth == 0 || (c == "," && depth == 1)) {
            c = take_name(item)
            names = names " " c
            if (length(c) == 1 && !(c == "f" && item ~ /ckpt_file \*f$/) && !(c == "p" && item ~ /ckpt_plan \*p$/) && \
                !(c == "a" && item ~ /arena \*a$/))
                print file ":" line ": parameter \"" c "\" of " name "() is no word"
            item = ""
        } else
            item = item c
    }
    if (is_definition && head !~ /static/) {
        defined[side, name] = names
    } else if (!is_definition && file ~ /\.h$/) {
        declared[side, name] = names
        place[side, name] = file ":" line
    }
}
{
    split($0, at, ":")
    code = substr($0, length(at[1] at[2]) + 3)
    if (at[1] != file)
        text = ""
    file = at[1]
    side = substr(file, 1, 3)
    if (text == "" && code !~ /^[A-Za-z_]/)
        next
    if (text == "")
        line = at[2]
    text = text " " code
    sub(/^ /, "", text)
    if (code ~ /^[{}]/ || code ~ /\{.*\}$/ || code ~ /\{$/) {
        sub(/\{.*/, "", text)
        check_declaration(text, 1)
        text = ""
    } else if (code ~ /;$/) {
        check_declaration(text, 0)
        text = ""
    }
}
END {
    for (name in declared)
        if (name in defined && declared[name] != defined[name])
            print place[name] ": " substr(name, 5) "() is declared with" declared[name] \
                ", but defined with" defined[name]
}'
