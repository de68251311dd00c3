# text.sh - what a reader should not stumble over: long lines and files, tabs, trailing blanks, promises, and words
# about the place where this was written.
sources=$(find lib cli tests -name '*.[ch]' -o -name '*.def' -o -name '*.sh' | grep -v '^tests/corpus/')
documents=$(ls README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md lib/README.md 2>/dev/null)

for file in $sources; do
    awk -v file="$file" '
    length($0) > limit(file) && !/CKPT_API/ {print file ":" FNR ": line of " length($0) " characters"}
    /[ \t]$/ {print file ":" FNR ": blanks at the end"}
    /^\t| \t/ {print file ":" FNR ": a tab"}
    END {if (NR > 700 && file !~ /\.def$/) print file ":1: " NR " lines; a file has at most 700"}
    function limit(name) {return name ~ /\.def$/ ? 140 : name ~ /\.sh$/ ? 120 : 110}' "$file"
done

promises='TO[D]O|FIX[M]E|(^|[^X])XX[X]([^X]|$)|HAC[K]|for no[w],|not implemente[d] yet|stub'
place='/wor[k]/|share[d]/(design|reference|tools|corpus-src|ux)|/hom[e]/|/roo[t]/|/op[t]/|helpe[r] [A-H]([^A-Za-z]|$)|[Cc]laud[e]|deb\.debian|pypi\.or[g]|a sessio[n] of'
grep -nE "$promises" $sources Makefile $documents | sed 's/$/   <- finish it or leave it out/' |
    grep -vE ':[0-9]+:.*stubborn'
places=$(ls -d man .ci tests/oracle tests/data 2>/dev/null)
grep -rnIE "$place" $sources $documents Makefile $places | sed 's/$/   <- a place that the reader does not have/'
