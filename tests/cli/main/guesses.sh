# For commands and options of other tools the error suggests ours, and for a misspelling the nearest name.
for line in 'list m.pt' 'inspect m.pt' 'compare a.pt b.pt' 'merge folder m.safetensors' 'split a.pt b.pt' 'cast a.pt b.pt' \
    'keys m.pt' 'cat m.pt fc.weight' 'version' '-v' 'stirp m.pt' 'comapre' 'list -l m.pt' \
    'convert --dtype f16 a b' 'ls --sort size m' 'strip --prefix p m' 'diff --tolerance 1 a b' 'convert --to pt data/train.pt x.bin' \
    'convert --to .safetensor data/train.pt x.bin' 'convert --hepl' 'ls --order=siez m' 'ls --overwrite m' 'strip --overwrite m' xyzzy; do
    ckpt $line 2>&1
    [ $? = 2 ] || echo "exit $?"
done
ckpt list --json m.pt 2>&1
cp data/train.pt 'my m.pt'
ckpt 'my m.pt' 2>&1
# A misspelled dtype or optimizer is suggested, too; the glob of a dtype stays.
for line in 'convert --cast flaot16 data/train.pt x.npz' 'convert --cast *.bias=bf61 data/train.pt x.npz' \
    'hash --cast fp33 data/train.pt' 'convert --cast xyzzy data/train.pt x.npz' 'mem --optimizer addam data/train.pt' \
    'mem --optimizer AdamW data/train.pt' 'mem --optimizer xyzzy data/train.pt'; do ckpt $line 2>&1; done
# Each answer in the table of commands names a command that exists.
sed -n 's/^GUESS_COMMAND("\([^"]*\)".*/\1/p' "$TESTS/../../cli/guesses.def" | while read -r typed; do
    answer=$(ckpt "$typed" 2>&1 | sed -n 's/^hint: //p')
    (eval "${answer%% [A-Z]*} --help") >messages 2>&1 </dev/null || echo "$typed: $answer: $(cat messages)"
done
# Each entry in the table of options is suggested for each command that it names.
sed -n 's/^GUESS_OPTION("\([a-z|]*\)", "\([^"]*\)".*/\1 \2/p' "$TESTS/../../cli/guesses.def" | while read -r commands typed; do
    for command in $(echo "$commands" | tr '|' ' '); do
        ckpt "$command" "--$typed" m 2>messages || :
        grep -q "unknown option '--$typed'; use" messages || echo "$command --$typed: $(cat messages)"
    done
done
# run_hint WORD… - prints what is suggested for an unknown command, and runs that
run_hint()
{
    ckpt "$@" 2>messages
    sed -n 's/^hint: //p' messages | tee command
    sh ./command >output 2>&1 || { echo "exit $?:"; cat output; }
    rm -rf out*
}
# Operands go where they belong: a file, a name, a dtype, a size, an output. The suggested command runs as it is printed.
cp data/train.pt m.pt
ckpt convert -q --root auto m.pt a.safetensors
ckpt rename -q -s '^=>b.' a.safetensors -o b.safetensors
run_hint list -l m.pt
run_hint find conv m.pt
run_hint grep fc m.pt
run_hint cat m.pt state_dict.module.fc.bias
run_hint get state_dict.module.fc.bias m.pt
run_hint split m.pt
run_hint split 10kB m.pt
run_hint shard m.pt out_parts
run_hint merge a.safetensors b.safetensors
run_hint join a.safetensors b.safetensors out.pt
run_hint cast bf16 m.pt
run_hint cast m.pt fp16
run_hint cast m.pt --to bf16
run_hint cast --dtype=fp16 m.pt
run_hint split --size 10kB m.pt
run_hint extract -k conv m.pt
run_hint prefix module. a.safetensors
run_hint unshard a.safetensors b.safetensors
run_hint find conv fc m.pt
run_hint half m.pt -o out-half.pt
run_hint extract conv m.pt
run_hint extract m.pt fc
run_hint drop optimizer m.pt
run_hint export m.pt out.npz
run_hint remove-prefix module. a.safetensors
run_hint add-prefix net. a.safetensors
run_hint unwrap m.pt
run_hint sed 'conv=>c' m.pt
run_hint clean m.pt
run_hint recover m.pt
run_hint nan 'my m.pt'
mkdir runs
cp m.pt runs
run_hint nan runs
run_hint shape m.pt state_dict.module.fc.bias
run_hint malware m.pt
run_hint which m.pt state_dict.module.fc.bias
run_hint compare m.pt 'my m.pt'
run_hint man strip
run_hint stirp --auto m.pt -o out.pt
# A word that is near an option of ours, but means something else.
for line in 'meta --set a=b m' 'mem --batch-size=4 m' 'mem --lora m' 'hash --algo sha256 m' 'diff --ignore fc a b'; do
    ckpt $line 2>&1
done
# What is unclear is left to placeholders.
for line in 'mv conv c m.pt' 'cast --dtype bf16 m.pt' 'picklescan -p m.pt' 'find conv'; do ckpt $line 2>&1; done
# A format is not a name of a file.
ckpt convert m.pt dcp 2>&1
# A word that is near another one, but means something else, is no misspelling of that.
for word in prune shape dequantize cp same sample save; do ckpt $word m.pt 2>&1; done
