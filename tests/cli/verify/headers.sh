# verify compares each local header with the central directory, and reports two records of one name, and bytes before
# and after the archive.
cp corpus/torch/t26/tied.pt h.pt
chmod u+w h.pt
at=$(LC_ALL=C grep -abo 'version' h.pt | head -n 1 | cut -d: -f1)
printf V | dd of=h.pt bs=1 seek="$at" conv=notrunc 2>/dev/null
ckpt verify h.pt
# a wrong data descriptor, which no reader needs, is reported
cp corpus/torch/t26/tied.pt d.pt
chmod u+w d.pt
at=$(LC_ALL=C grep -aboP 'PK\x07\x08' d.pt | head -n 1 | cut -d: -f1)
printf '\1' | dd of=d.pt bs=1 seek=$((at + 8)) conv=notrunc 2>/dev/null
ckpt verify d.pt
for f in corpus/torch/exp/49_dup_record.pt corpus/torch/exp/27_prefix_junk.pt corpus/torch/exp/28_trailing_junk.pt; do
    ckpt verify $f
done
# storages that are too short or missing are reported
ckpt verify corpus/torch/exp/20_storage_short.pt corpus/torch/exp/22_storage_missing.pt
# an intact file without checksums: a notice reports that it has none
ckpt verify corpus/torch/t215/nocrc.pt
