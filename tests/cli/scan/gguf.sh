# scan accepts the GGUF files that ggml loads, and no others, and reports code in keys and in the names of tar members.
while read -r file rest; do
    case $rest in *'fullload ACCEPT'*) want=0 ;; *) want='[12]' ;; esac
    ckpt scan "corpus/vectors/gguf/$file" >out
    code=$?
    case $code in $want) sed -n 's/^  /'"$file"'  /p' out ;; *) echo "$file: exit $code, ggml: $rest" ;; esac
done <corpus/vectors/gguf/RESULTS-ggml-d99724f.txt
le() { printf "\\$(printf %o "$1")\000\000\000\000\000\000\000"; } # a number below 256 in eight bytes
{
    printf 'GGUF\003\000\000\000'; le 0; le 2
    le 23; printf 'tokenizer.chat_template\010\000\000\000'; le 9; printf '{{ 7*7 }}'
    le 7; printf 'a\033]0;b\007\007\000\000\000\001'
} >template.gguf
printf 'GGUFcos\nsyst' >cut.gguf
{ printf 'GGUF\003\000\000\000\000cos\nsystem\n(S"id"\ntR.'; } >pickle.gguf
mkdir t && printf x >"t/cos
system
(S'id'
tR."
(cd t && tar --format=ustar --owner=0 --group=0 --numeric-owner --mtime=@0 -cf ../pickle.tar -- c*)
ckpt scan template.gguf cut.gguf pickle.gguf pickle.tar
