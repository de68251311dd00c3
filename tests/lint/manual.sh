# manual.sh - each function of ckpt.h is in NAME and SYNOPSIS of exactly one page of section 3, with the arguments that
# it has, and no page has another one.
found=$(mktemp -d) || exit 2
trap 'rm -rf "$found"' EXIT

tr '\n' ' ' <lib/ckpt.h | grep -oE 'CKPT_API[^;]*;' | grep -oE 'CKPT_API [^"#]*$' |
    sed 's/^\(CKPT_API \)*//; s/^CKPT_MUST_CHECK //; s/;$//; s/   */ /g' | sort >"$found/declared"

# PAGE TYPE NAME(ARGUMENTS), and the names of PAGE in its section NAME
awk -v names="$found/names" '
    /^\.Sh / {section = $2}
    section == "NAME" && /^\.Nm / {print FILENAME " " $2 >names}
    section == "SYNOPSIS" && /^\.Ft / {type = substr($0, 5)}
    section == "SYNOPSIS" && /^\.Fn / {
        args = $0
        sub(/^\.Fn [^ ]* ?/, "", args)
        gsub(/" "/, ", ", args)
        gsub(/"/, "", args)
        line = type " " $2 "(" args ")"
        gsub(/\* /, "*", line)
        print FILENAME " " line
    }' man/*.3 | sort >"$found/shown"
touch "$found/names"

cut -d' ' -f2- "$found/shown" | sort >"$found/all"
comm -23 "$found/declared" "$found/all" | sed 's/^/lib\/ckpt.h:1: no page of section 3 shows /'
sort -u "$found/all" | comm -13 "$found/declared" - | sed 's/^/man:1: ckpt.h does not declare /'
uniq -d "$found/all" | sed 's/^/man:1: more than one page shows /'

# The names of a page are what it shows; libckpt.3 is about all of them.
sed 's/^\([^ ]*\) .*[ *]\(ckpt_[a-z_0-9]*\)(.*/\1 \2/' "$found/shown" | sort >"$found/functions"
grep -v ' libckpt$' "$found/names" | sort >"$found/named"
comm -23 "$found/functions" "$found/named" | sed 's/ /:1: NAME lacks /'
comm -13 "$found/functions" "$found/named" | sed 's/ /:1: SYNOPSIS lacks /'
