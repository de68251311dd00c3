# A glob, prefix or rule that matches nothing is an error, with --allow-none a notice; nothing is written.
run() { "$@" >out 2>err; echo "$? $(wc -l <out | tr -d ' ') lines: $*"; grep -v '^hint' err; }
for options in '' --allow-none; do
    for command in ls stat hash verify show; do
        run ckpt $command data/train.pt -g 'none*' $options
        run ckpt $command data/train.pt -g '*fc.bias' -g 'none*' $options
        run ckpt $command data/train.pt -g '*fc.bias' -g '!none*' $options
    done
    run ckpt show data/train.pt 'none*' $options
    run ckpt diff data/train.pt data/train.pt -g '*fc.bias' -g 'none*' $options
    run ckpt diff data/train.pt data/train.pt --ignore-prefix none. $options
    run ckpt strip none. data/train.pt -o a.pt $options
    run ckpt strip module. --keep 'none*' data/train.pt -o b.pt $options
    run ckpt add x. --drop 'none*' data/train.pt -o c.pt $options
    run ckpt rename -s '^module=>m' -s 'none=>' data/train.pt -o d.pt $options
    echo '{"none": "other", "state_dict.module.fc.bias": "state_dict.bias"}' >map.json
    run ckpt rename -m map.json data/train.pt -o e.pt $options
    run ckpt convert --cast 'none*=f16' data/train.pt -o f.pt $options
    cp data/train.pt g.pt
    run ckpt strip -i none. g.pt $options
    cmp g.pt data/train.pt
    ls *.pt
    rm *.pt
done
# --check answers whether something would change; a rule that matches, but changes nothing, matches.
run ckpt strip --check none. data/train.pt
run ckpt rename -s 'fc=>fc' data/train.pt -o a.pt
# With several files, each has to have a name that is selected, and each glob has to match in one of them.
ckpt convert -q --root auto --keep '*fc*' data/train.pt -o fc.pt
run ckpt ls -g '*fc.bias' -g '*conv1*' data/train.pt fc.pt
run ckpt ls -g '*conv1*' data/train.pt fc.pt
run ckpt ls -g '*fc.bias' -g 'none*' data/train.pt fc.pt
# A glob that excludes what no file has is one that matches nothing.
for command in ls stat hash verify; do
    run ckpt $command -g '!none*' data/train.pt
    run ckpt $command -g '!*conv1*' data/train.pt fc.pt
done
run ckpt diff -g '!none*' data/train.pt data/train.pt
run ckpt hash --cast 'none*=bf16' data/train.pt
