# What only libarchive opens: never skipped, with it or without.
printf 'cos\nsystem\n(S"id"\ntR.' >evil.pkl
xz -c evil.pkl >evil.xz 2>/dev/null && bzip2 -c evil.pkl >evil.bz2 2>/dev/null || { echo 'no xz or no bzip2 here'; exit 77; }
ckpt scan evil.xz | grep -q libarchive && { echo 'libarchive is not here'; exit 77; }
ckpt scan evil.xz evil.bz2
echo $?
head -c 40 evil.xz >cut.xz
ckpt scan -q cut.xz >/dev/null
echo $?
case ${CORPUS_PUBLIC:-} in /*) at=$CORPUS_PUBLIC ;; *) at=$TESTS/../../${CORPUS_PUBLIC:-../shared/corpus/public} ;; esac
seven=$at/pickle/tests/data/malicious1.7z
[ ! -e "$seven" ] || ckpt scan "$seven" | grep -q 'PKL002.*data.pkl byte 0x30  REDUCE  builtins.eval' || echo "$seven"
