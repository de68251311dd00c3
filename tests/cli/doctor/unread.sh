# doctor and verify exit 2 for what holds nothing to check; an empty file that its name identifies has a problem (exit 1).
mkdir empty dcp
: >dcp/.metadata
for f in /dev/null empty nowhere dcp; do
    ckpt doctor $f
    echo "doctor $f: $?"
    ckpt verify $f >/dev/null 2>&1
    echo "verify $f: $?"
done
ckpt doctor --json /dev/null 2>/dev/null
echo $?
# For a pipe the advised command has FILE in place of a name.
printf '' | ckpt doctor -
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:07\nsize 4\n' | ckpt doctor -
