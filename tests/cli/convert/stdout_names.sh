# -o -, /dev/stdout and /dev/fd/1 all write the checkpoint alone to standard output, and the report to standard error.
same()
{
    "$@" -o - 2>/dev/null >as_dash
    "$@" -o /dev/stdout 2>report >as_file
    cmp as_dash as_file && cat report
    "$@" -o /dev/fd/1 2>/dev/null | cmp as_dash -
}
same ckpt strip --auto data/train.pt
same ckpt convert --to safetensors data/train.pt
same ckpt sanitize data/train.pt
same ckpt salvage data/train.pt
ckpt convert -q data/train.pt w.safetensors
same ckpt meta w.safetensors a=b
ckpt verify --write-manifest - data/train.pt | ckpt verify --manifest - data/train.pt
ckpt verify --write-manifest /dev/stdout data/train.pt 2>/dev/null | ckpt verify --manifest - data/train.pt
