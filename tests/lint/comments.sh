# comments.sh - a comment "NAME - …" is followed by the declaration of NAME, and a single capital letter in it (N
# for n) is a parameter. A, C, I, K and U are not checked, because they are also words, languages or Unicode's U+.
find lib cli tests -type f -name '*.[ch]' | sort | while read -r file; do
    awk -v file="$file" '
    function has(name) { return declared ~ "(^|[^A-Za-z0-9_])" name "([^A-Za-z0-9_]|$)" }
    function judge(    word) {
        if (!has(name)) print file ":" begun ": the comment is about " name ", the code after it is not"
        gsub(/"[^"]*"|\047[^\047]*\047/, "", text)
        while (has(name) && match(text, /(^|[ *([])[BD-HJL-TV-Z]([] .,;:)]|\047s|$)/)) {
            word = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            gsub(/\047s|[^A-Z]/, "", word)
            if (!has(tolower(word))) print file ":" begun ": " name " has no parameter " tolower(word)
        }
        name = ""
    }
    /^\/\* [a-z_0-9]+(, [a-z_0-9]+)* - / {
        if (name) judge()
        name = $2
        sub(/,$/, "", name)
        begun = FNR
        declared = text = ""
        comment = 1
    }
    comment {
        text = text " " $0
        if (/\*\/ *$/) comment = 0
        next
    }
    name && (/^$/ || /^\/\*/) { judge() }
    name {
        declared = declared "\n" $0
        if (/^{/) judge()
    }
    END { if (name) judge() }' "$file"
done
