# a set that stays one: what was renamed in all of its shards is reported after they are written
for kind in safetensors bin; do
    set=corpus/torch/t215/eco/hub_${kind}_sharded
    ckpt rename -s 'fc1=>x' $set -o $kind/
    ckpt rename -n -s 'fc1=>x' $set -o new/
    ckpt rename --json -q -s 'fc1=>x' $set -fo $kind/
    ckpt add --json -q pre. $set -o added/
    ckpt strip --json -q pre. added -o $kind/plain/
    rm -r added
done
