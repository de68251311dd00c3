# format_names.sh - no header of lib/core names a format: no identifier has as one of its words the name of a format in
# formats.def or of a family, a folder of lib/format. What is of one format belongs in its folder, and what it keeps for
# a file in the `container` of that file. A line of $allowed is an exception, FILE:NAME or, in all headers, *:NAME.
# dtype.h      dtype.def is the one table of what is known of each dtype: the names in torch and safetensors, too
# numpy.h      dtypes, arrays and scalars of numpy are in the pickles of all formats
# pickle       a value graph describes what a pickle builds; reports of it are about opcodes
# container, compressed  are words with a meaning of their own
allowed='dtype.h:safetensors dtype.h:torch numpy.h:numpy *:pickle *:container *:compressed'

names=$({
    sed -n 's/^FORMAT(\(.*\))$/\1/p' lib/format/formats.def
    for folder in lib/format/*/; do
        folder=${folder%/}
        case ${folder##*/} in files | graph | parts) ;; *) echo "${folder##*/}" ;; esac
    done
} | sort -u | tr '\n' '|')
awk -v named=1 -f "$LINT/strip.awk" lib/core/*.h |
    awk -v names="${names%|}" -v allowed=" $allowed " '{
        match($0, /^[^:]*:[0-9]*:/)
        place = substr($0, 1, RLENGTH)
        code = tolower(substr($0, RLENGTH + 1))
        file = place
        gsub(/^.*\/|:.*/, "", file)
        while (match(code, /[a-z_][a-z_0-9]*/)) {
            word = "_" substr(code, RSTART, RLENGTH) "_"
            code = substr(code, RSTART + RLENGTH)
            if (match(word, "_(" names ")_")) {
                name = substr(word, RSTART + 1, RLENGTH - 2)
                if (!index(allowed, " " file ":" name " ") && !index(allowed, " *:" name " "))
                    print place " " substr(word, 2, length(word) - 2) " names a format"
            }
        }
    }'
