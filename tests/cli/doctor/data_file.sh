# Of a single file of a Distributed Checkpoint, doctor names the folder: its compression is not what keeps it from loading.
for f in dcp_zstd/__0_0 dcp_zstd/__1_0 dcp_safetensors/__1_0 dcp_dtensor/__0_0; do
    ckpt doctor corpus/torch/t215/dist/$f.distcp
done
cp corpus/torch/t215/dist/dcp_zstd/__0_0.distcp .
ckpt doctor --json __0_0.distcp
# So it does for one that was compressed later, unless what is compressed is cut off.
for f in dcp_safetensors/__1_0 dcp_dtensor/__0_0; do
    gzip -nc corpus/torch/t215/dist/$f.distcp >packed.distcp.gz
    ckpt doctor packed.distcp.gz
done
gzip -nc corpus/torch/t215/dist/dcp_dtensor/__0_0.distcp | head -c 300 >cut.distcp.gz
ckpt doctor cut.distcp.gz
