# A key that is neither text nor int differs from the text that prints like it, and a defaultdict from one with another
# factory, a deque from one with another maxlen.
# make_keys KEY OUT - writes a pickle of {"m": {KEY: {"v": 5}}}; KEY is opcodes, as a format of printf
make_keys()
{
    printf '\200\002}X\1\0\0\0m}' >"$2"
    printf "$1" >>"$2"
    printf '}X\1\0\0\0vK\005sss.' >>"$2"
}
# compare TEXT KEY - compares the key with the text that prints like it
compare()
{
    make_keys "$2" key.pkl
    make_keys "X\\$(printf %03o ${#1})\\000\\000\\000$1" text.pkl
    ckpt ls --values text.pkl | grep -Fx "m.$1.v = 5"
    ckpt diff key.pkl text.pkl; echo $?
    ckpt diff text.pkl key.pkl
    ckpt diff key.pkl key.pkl; echo $?
}
compare '(1, 2)' 'K\001K\002\206'
compare None N
compare True '\210'
compare 1.5 'G?\370\0\0\0\0\0\0'
compare 7 'K\007'
# make_map FACTORY LENGTH OUT - writes a pickle of {"d": defaultdict(FACTORY, {"v": 5}), "q": deque([5], LENGTH)}
make_map()
{
    printf '\200\002}(X\1\0\0\0dccollections\ndefaultdict\ncbuiltins\n%s\n\205RX\1\0\0\0vK\005s' "$1" >"$3"
    printf "X\\1\\0\\0\\0qccollections\\ndeque\\n)K\\00$2\\206RK\\005au." >>"$3"
}
make_map list 3 a.pkl
make_map int 3 factory.pkl
make_map list 4 length.pkl
ckpt diff a.pkl factory.pkl; echo $?
ckpt diff a.pkl length.pkl; echo $?
ckpt diff a.pkl a.pkl; echo $?
