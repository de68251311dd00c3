# The command that doctor advises removes the problem.
# run_fix FILE - prints what doctor reports about FILE, runs the fix, and prints what doctor reports about the output
run_fix()
{
    ckpt doctor "$1"
    ckpt doctor --json "$1" | sed 's/.*"level":"problem"[^}]*"fix":"\([^"]*\)".*/\1/' >fix
    rm -f fixed.*
    sh fix >/dev/null 2>&1 || echo "fix failed: $(cat fix)"
    set -- fixed.*
    [ -e "$1" ] && { ckpt doctor "$1" | head -n 1; ckpt ls "$1" | wc -l | tr -d ' '; }
    rm -f fixed.*
}
cp corpus/torch/t215/state_dict.pt 'my model.pt'
ckpt convert -q 'my model.pt' s.safetensors
cp s.safetensors wrong.pt; run_fix wrong.pt
cp 'my model.pt' wrong.safetensors; run_fix wrong.safetensors
gzip -c 'my model.pt' >'my model.pt.gz'; run_fix 'my model.pt.gz'
run_fix corpus/torch/t215/dp_state_dict.pt
run_fix corpus/torch/t215/compiled.pt
run_fix corpus/torch/t215/state_dict_p4.pt
run_fix corpus/torch/exp/25_format_version_1.pt
run_fix corpus/torch/exp/02_no_version.pt
run_fix corpus/torch/exp/27_prefix_junk.pt
run_fix corpus/torch/exp/28_trailing_junk.pt
run_fix corpus/torch/exp/07_no_prefix.pt
# a note, which is no problem, has a command, too
ckpt strip -q --auto data/train.pt -o n.pt
ckpt doctor n.pt
ckpt convert -q --root auto n.pt fixed.pt 2>/dev/null
ckpt doctor fixed.pt
