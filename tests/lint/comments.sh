# comments.sh - a comment "NAME - …" is followed by the declaration of NAME, and a single capital letter in the
# comment is a parameter: N stands for n. A, C, I, K and U are not checked, because they are also words, languages or
# Unicode's U+.
find lib cli tests -type f -name '*.[ch]' | sort | while read -r file; do
    awk -v file="$file" '
    function is_declared(name) { return declared ~ "(^|[^A-Za-z0-9_])" name "([^A-Za-z0-9_]|$)" }
    function check_comment(    word) {
        if (!is_declared(name)) print file ":" first_line ": the code after this comment does not declare " name
        gsub(/"[^"]*"|\047[^\047]*\047/, "", text)
        while (is_declared(name) && match(text, /(^|[ *([])[BD-HJL-TV-Z]([] .,;:)]|\047s|$)/)) {
            word = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            gsub(/\047s|[^A-Z]/, "", word)
            if (!is_declared(tolower(word))) print file ":" first_line ": " name " has no parameter " tolower(word)
        }
        name = ""
    }
    /^\/\* [a-z_0-9]+(, [a-z_0-9]+)* - / {
        if (name) check_comment()
        name = $2
        sub(/,$/, "", name)
        first_line = FNR
        declared = text = ""
        in_comment = 1
    }
    in_comment {
        text = text " " $0
        if (/\*\/ *$/) in_comment = 0
        next
    }
    name && (/^$/ || /^\/\*/) { check_comment() }
    name {
        declared = declared "\n" $0
        if (/^{/) check_comment()
    }
    END { if (name) check_comment() }' "$file"
done
