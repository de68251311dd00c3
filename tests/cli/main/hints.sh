# The command in a hint can be copied into a shell whatever the file or tensor is called: the name stays one word, or a
# NAME or FILE stands for it.
# These programs print each argument in brackets.
mkdir bin
for tool in git ckpt; do printf '#!/bin/sh\nfor a; do printf "[%%s]" "$a"; done; echo\n' >bin/$tool; done
chmod +x bin/*
# run_hint - runs the command that the hint in messages proposes, with a git and a ckpt that print their arguments
run_hint()
{
    sed -n "s/^hint: //p; s/^ckpt: .*if it is not: //p" messages | sed 's/^`\(.*\)` undoes.*/\1/; s/ leaves it.*//' >proposed
    sed 's/^--/ckpt &/' proposed >run.sh
    PATH=$PWD/bin:$PATH sh run.sh
    [ ! -e ran ] || { echo "it ran"; rm ran; }
}
for name in plain 'two words' '$(touch ran)' '`touch ran`' 'a;touch ran' "';touch ran;'" '-f' '*' 'a|touch ran' "$(printf '\033[2J')" 'a
touch ran'; do
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n' >"./$name"
    ckpt ls -- "$name" 2>messages
    run_hint
    cp corpus/torch/t215/module_is_a_real_name.pt "./$name"
    ckpt strip --auto -n -- "$name" >/dev/null 2>messages
    run_hint
    rm "./$name"
    ckpt add -q -o prefixed.pt -- "$name." corpus/torch/t215/module_is_a_real_name.pt
    ckpt convert -n --root "$name.net.module.bias" prefixed.pt -o x.pt 2>messages
    sed -i 's/ writes one.*//' messages
    run_hint
    rm prefixed.pt
done
