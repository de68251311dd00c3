# TIES and SLERP, on numbers that can be computed by hand.
. "$TESTS/average_input.sh"
make() { file=$1 && shift && add w F32 $# "$@" && write_file "$file.safetensors"; }
merge() { ckpt average -q -f --no-sync -o out.safetensors "$@" && ckpt show out.safetensors w; }
make base $zero $zero $zero $zero
make a $one $two $minus_one $four
make b $two c0000000 $minus_one $one
# signs: 1 + 2, 2 - 2 (is positive), -1 - 1, 4 + 1
merge --method ties --base base.safetensors a.safetensors b.safetensors
merge --method ties --base base.safetensors a.safetensors b.safetensors -w 1,3
merge --method ties --base base.safetensors a.safetensors b.safetensors --no-normalize --lambda 0.5
# half of a are 4 and 2; of b, 2 and -2; a quarter of b is 2 and -2, which are equal
merge --method ties --base base.safetensors a.safetensors b.safetensors --density 0.5
merge --method ties --base base.safetensors a.safetensors b.safetensors --density 0.25
merge --method ties --base base.safetensors a.safetensors b.safetensors --density 0,1
merge --method ties --base a.safetensors b.safetensors --density 0.5
# a right angle, the same direction, opposite directions, no direction
make x $one $zero
make y $zero $two
make z $zero $zero
make minus $minus_one $zero
merge --method slerp x.safetensors y.safetensors
merge --method slerp x.safetensors y.safetensors --t 0.25
merge --method slerp x.safetensors y.safetensors --t 0
merge --method slerp x.safetensors y.safetensors --t 1
merge --method slerp x.safetensors x.safetensors
merge --method slerp x.safetensors minus.safetensors --t 0.25
merge --method slerp x.safetensors z.safetensors
# an empty tensor, and one of 70,000 elements, of which a histogram finds the largest
add w F32 0 && write_file empty.safetensors
merge --method slerp empty.safetensors empty.safetensors
merge --method ties --base empty.safetensors empty.safetensors --density 0.5
floats()
{
    printf '\100\0\0\0\0\0\0\0{"w":{"dtype":"F32","shape":[70000],"data_offsets":[0,280000]}} '
    seq "$1" 200000 | head -c 280000
}
head -c 280000 /dev/zero >zeros
{ floats 1 | head -c 72; cat zeros; } >zero.safetensors
floats 1 >one.safetensors
for density in 0.1 0.9; do
    ckpt average -q -f --method ties --base zero.safetensors one.safetensors --density $density -o out.safetensors
    ckpt stat --json out.safetensors | tr ',' '\n' | grep zeros
done
