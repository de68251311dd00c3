# scan reports both values and their offsets if an archive contradicts itself, and members that no central directory lists.
exp=corpus/torch/exp
ckpt scan $exp/27_prefix_junk.pt $exp/28_trailing_junk.pt $exp/30_truncated.pt $exp/49_dup_record.pt
echo $?
# scan_patched NAME OFFSET BYTES - scans a copy of an intact archive, which has BYTES at OFFSET
scan_patched()
{
    cp corpus/torch/t26/tied.pt "$1.pt"
    chmod u+w "$1.pt"
    printf "$3" | dd of="$1.pt" bs=1 seek="$2" conv=notrunc 2>/dev/null
    ckpt scan "$1.pt"
    echo $?
}
size=$(wc -c <corpus/torch/t26/tied.pt)
# the offset of the first central header
central_header=$(LC_ALL=C grep -abo 'PK..' corpus/torch/t26/tied.pt | LC_ALL=C grep -a 'PK'$(printf '\001\002') | head -n 1 | cut -d: -f1)
scan_patched local_name 30 X
scan_patched local_method 8 '\010'
scan_patched local_flags 6 '\001'
scan_patched local_crc 14 '\001\002\003\004'
scan_patched directory_name $((central_header + 46)) X
scan_patched directory_method $((central_header + 10)) '\010'
scan_patched directory_crc $((central_header + 16)) '\001\002\003\004'
scan_patched directory_size $((central_header + 20)) '\001\002\000\000'
scan_patched directory_offset $((central_header + 42)) '\001'
scan_patched link $((central_header + 38)) '\000\000\000\240'
scan_patched count $((size - 12)) '\001'
scan_patched local_time 10 '\001\002\003\004'
scan_patched descriptor 453 '\001\002\003\004'
scan_patched utf8 $((central_header + 46)) '\377'
scan_patched absolute $((central_header + 46)) /
scan_patched disk $((central_header + 34)) '\001'
scan_patched packed $((central_header + 10)) '\143'
scan_patched outside $((size - 22 - 20 - 56 - 20)) x
scan_patched comment $((size - 2)) '\001'
scan_patched extra 28 '\377\000'
scan_patched directory_extra $((central_header + 30)) '\004\000'
scan_patched zip64 $((size - 22 - 20 - 56 + 32)) '\011'
scan_patched locator $((size - 22 - 20 + 8)) '\001\000'
scan_patched directory_length $((size - 22 + 12)) '\001\000'
scan_patched magic $central_header X
cat data/train.pt corpus/torch/t26/tied.pt >two.pt
ckpt scan two.pt
echo $?
# The local header has zip64 sizes that differ from the central directory. By the directory the member is 4 bytes, a
# harmless pickle; by the local header it is 25 bytes, which call os.system.
{
    printf 'PK\003\004\055\000\000\000\000\000\000\000\041\000\015\322\265\175\377\377\377\377\377\377\377\377\005\000\024\000a.pkl'
    printf '\001\000\020\000\031\000\000\000\000\000\000\000\031\000\000\000\000\000\000\000\200\002N.cos\nsystem\n(S"id"\ntR.'
    printf 'PK\001\002\055\000\055\000\000\000\000\000\000\000\041\000\015\322\265\175\004\000\000\000\004\000\000\000\005\000\000\000'
    printf '\000\000\000\000\000\000\000\000\000\000\000\000\000\000a.pkl'
    printf 'PK\005\006\000\000\000\000\001\000\001\000\063\000\000\000\120\000\000\000\000\000'
} >zip64.zip
ckpt scan zip64.zip
echo $?
