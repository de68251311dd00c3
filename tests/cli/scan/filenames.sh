# Findings in several files each name theirs, into a pipe; -H does so for one, --no-filename never does.
printf 'cos\nsystem\n(S"id"\ntR.' >'evil one.pkl'
mkdir d && cp 'evil one.pkl' d/a.pkl
for options in '' -H --no-filename; do
    echo "== $options"
    ckpt scan $options 'evil one.pkl'
    ckpt scan $options 'evil one.pkl' d/a.pkl | grep PKL
    ckpt scan --sandbox=off $options d | grep PKL
done
ckpt scan --json -H d | cut -c 1-50
