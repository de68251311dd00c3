# The command that doctor advises works for any file name, and never writes to a name that exists.
# run_fix FILE - prints what doctor reports about FILE, and runs the fix
run_fix()
{
    ckpt doctor "$1" >report
    grep -v note: report | head -n 3
    LC_ALL=C tr -d '\n\040-\176' <report | od -An -c
    sed -n 's/^    fix: //p' report | head -n 1 >fix
    bash ./fix >messages 2>&1 && echo ran || cat messages
}
command -v bash >/dev/null || { echo "no bash"; exit 77; }
cp data/train.pt fixed.pt
# the outputs are fixed-2.pt and fixed-3.pt, then fixed-5.pt, because a link to nowhere is a taken name, too
run_fix fixed.pt
run_fix fixed.pt
ln -s nowhere fixed-4.pt
run_fix fixed.pt
ls -1 fixed*
rm fixed*
# names with control characters (one before a digit), a quote, a bidirectional override, a byte that is not UTF-8, and
# syntax of the shell
for name in '\033]0;x\007.pt' 'a\n1b.pt' "it's\\\\\\t.pt" '\342\200\256tp.pt' '\377\0610.pt' '$(touch ran);`id`.pt' '*.pt'; do
    name=$(printf "$name")
    cp data/train.pt "$name"
    run_fix "$name"
    rm "$name" fixed.pt
done
cp data/train.pt -- -x.pt
ckpt doctor -- -x.pt | sed -n 's/^    fix: //p'
sh -c "$(ckpt doctor -- -x.pt | sed -n '3s/^    fix: //p')"
ls
