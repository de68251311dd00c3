# A library that cannot be loaded is no fault of the file: one error gives the loader's reason, and no report begins.
sonames=$(grep -aoE '"soname":\["lib(crypto|zip)\.[^"]+' "$CKPT" | cut -d '"' -f 4)
case $sonames in *libcrypto*) ;; *) echo 'this ckpt is linked to its libraries'; exit 77 ;; esac
mkdir bad
for name in $sonames libarchive.so.13 libarchive.so libarchive.13.dylib; do echo x >bad/"$name"; done
printf '\200\002N.' >a.pkl
printf '\375\067zXZ\000\000\004\346\326\264\106' >a.xz
LD_LIBRARY_PATH=$PWD/bad
export LD_LIBRARY_PATH
without_reason()
{
    sed -E 's/lib(crypto|zip)\.so\.[0-9]+/lib\1/; s/(loaded: )[^"]*/\1REASON/; s/("found":")[^"]*/\1REASON/
        s/("allowed":"lib[a-z]*)[^"]*/\1/'
}
for arguments in 'scan --json' 'scan --json --sha256' 'scan --json --sandbox=off' 'hash'; do
    ckpt $arguments a.pkl >out 2>err
    echo "$arguments $?"
    cat out
    without_reason <err
done
ckpt doctor corpus/numpy/np2/deflate.npz >out 2>err
echo "doctor $?"
cat out
without_reason <err
ckpt scan a.xz | grep ARC002 | sed -E 's/(loaded: ).*file too short.*/\1REASON/'
