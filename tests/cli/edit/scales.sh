# A quantized weight and its scales are changed alike, or not at all; a single scale needs only a new name.
. "$TESTS/average_input.sh"
# make_blocks - writes fp8.safetensors: two experts whose blocks of 1 x 2 have scales, and a weight with one scale
make_blocks()
{
    for e in 0 1; do
        add "x.$e.w" F8_E4M3 2,4 38 39 3a 3b 3c 3d 3e 3f
        add "x.$e.w_scale_inv" F32 2,2 $one $two $three $four
    done
    add one.weight F8_E4M3 2,2 38 39 3a 3b
    add one.weight_scale F32 '' $two
    add plain F32 2,2 $one $two $three $four
    write_file fp8.safetensors
}
make_blocks
try()
{
    echo "# $*" >&2
    ckpt edit -q -f --no-sync fp8.safetensors -o out.safetensors "$@" || echo "exit $?"
}
try -e 'stack x.{e}.w -> x.w'
try -e 'transpose x.0.w'
try -e 'transpose x.0.w -> y'
try -e 'transpose one.weight -> y'
try -e 'slice x.{e}.w [:1] ; reshape [2, 2]' -e 'drop x.0.w_scale_inv'
printf 'stack x.{e}.w -> x.w\n' >weights.txt
printf 'stack x.{e}.w_scale_inv -> x.w_scale_inv\n' >scales.txt
try --rules weights.txt
ckpt edit -q --no-sync fp8.safetensors -o set/ --max-shard-size 50 --rules weights.txt && ls set
# alike, in any number of files with rules
try --rules weights.txt --rules scales.txt && ckpt ls out.safetensors -g 'x.*'
try -e 'transpose one.weight' && ckpt ls out.safetensors -g 'one*'
try -e 'transpose one.weight -> y' -e 'rename one.weight_scale => y_scale' && ckpt ls out.safetensors -g 'y*'
try -e 'transpose x.{e}.w' -e 'drop x.*_scale_inv' && ckpt ls out.safetensors -g 'x*'
# what moves nothing, or other tensors
try -e 'drop x.0.w' -e 'keep x.*' -e 'untie x.1.w' -e 'rename ^x => y' -e 'set y.1.w = 1' && ckpt ls out.safetensors
try -e 'transpose plain' -e 'cast plain f16' && ckpt ls out.safetensors -g plain
# a set of shards has the weight in one file, the scales in another
ckpt convert -q --no-sync --max-shard-size 20 fp8.safetensors shards/
ckpt edit -q --no-sync shards -o out2.safetensors -e 'transpose x.0.w' || echo "exit $?"
ckpt edit -q --no-sync shards -o out2.safetensors -e 'transpose x.{e}.w ; transpose' -e 'transpose x.{e}.w_scale_inv ; transpose' &&
    ckpt diff fp8.safetensors out2.safetensors
