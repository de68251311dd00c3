# mem estimates activations, the peak and a checkpointing plan from a config alone, and whether they fit.
ckpt mem data/gpt2.json -b 8 -s 1024 --precision bf16-mixed
for checkpointing in none block block-reentrant sqrt k=3 seq=3 selective; do
    ckpt mem data/gpt2.json -b 8 -s 1024 --precision bf16 --checkpoint $checkpointing | grep -E '^(activations|peak)'
done
ckpt mem data/gpt2.json -b 8 -s 1024 --precision bf16-mixed --fits 8GiB; echo "exit $?"
ckpt mem data/gpt2.json -b 64 -s 1024 --precision bf16-mixed --fits 8GiB; echo "exit $?"
ckpt mem data/gpt2.json -s 1024 --precision bf16-mixed --table --fits 16GiB
ckpt mem data/gpt2.json -b 4 -s 1024 --table --json
ckpt mem data/gpt2.json -b 2 -s 64 --attn eager --dropout off --json
ckpt mem data/gpt2.json -b 8 -s 1024 --precision bf16 --fits 9GiB --code
ckpt mem data/gpt2.json -b 64 -s 1024 --precision bf16 --fits 8GiB --json; echo "exit $?"
