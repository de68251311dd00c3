# scan finds the call in each malicious sample of picklescan, and accepts each benign one.
case ${CORPUS_PUBLIC:-} in /*) at=$CORPUS_PUBLIC ;; *) at=$TESTS/../../${CORPUS_PUBLIC:-../shared/corpus/public} ;; esac
[ -d "$at/pickle" ] || { echo 'the public samples are not here'; exit 77; }
ln -s "$at/pickle/tests/data" s
for f in s/*; do
    case $f in *.7z) continue ;; esac # libarchive.sh has that one
    ckpt scan "$f"
    echo "$?"
done
