# If the end record contradicts the zip64 end record, but both lead to the same members, that is reported, and each
# member is scanned once. A member that no central directory lists is reported as such.
cp corpus/torch/t215/state_dict.pt few.pt
chmod u+w few.pt
end_record=$(($(wc -c <few.pt) - 22))
# the two counts of entries, on this disk and in all, become 9
printf '\011\0\011' | dd of=few.pt bs=1 seek=$((end_record + 8)) conv=notrunc 2>/dev/null
ckpt verify few.pt
ckpt scan few.pt
# the same, but the entry of byteorder in the central directory is damaged, too
name=$(LC_ALL=C grep -abo 'state_dict/byteorder' few.pt | tail -n 1 | cut -d: -f1)
central_header=$((name - 46))
printf 'XX' | dd of=few.pt bs=1 seek=$central_header conv=notrunc 2>/dev/null
ckpt verify few.pt
