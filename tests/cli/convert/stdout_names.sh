# -o -, /dev/stdout and /dev/fd/1 all write the checkpoint alone to standard output, and the report to standard error.
# compare_names COMMAND… - checks that COMMAND writes the same bytes to each name of standard output
compare_names()
{
    "$@" -o - 2>/dev/null >as_dash
    "$@" -o /dev/stdout 2>report >as_file
    cmp as_dash as_file && cat report
    "$@" -o /dev/fd/1 2>/dev/null | cmp as_dash -
}
compare_names ckpt strip --auto data/train.pt
compare_names ckpt convert --to safetensors data/train.pt
compare_names ckpt sanitize data/train.pt
compare_names ckpt salvage data/train.pt
ckpt convert -q data/train.pt w.safetensors
compare_names ckpt meta w.safetensors a=b
ckpt verify --write-manifest - data/train.pt | ckpt verify --manifest - data/train.pt
ckpt verify --write-manifest /dev/stdout data/train.pt 2>/dev/null | ckpt verify --manifest - data/train.pt
