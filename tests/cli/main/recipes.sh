# What README.md says to type first.
lightning=$(echo corpus/torch/t215/eco/lightning_*.ckpt | cut -d ' ' -f 1)
ckpt info "$lightning" | grep -c '^prefix'
ckpt convert -q --root state_dict.net "$lightning" weights.safetensors
ckpt ls weights.safetensors
cp data/train.pt model.pt
printf 'fixed.pt: model.pt ; @ckpt strip -q --auto -f $< -o $@\n' >Makefile
make -s && touch -d '1 minute ago' fixed.pt && make -s && echo 'made twice'
ckpt stat -q --fail-on nan,inf model.pt >stats && echo 'no NaN'
ckpt diff -q model.pt fixed.pt || echo changed
