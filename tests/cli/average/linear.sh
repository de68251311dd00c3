# Weighted sums, in float64 and rounded once; what is not averaged is of the last file, or of the first.
. "$TESTS/average_input.sh"
# bf16: the average of 1 and 1 + 2^-7 is a tie, which becomes the even 1; of three, it is above the middle
make() { add w F32 3 "$1" "$2" "$3" && add b BF16 2 "$4" 3f80 && add n I64 '' "000000000000000$5" && write_file "$6"; }
make $one $two $three 3f80 1 a.safetensors
make $three $two $minus_one 3f81 2 b.safetensors
make $two $two 7f7fffff 3f81 3 c.safetensors
show() { for name in w b n; do ckpt show "$1" $name; done; }
ckpt average a.safetensors b.safetensors -o ab.safetensors --no-sync && show ab.safetensors
ckpt average a.safetensors b.safetensors c.safetensors -q -o abc.safetensors && show abc.safetensors
ckpt average a.safetensors b.safetensors -q -w 3,1 --ints first -f -o ab.safetensors && show ab.safetensors
ckpt average a.safetensors b.safetensors -q --weights=-1,2 -f -o ab.safetensors && show ab.safetensors
ckpt average a.safetensors b.safetensors -q --weights 1,1 --no-normalize -f -o ab.safetensors && show ab.safetensors
# all files are equal: so is their average
ckpt average a.safetensors a.safetensors a.safetensors -q -o aaa.safetensors && ckpt diff a.safetensors aaa.safetensors
# differences from a base
ckpt average b.safetensors a.safetensors -q --base c.safetensors -f -o ab.safetensors && show ab.safetensors
ckpt average a.safetensors -q --base b.safetensors -w 0.5 -f -o ab.safetensors && show ab.safetensors
ckpt average a.safetensors -q --base b.safetensors -w 0.5 --normalize -f -o ab.safetensors && show ab.safetensors
ckpt average a.safetensors -q --base b.safetensors --lambda 2 -f -o ab.safetensors && show ab.safetensors
# what overflows is reported, and refused with --strict
ckpt average c.safetensors a.safetensors --weights 2,-1 -o inf.safetensors && ckpt show inf.safetensors w
ckpt average c.safetensors a.safetensors --weights 2,-1 --json -f -o inf.safetensors
ckpt average c.safetensors a.safetensors --weights 2,-1 --strict -o none.safetensors
[ -e none.safetensors ] || echo none
# nothing is computed by a dry run
ckpt average a.safetensors b.safetensors -n
ckpt average a.safetensors b.safetensors -n --json -o none.pt
