# A text too long to be read into memory is shown as a description, in JSON too, never as an empty text.
ckpt ls --json --values corpus/torch/t26/long_string.pt | grep -o '"value":"<[^"]*"'
ckpt convert corpus/torch/t26/long_string.pt again.pt && ckpt ls --json --values again.pt | grep -o '"value":"<[^"]*"'
