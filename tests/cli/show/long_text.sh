# Text too long to be held in memory is named as such, in JSON too; it never looks empty.
ckpt ls --json --values corpus/torch/t26/long_string.pt | grep -o '"value":"<[^"]*"'
ckpt convert corpus/torch/t26/long_string.pt again.pt && ckpt ls --json --values again.pt | grep -o '"value":"<[^"]*"'
