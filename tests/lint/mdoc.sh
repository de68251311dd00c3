# mdoc.sh - traps of mdoc in the manual pages: it removes the quotes of an argument that begins with one; it prints text
# after a display without an empty line between, unless .Pp begins a new paragraph; Fl makes each word after it a flag,
# up to the next macro; it breaks no line inside the text of Ql. And a page describes an option once.
for page in man/*.[0-9]; do
    awk -v page="$page" '
        function report(what) { print page ":" FNR ": " what }
        /^\.[A-Z][a-z] (.* )?"[^" ]*"[^" ]/ { report("mdoc removes these quotes: write \\(dq") }
        after_display && /^[^.]/ { report("no .Pp after .Ed") }
        { after_display = $0 == ".Ed" }
        /^\.[A-Z][a-z] / && (" " $0) ~ /[ .]Fl [^ ]+ [a-z][a-z]/ { report("Fl makes each word a flag: write No") }
        /^\.Ql / { shown = substr($0, 5); gsub(/\\\(../, "x", shown) }
        /^\.Ql / && length(shown) > 66 { report("no line fits this Ql") }
        /^\.It Fl / {
            for (left = $0; match(left, /Fl -?[A-Za-z0-9][A-Za-z0-9-]*/); left = substr(left, RSTART + RLENGTH)) {
                option = substr(left, RSTART, RLENGTH)
                if (described[option]++) report("described before: " option)
            }
        }' "$page"
done
