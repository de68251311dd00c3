# mem counts parameters, buffers, gradients and the optimizer state of any checkpoint: its own, or that of --optimizer.
ckpt mem data/train.pt
ckpt mem data/train.pt --json
for optimizer in sgd momentum adam adamw adamw-fused adamw-amsgrad rmsprop adafactor adamw8bit; do
    ckpt mem data/train.pt --optimizer $optimizer --json | grep -oE '"(optimizer|step_transient)":{[^}]*}' | tr '\n' ' '
    echo "$optimizer"
done
for precision in fp32 bf16 bf16-mixed fp16-master; do
    ckpt mem data/train.pt --precision $precision --optimizer adamw-foreach | grep -E '^(param|grad|opt|buf)'
done
ckpt mem data/train.pt --frozen '*conv*' --optimizer sgd-momentum
ckpt mem data/train.pt --zero 2 --ranks 4 --optimizer adamw-foreach
ckpt mem corpus/torch/t215/tied.pt --json --optimizer sgd
# If the optimizer states of the file are in another precision, their size is an estimate, not exact to the byte.
ckpt mem data/train.pt --precision bf16 --json | grep -o '"optimizer":{[^}]*}'
# Options that contradict each other, lack another or are out of range are refused; --table --fits gives an exit code.
ckpt mem data/gpt2.json -b 1 -s 8 --code --json; echo "exit $?"
ckpt mem data/gpt2.json --table --json; echo "exit $?"
ckpt mem data/gpt2.json -s 1024 --table --fits 2GiB | tail -n 1
ckpt mem data/gpt2.json -s 1024 --table --fits 2GiB >fits.txt; echo "exit $?"
ckpt mem data/gpt2.json --ranks 4; echo "exit $?"
ckpt mem data/gpt2.json -b 4294967296 -s 8; echo "exit $?"
ckpt mem data/gpt2.json -b 1 -s 8 --config x; echo "exit $?"
