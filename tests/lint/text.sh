# text.sh - no long lines, tabs, trailing blanks, notes of unfinished work, or folders of one machine.
sources=$(find lib cli tests -name '*.[ch]' -o -name '*.def' -o -name '*.sh' | grep -v '^tests/corpus/\|^tests/cli/.*/')
documents=$(ls README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md lib/README.md 2>/dev/null)

for file in $sources; do
    awk -v file="$file" '
    length($0) > limit(file) {print file ":" FNR ": line of " length($0) " characters"}
    /[ \t]$/ {print file ":" FNR ": blanks at the end"}
    /^\t| \t/ {print file ":" FNR ": a tab"}
    function limit(name) {return name ~ /\.def$/ ? 140 : name ~ /\.sh$/ ? 120 : 110}' "$file"
done

promises='TO[D]O|FIX[M]E|(^|[^X])XX[X]([^X]|$)|HAC[K]|for no[w],|not implemente[d] yet|a stu[b]'
place='(^|[^A-Za-z0-9_.])/(wor[k]|hom[e]|roo[t]|op[t]|User[s])/'
grep -nE "$promises" $sources Makefile $documents | sed 's/$/   <- finish it or leave it out/'
places=$(ls -d man .ci tests/oracle tests/data 2>/dev/null)
grep -rnIE "$place" $sources $documents Makefile $places | sed 's/$/   <- a place that the reader does not have/'
