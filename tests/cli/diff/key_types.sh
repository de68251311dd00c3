# The keys 1 and "1" are different: values and tensors below them differ, and --json prints both paths.
printf '\200\002}(X\1\0\0\0m}K\001K\005sX\1\0\0\0n}X\1\0\0\000aK\007su.' >int.pkl
printf '\200\002}(X\1\0\0\0m}X\1\0\0\0001K\005sX\1\0\0\0n}X\1\0\0\000aK\007su.' >text.pkl
ckpt diff int.pkl text.pkl; echo $?
ckpt diff --json int.pkl text.pkl; echo $?
# make_tensors KEY FIRST - writes a pickle of {KEY: tensor, "l": [tensor]}; FIRST is the first of two bytes
make_tensors()
{
    printf '\200\002}('
    printf "$1"
    printf 'cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\000\205U\001btR(K\001K\002\205cnumpy\ndtype\n'
    printf '(U\002u1K\000K\001tR(K\003U\001|NNNI-1\nI-1\nK\000tb\211U\002%s\002tbq\000X\1\0\0\0l]h\000au.' "$2"
}
make_tensors 'K\001' a >int.pkl
make_tensors 'X\001\000\000\0001' a >text.pkl
make_tensors 'X\001\000\000\0001' b >other.pkl
ckpt diff int.pkl text.pkl; echo $?
ckpt diff text.pkl int.pkl
ckpt diff int.pkl other.pkl
ckpt diff --md int.pkl other.pkl
ckpt diff --keys-only int.pkl text.pkl; echo $?
ckpt diff --json int.pkl text.pkl | grep -o '"changed":[^}]*}' | head -n 1
# formats in which all keys are text
for format in safetensors npz msgpack; do
    ckpt convert -q int.pkl int.$format
    ckpt diff --tensors-only int.pkl int.$format
done
ckpt convert -q data/train.pt --to dcp dcp
ckpt diff data/train.pt dcp
ckpt diff --tsv int.pkl other.pkl | cut -f 1,2,7,15
