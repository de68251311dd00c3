# --cast DTYPE converts floats, GLOB=DTYPE any dtype; the last matching glob counts; --strict refuses overflow.
header='{"n":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},"m.w":{"dtype":"F32","shape":[4],"data_offsets":[8,24]},'
header=$header'"m.b":{"dtype":"BF16","shape":[1],"data_offsets":[24,26]}}'
{
    printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"
    printf '\160\021\001\000\001\000\000\000'                                                 # 70000 1
    printf '\000\140\200\077\000\000\200\307\000\000\300\177\000\360\177\107\200\077' # 1.0029297 -65536 NaN 65520 1
} >x.safetensors
show() { ckpt ls "$1"; for t in n m.w m.b; do ckpt show "$1" "$t"; done; }
ckpt convert --cast f16 x.safetensors a.safetensors; show a.safetensors
ckpt convert --cast f8_e4m3 --cast 'm.*=F32' --cast m.b=float64 --cast n=half x.safetensors b.safetensors; show b.safetensors
ckpt convert --json -f --cast float8_e5m2fnuz x.safetensors a.safetensors
ckpt convert --dry-run --cast f8_e4m3 x.safetensors c.safetensors
ckpt convert --strict --cast f16 x.safetensors c.safetensors; echo $?
ckpt convert --strict --dry-run --cast f16 x.safetensors c.safetensors; echo $?
ckpt convert --strict --cast f16 --cast m.w=bf16 x.safetensors d.safetensors; echo $?
ckpt convert --max-shard-size 9B --cast f16 x.safetensors shards; ckpt ls shards
ls
# An unknown dtype, a dtype that --cast cannot convert to, and a glob that matches nothing are refused. n* is accepted.
for c in f17 i32 f8_e8m0 '*=' m.x=f16 =f16 'n*=f16'; do ckpt convert --cast "$c" x.safetensors c.safetensors; echo $?; done
# Tied names must get the same dtype, unless safetensors gets a copy for each name (--ties copy).
f=corpus/torch/t26/tied.pt
ckpt ls $f
first=$(ckpt ls --tsv $f | head -n 1 | cut -f 1)
ckpt convert --cast bf16 $f e.safetensors
ckpt convert --cast "$first=f16" $f g.safetensors; echo $?
ckpt convert --ties copy --cast "$first=f16" $f g.safetensors; ckpt ls g.safetensors
# In a .pt the whole storage is cast, so that ties, strides and offsets stay.
ckpt convert --cast bf16 $f h.pt; ckpt ls --json h.pt | tr '{' '\n' | sed -n 's/.*"name":"\([^"]*\)".*"dtype":"\([^"]*\)".*"stride":\(\[[0-9,]*\]\),"storage":\([0-9]*\),"storage_offset":\([0-9]*\).*/\1 \2 \3 storage \4 from \5/p'
ckpt convert --json --cast f8_e5m2 $f i.pt; ckpt info i.pt | grep -i weights_only
ckpt convert --cast "$first=f16" $f g.pt; echo $?
ckpt convert -qf --cast f16 x.safetensors a.safetensors; ckpt convert --cast f16 x.safetensors j.pt; ckpt diff --equal-nan a.safetensors j.pt
ckpt convert --dry-run --cast f16 x.safetensors k.pt; ckpt convert --strict --cast f16 x.safetensors k.pt; echo $?; ls k.pt
ckpt convert --max-shard-size 40B --cast f16 $f l; ckpt ls l | wc -l
# In a .pt numpy arrays keep their dtype, and a tensor loses requires_grad if torch could not read it otherwise.
n=corpus/torch/t26/numpy.pt; [ -e $n ] && ckpt convert --cast f16 $n n.pt
ckpt convert --cast f8_e4m3 corpus/torch/t113/parameter.pt p.pt; ckpt ls p.pt
ckpt convert --strict --cast f8_e4m3 corpus/torch/t113/parameter.pt p2.pt; echo $?
