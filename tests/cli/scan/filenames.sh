# In a pipe, findings in several files begin with the file name; -H adds it for one file, --no-filename never prints it.
printf 'cos\nsystem\n(S"id"\ntR.' >'evil one.pkl'
mkdir d && cp 'evil one.pkl' d/a.pkl
for options in '' -H --no-filename; do
    echo "== $options"
    ckpt scan $options 'evil one.pkl'
    ckpt scan $options 'evil one.pkl' d/a.pkl | grep PKL
    ckpt scan --sandbox=off $options d | grep PKL
done
ckpt scan --json -H d | cut -c 1-50
