# --cast: floats only unless named, the last that matches counts, overflow is told and refused by --strict.
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
# What is no dtype, no target, not there.
for c in f17 i32 f8_e8m0 '*=' m.x=f16 =f16 'n*=f16'; do ckpt convert --cast "$c" x.safetensors c.safetensors; echo $?; done
# Names of one tensor must agree; what has no numbers to cast stays, or is refused when named.
f=corpus/torch/t26/tied.pt
ckpt ls $f
first=$(ckpt ls --tsv $f | head -n 1 | cut -f 1)
ckpt convert --cast bf16 $f e.safetensors
ckpt convert --cast "$first=f16" $f g.safetensors; echo $?
ckpt convert --ties copy --cast "$first=f16" $f g.safetensors; ckpt ls g.safetensors
