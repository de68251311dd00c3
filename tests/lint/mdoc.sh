# mdoc.sh - two traps of mdoc in the manual pages: it removes the quotes of an argument that begins with one, and it
# prints text after a display without an empty line between, unless .Pp begins a new paragraph.
for page in man/*.[0-9]; do
    awk -v page="$page" '
        /^\.[A-Z][a-z] (.* )?"[^" ]*":/ { print page ":" FNR ": mdoc removes these quotes: write \\(dq" }
        after_display && /^[^.]/ { print page ":" FNR ": no .Pp after .Ed" }
        { after_display = $0 == ".Ed" }' "$page"
done
