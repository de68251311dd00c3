# pages.sh - two traps of mdoc: it removes the quotes of an argument that begins with one, and it sets text after a
# display without space above, unless that is a new paragraph.
for page in man/*.[0-9]; do
    awk -v page="$page" '
        /^\.[A-Z][a-z] (.* )?"[^" ]*":/ { print page ":" FNR ": mdoc takes the quotes: write \\(dq" }
        ended && /^[^.]/ { print page ":" FNR ": no .Pp after .Ed" }
        { ended = $0 == ".Ed" }' "$page"
done
