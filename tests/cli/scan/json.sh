# scan --json prints each call in order and the verdict on the file, as its schema describes.
printf '\200\002ccollections\nOrderedDict\n)R(X\001\000\000\000ac__builtin__\neval\nX\003\000\000\0001\2121\205RuX\377' >a.pkl
ckpt scan --json a.pkl
echo $?
ckpt scan --json data/train.pt | tr '{' '\n' | tail -n 4
# The verdict is the same as in the text report: a file that could not be inspected is not DATA-ONLY.
ckpt scan --json no-such.pkl | tr ',' '\n' | grep verdict
printf 'PK\003\004 and no archive' >b.bin
ckpt scan --json b.bin | tr ',' '\n' | grep verdict
printf '\200\002N.some bytes' >c.pkl
ckpt scan --json c.pkl | tr ',' '\n' | grep verdict
# If the central directory and the local header give a member different sizes, both versions are in the report, each with
# its SHA-256.
{
    printf 'PK\003\004\012\000\000\000\000\000\000\000\041\000\000\000\000\000\005\000\000\000\005\000\000\000\005\000\000\000a.txthello'
    printf 'PK\001\002\012\000\012\000\000\000\000\000\000\000\041\000\000\000\000\000\004\000\000\000\004\000\000\000\005\000\000\000'
    printf '\000\000\000\000\000\000\000\000\000\000\000\000\000\000a.txt'
    printf 'PK\005\006\000\000\000\000\001\000\001\000\063\000\000\000\050\000\000\000\000\000'
} >two.zip
ckpt scan --json --sha256 two.zip | tr '{' '\n' | grep -e '"member"' -e sha256
sha256sum two.zip | cut -c 1-64
for bytes in hello hell; do printf $bytes | sha256sum | cut -c 1-64; done
ckpt scan --sha256 two.zip
echo $?
# A suffix that does not fit the content is reported; .pth.tar, a common name for what is no tar, is not.
cp data/train.pt train.safetensors && cp data/train.pt train.npy && cp data/train.pt model_best.pth.tar
ckpt scan train.safetensors train.npy model_best.pth.tar
# A finding has `found` and `allowed` if both are known.
printf 'GGUF\1\0\0\0' >old.gguf
printf "\223NUMPY\1\0\74\0{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }  \n1234" >short.npy
ckpt scan --json old.gguf short.npy | grep -o '"message":.*"}]'
