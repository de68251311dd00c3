# manual.sh - each function of ckpt.h is in NAME and SYNOPSIS of exactly one page of section 3, with its declared type
# and arguments, and no page has other functions.
lists=$(mktemp -d) || exit 2
trap 'rm -rf "$lists"' EXIT

tr '\n' ' ' <lib/ckpt.h | grep -oE 'CKPT_API[^;]*;' | grep -oE 'CKPT_API [^"#]*$' |
    sed 's/^\(CKPT_API \)*//; s/^CKPT_MUST_CHECK //; s/;$//; s/   */ /g' | sort >"$lists/declared"

# Prints a line "PAGE TYPE FUNCTION(ARGUMENTS)" for each function of a SYNOPSIS, and writes a line "PAGE FUNCTION" for
# each function of a NAME to the file that the awk variable "names" holds.
awk -v names="$lists/in_name_unsorted" '
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
    }' man/*.3 | sort >"$lists/in_synopsis"
touch "$lists/in_name_unsorted" # awk makes it only if there is a NAME

cut -d' ' -f2- "$lists/in_synopsis" | sort >"$lists/prototypes"
comm -23 "$lists/declared" "$lists/prototypes" | sed 's/^/lib\/ckpt.h:1: no page of section 3 shows /'
sort -u "$lists/prototypes" | comm -13 "$lists/declared" - | sed 's/^/man:1: ckpt.h does not declare /'
uniq -d "$lists/prototypes" | sed 's/^/man:1: more than one page shows /'

# NAME of a page lists the functions of its SYNOPSIS. Not checked is the NAME libckpt, of the page about the library.
sed 's/^\([^ ]*\) .*[ *]\(ckpt_[a-z_0-9]*\)(.*/\1 \2/' "$lists/in_synopsis" | sort >"$lists/in_synopsis_names"
grep -v ' libckpt$' "$lists/in_name_unsorted" | sort >"$lists/in_name"
comm -23 "$lists/in_synopsis_names" "$lists/in_name" | sed 's/ /:1: NAME lacks /'
comm -13 "$lists/in_synopsis_names" "$lists/in_name" | sed 's/ /:1: SYNOPSIS lacks /'
