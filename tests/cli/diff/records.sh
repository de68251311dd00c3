# diff --tsv and --csv have a line for each difference, also of values and with -q; --csv quotes as RFC 4180 describes.
ckpt rename -q -s 'fc=>he, "ad' data/train.pt -o renamed.pt
ckpt diff --tsv --header data/train.pt renamed.pt; echo $?
ckpt diff --csv --header -g '*fc*' -g '*he*' data/train.pt renamed.pt; echo $?
ckpt diff --csv -q data/train.pt renamed.pt | cut -d , -f 1 | sort | uniq -c | tr -s ' '
ckpt convert -q --cast=f16 data/train.pt half.safetensors
ckpt convert -q data/train.pt full.safetensors
ckpt diff --tsv --ignore-dtype -g '*bn1.weight' -g '*bn1.run*' full.safetensors half.safetensors | cut -f 1-8
ckpt diff --tsv --ignore-dtype --rtol=0.1 -g '*bn1.weight' full.safetensors half.safetensors | cut -f 1-8
ckpt diff --tsv --root=auto corpus/torch/t215/empty.pt corpus/torch/t215/numpy.pt
ckpt diff --csv corpus/torch/t215/meta.pt corpus/torch/t215/meta.pt; echo $?
ckpt ls full.safetensors >keys.txt
ckpt diff --keys-only --tsv keys.txt renamed.pt | head -n 3
ckpt diff --tsv data/train.pt data/train.pt; echo $?
# options that contradict each other
ckpt diff --tsv --csv data/train.pt renamed.pt; echo $?
ckpt diff --tsv --json data/train.pt renamed.pt; echo $?
ckpt diff --csv --md data/train.pt renamed.pt; echo $?
ckpt diff --header data/train.pt renamed.pt; echo $?
