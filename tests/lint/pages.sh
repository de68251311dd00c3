# pages.sh - what mdoc would typeset otherwise than it was meant: an argument that opens with a quote loses it and its
# twin, and text after a display that is not a new paragraph stands right below it.
for page in man/*.[0-9]; do
    awk -v page="$page" '
        /^\.[A-Z][a-z] (.* )?"[^" ]*":/ { print page ":" FNR ": mdoc takes the quotes: write \\(dq" }
        ended && /^[^.]/ { print page ":" FNR ": no .Pp after .Ed" }
        { ended = $0 == ".Ed" }' "$page"
done
