# Parameters, buffers, gradients and the optimizer of any checkpoint: its own, or one that is named.
ckpt mem data/train.pt
ckpt mem data/train.pt --json
for o in sgd momentum adam adamw adamw-fused adamw-amsgrad rmsprop adafactor adamw8bit; do
    ckpt mem data/train.pt --optimizer $o --json | grep -oE '"(optimizer|step_transient)":{[^}]*}' | tr '\n' ' '
    echo "$o"
done
for p in fp32 bf16 bf16-mixed fp16-master; do
    ckpt mem data/train.pt --precision $p --optimizer adamw-foreach | grep -E '^(param|grad|opt|buf)'
done
ckpt mem data/train.pt --frozen '*conv*' --optimizer sgd-momentum
ckpt mem data/train.pt --zero 2 --ranks 4 --optimizer adamw-foreach
ckpt mem corpus/torch/t215/tied.pt --json --optimizer sgd
