# text.sh - no long lines, tabs, blanks at line ends, notes of unfinished work, conflicts of a merge, or paths of one
# machine.
sources=$(find lib cli tests -name '*.[ch]' -o -name '*.def' -o -name '*.sh' | grep -v '^tests/corpus/\|^tests/cli/.*/')
documents=$(ls README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md lib/README.md tests/README.md 2>/dev/null)

for file in $sources; do
    awk -v file="$file" '
    length($0) > limit(file) {print file ":" FNR ": " length($0) " characters, at most " limit(file) " are allowed"}
    /[ \t]$/ {print file ":" FNR ": blanks at the end"}
    /^\t| \t/ {print file ":" FNR ": a tab"}
    function limit(name) {return name ~ /\.def$/ ? 140 : name ~ /\.sh$/ ? 120 : 110}' "$file"
done

# The brackets in these patterns keep this file from matching them.
unfinished='TO[D]O|FIX[M]E|(^|[^X])XX[X]([^X]|$)|HAC[K]|for no[w],|not implemente[d] yet|a stu[b]'
machine_path='(^|[^A-Za-z0-9_.])/(wor[k]|hom[e]|roo[t]|op[t]|User[s])/'
grep -nE "$unfinished" $sources Makefile $documents | sed 's/$/   <- finish it or leave it out/'
more_folders=$(ls -d man .ci tests/oracle tests/data 2>/dev/null)
grep -rnIE "$machine_path" $sources $documents Makefile $more_folders |
    sed 's/$/   <- a path that exists on one machine only/'
grep -rnE "^(<<<<<<[<]|>>>>>>[>]) " $sources $documents Makefile $more_folders |
    sed 's/$/   <- a conflict that was not resolved/'
