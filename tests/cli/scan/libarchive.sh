# A file that only libarchive can unpack is never skipped silently, with or without libarchive.
printf 'cos\nsystem\n(S"id"\ntR.' >evil.pkl
xz -c evil.pkl >evil.xz 2>/dev/null && bzip2 -c evil.pkl >evil.bz2 2>/dev/null || { echo 'no xz or no bzip2 here'; exit 77; }
ckpt scan evil.xz | grep -q libarchive && { echo 'libarchive is not here'; exit 77; }
ckpt scan evil.xz evil.bz2
echo $?
head -c 40 evil.xz >cut.xz
ckpt scan -q cut.xz >/dev/null
echo $?
# A zip holds the pickle above by methods 12, 14 and 93; then the first of these members is damaged.
base64 -d >three.zip <<'X'
UEsDBD8AAAAMAAAAIQCqxLinPQAAABUAAAAFAAAAYi5wa2xCWmg5MUFZJlNZRzF0/gAABNOAABAQQRgADiKMICAAIiGhtE8pimAA
KLyOBCS4JX6ZNYu5IpwoSCOYun8AUEsDBD8AAgAOAAAAIQCqxLinKgAAABUAAAAFAAAAbC5wa2wJBAUAXQAAgAAAMZvKxrJ8Zd/f
kVmfsdZ9SykxKj0VvaJrgI///5jSAABQSwMEPwAAAF0AAAAhAKrEuKciAAAAFQAAAAUAAAB6LnBrbCi1L/0EWKkAAGNvcwpzeXN0
ZW0KKFMiaWQiCnRSLocEYUNQSwECPwA/AAAADAAAACEAqsS4pz0AAAAVAAAABQAAAAAAAAAAAAAAAAAAAAAAYi5wa2xQSwECPwA/
AAIADgAAACEAqsS4pyoAAAAVAAAABQAAAAAAAAAAAAAAAABgAAAAbC5wa2xQSwECPwA/AAAAXQAAACEAqsS4pyIAAAAVAAAABQAA
AAAAAAAAAAAAAACtAAAAei5wa2xQSwUGAAAAAAMAAwCZAAAA8gAAAAAA
X
ckpt scan three.zip
echo $?
{ head -c 60 three.zip; printf '\000\000\000\000'; tail -c +65 three.zip; } >broken.zip
ckpt scan broken.zip
echo $?
xz --format=lzma -c evil.pkl >evil.lzma
ckpt scan -q evil.lzma
echo $?
case ${CORPUS_PUBLIC:-} in /*) at=$CORPUS_PUBLIC ;; *) at=$TESTS/../../${CORPUS_PUBLIC:-../shared/corpus/public} ;; esac
seven=$at/pickle/tests/data/malicious1.7z
[ ! -e "$seven" ] || ckpt scan "$seven" | grep -q 'PKL002.*data.pkl byte 0x30  REDUCE  builtins.eval' || echo "$seven"
ckpt scan corpus/torch/t215/dist/dcp_zstd/*
