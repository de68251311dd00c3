# hash --file-sha256 escapes file names as sha256sum does, which can check the output.
for name in 'a\nb.pt' 'back\\slash.pt' '\\n.pt' ' lead.pt' 'esc\033[1m.pt' '\377.pt' '\303\244.pt' "it's.pt" 'plain.pt'; do
    name=$(printf "$name")
    printf '%s' "$name" >"$name"
    ckpt hash --file-sha256 "$name" >one
    sha256sum "$name" | cmp - one && sha256sum --quiet -c one && echo same
    cat one >>sums
done
cat -v sums
sha256sum --quiet -c sums && echo all
printf x >>plain.pt
sha256sum --quiet -c sums 2>/dev/null
ckpt hash --json --file-sha256 "$(printf 'a\nb.pt')"
# a name with a backslash and an n is not confused with one with a newline
cp plain.pt 'a\nb.pt'
ckpt hash --file-sha256 'a\nb.pt' | sha256sum --quiet -c && ckpt hash --file-sha256 'a\nb.pt' | cut -c 66-
