# Of a compressed file that is not a checkpoint when it is unpacked, doctor names what is in it, and does not advise to
# unpack it; a damaged one is damaged, not foreign.
# not ASCII: this script shortens lines with …
printf '<!DOCTYPE html><html><body>' | gzip -nc >page.pt.gz
printf '\211PNG\r\n\032\n\0\0\0\rIHDR' | gzip -nc >image.pt.gz
printf 'a note, nothing else' | gzip -nc >note.gz
gzip -nc page.pt.gz >twice.gz
gzip -nc data/train.pt >train.pt.gz
head -c 5000 train.pt.gz >cut.pt.gz
for packing in zst xz bz2; do
    size=$(wc -c <corpus/compressed/tiny.safetensors.$packing)
    head -c $((size - 8)) corpus/compressed/tiny.safetensors.$packing >cut.safetensors.$packing
done
# a member at fault is at fault in the unpacked archive, too
cp corpus/containers/dcp.nemo .
for f in page.pt.gz image.pt.gz note.gz twice.gz train.pt.gz cut.pt.gz cut.safetensors.* dcp.nemo; do
    ckpt doctor "$f" | sed 's/damaged, .*/damaged, …/; s/broken compressed data: .*/broken compressed data: …/'
done
