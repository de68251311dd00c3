# Options that do not go together, and models that have no adapter: nothing is written.
. "$TESTS/lora_input.sh"
make_pair_of_models
need_lapack
# refuse WORD... - runs a command that must fail
refuse()
{
    echo "# $*" >&2
    ckpt lora "$@"
    code=$?
    [ $code = 2 ] && [ ! -e a ] || echo "exit $code"
}
both='--extract base.safetensors tuned.safetensors'
refuse $both -o a
refuse $both --rank 1
refuse --extract base.safetensors --rank 1 -o a
refuse --extract base.safetensors tuned.safetensors tuned.safetensors --rank 1 -o a
refuse $both --rank 1 --cast int8 -o a
refuse $both --rank 1 --scale 2 -o a
refuse $both --rank 1 --to pt -o a
refuse base.safetensors a --rank 1 -o out.safetensors
refuse base.safetensors a --others save -o out.safetensors
refuse --extract base.safetensors base.safetensors --rank 1 -o a
refuse $both --rank 1 -o -
refuse $both --rank 1 -o tuned.safetensors
refuse $both --rank 1 --fan-in-fan-out -o a
refuse $both --rank 1 --only 'none*' -o a
echo '# another shape, only in one, numbers that are not finite' >&2
add fc.weight F32 3,2 $one $two $three $four $five $six
add square.weight F32 2,2 7f800000 $zero $zero 7fc00000
add new.weight F32 1,1 $one
write_file tuned.safetensors
refuse $both --rank 1 -o a
echo '# no name in both' >&2
ckpt add -q m. base.safetensors -o tuned.safetensors -f
refuse $both --rank 1 -o a
echo '# a folder with other files is not replaced' >&2
make_pair_of_models
mkdir b
echo mine >b/README.md
refuse $both --rank 1 -o b
ckpt lora $both --rank 1 -o b -f -q
ls b
echo mine >b/mine.txt
refuse $both --rank 1 -o b -f
ls b
