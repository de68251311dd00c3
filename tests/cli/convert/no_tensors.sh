# the root is an object or list without tensors: formats of tensors refuse it, as they do a dict without tensors
printf '\200\002cfunctools\npartial\ncbuiltins\nprint\n\205R.' >partial.pkl
printf '\200\002].' >list.pkl
printf '\200\002}U\005epochK\003s.' >values.pkl
printf '\200\002}.' >empty.pkl
for input in partial list values empty; do
    for suffix in safetensors npz msgpack; do
        ckpt convert --strict $input.pkl -o $input.$suffix
        echo "$input.$suffix: $?"
    done
    ckpt convert $input.pkl -o dcp-$input --to dcp
    echo "DCP: $?"
    ckpt convert $input.pkl -o $input.shards.safetensors --max-shard-size 1MB
    echo "shards: $?"
    ckpt sanitize $input.pkl -o $input.sanitized.safetensors
    echo "sanitize: $?"
done
ls
