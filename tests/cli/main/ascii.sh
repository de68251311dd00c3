# Where the locale's charset is not UTF-8, text for people is ASCII: what ckpt says, and names, which are escaped. Output
# for programs is the same as in a locale with UTF-8.
# not ASCII: it sets the locale itself
. "$TESTS/safetensors.sh"
header() { printf '{"é→":{"dtype":"U8","shape":[%s],"data_offsets":[0,1]},"naïve…":{"dtype":"%s","shape":[1],"data_offsets":[1,2]}}' "$1" "$2"; }
print_safetensors "$(header 1 U8)" '\001\002' >é.safetensors
print_safetensors "$(header 1,1 I8)" '\001\002' >b.safetensors
export LC_ALL=C
for c in 'ls é.safetensors' 'ls -l é.safetensors' 'ls --tree b.safetensors' 'info é.safetensors' 'show é.safetensors é→' 'hash é.safetensors' \
    'diff é.safetensors b.safetensors' 'rename -s é=>e é.safetensors --dry-run' 'ls é…' 'ls --é' 'ls -g ñ é.safetensors' \
    'ls -H é.safetensors' 'ls -H --tsv é.safetensors' 'hash --hub-name é.safetensors' 'diff --md é.safetensors b.safetensors'; do
    echo "== $c"
    ckpt $c 2>&1
done
echo '== as in UTF-8'
for c in 'ls --json' 'ls --tsv' 'ls --csv' 'hash --json' 'hash --file-sha256' 'info --json' 'verify --json' 'diff --json b.safetensors' \
    'diff --md b.safetensors' 'scan --json' 'scan --sarif' 'ls --json -g ñ'; do
    ckpt $c é.safetensors >c.out 2>&1
    LC_ALL=C.UTF-8 ckpt $c é.safetensors >utf8.out 2>&1
    cmp c.out utf8.out || echo "^ $c"
done
# The first of LC_ALL, LC_CTYPE and LANG that is not empty decides, by the end of its value.
unset LC_ALL
for locale in 'LANG=' 'LANG=C' 'LANG=POSIX' 'LANG=de_DE' 'LANG=de_DE.ISO-8859-1' 'LANG=C.UTF-8' 'LANG=de_DE.utf8@euro' 'LC_CTYPE=UTF-8' \
    'LC_ALL= LANG=C.UTF-8' 'LC_ALL=C LANG=C.UTF-8' 'LC_CTYPE=C LANG=C.UTF-8' 'LC_ALL=en_US.utf8 LC_CTYPE=C LANG=C' 'LANG=xUTF-8'; do
    printf '%s: ' "$locale"
    env -u LC_CTYPE -u LANG $locale ckpt ls é.safetensors | head -n 1
done
# Command lines to paste have bytes that a shell understands.
cp data/train.pt é.pt
LC_ALL=C ckpt info é.pt
LC_ALL=C ckpt doctor é.pt
