# One document for all files; a file that cannot be scanned is a result too.
printf 'cos\nsystem\n(S"id"\ntR.' >'a b.pkl'
ckpt scan --sarif 'a b.pkl' data/train.pt nowhere.pt >out
echo $?
grep -o '{"id":"PKL002".\{230\}' out
sed 's/"rules":\[.*\]}},"results"/"rules":[]}},"results"/' out
ckpt scan --sarif --json 'a b.pkl'
echo $?
