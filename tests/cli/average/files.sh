# The same bits for any number of threads and parts, from and to any format; ties and values.
. "$TESTS/parts_input.sh"
make_input >a.safetensors
{ head -c 152 a.safetensors; seq 700001 4000000 | head -c 20000000; } >b.safetensors
average() { out=$1 && shift && ckpt average -q --no-sync a.safetensors b.safetensors -o "$out" "$@"; }
for method in linear slerp; do
    average ref.safetensors -j1 -m $method
    average out.safetensors -j3 -m $method -f && cmp ref.safetensors out.safetensors && echo same
    for i in 2 0 1; do average parts.safetensors -m $method --part $i/3; done
    ckpt merge-parts -q --verify parts.safetensors && cmp ref.safetensors parts.safetensors && echo same
    rm ref.safetensors parts.safetensors
done
# parts of other weights, or of another file, are not of the same output
average parts.safetensors --part 0/2
average parts.safetensors --part 1/2 -w 1,2 2>&1 | ids
touch -d '2020-01-01' b.safetensors
average parts.safetensors --part 1/2 2>&1 | ids
# folders, sets of shards and other formats
average ref.safetensors
ckpt convert -q --no-sync --max-shard-size 6MB a.safetensors set/
ckpt convert -q --no-sync --to dcp b.safetensors dcp
ckpt average -q --no-sync set dcp --to safetensors -f -o out.safetensors && ckpt diff ref.safetensors out.safetensors
ckpt average -q --no-sync set dcp --max-shard-size 15MB -o shards/ && ls shards && ckpt diff ref.safetensors shards
ckpt average -q --no-sync set dcp --to dcp -o out.dcp && ckpt diff ref.safetensors out.dcp
ckpt average -q --no-sync a.safetensors set -o out.npz && ckpt diff a.safetensors out.npz
ckpt average -q --no-sync a.safetensors b.safetensors -o - | cmp ref.safetensors - && echo same
# weights that are in different containers; values and the optimizer are of the last file, or of the first
ckpt convert -q --root state_dict data/train.pt weights.safetensors
ckpt average --root auto data/train.pt weights.safetensors -o mean.pt && ckpt diff weights.safetensors mean.pt
ckpt average -q data/train.pt data/train.pt --ints equal -o all.pt && ckpt diff data/train.pt all.pt
# tied in both files, and in one of them
tied=corpus/torch/t26/tied.pt
ckpt average -q $tied $tied -o tied.pt && ckpt ls --json tied.pt | tr '{' '\n' | sed -n 's/.*name":"\([^"]*\).*alias_of":\([^,}]*\).*/\1 \2/p'
ckpt edit -q $tied -o untied.pt -e 'untie b'
ckpt average untied.pt $tied -f -o tied.pt && ckpt diff $tied tied.pt
ckpt ls --json tied.pt | tr '{' '\n' | sed -n 's/.*name":"\([^"]*\).*alias_of":\([^,}]*\).*/\1 \2/p'
