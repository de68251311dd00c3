# --sarif prints one document for all files, with a result for a file that cannot be scanned.
printf 'cos\nsystem\n(S"id"\ntR.' >'a b.pkl'
ckpt scan --sarif 'a b.pkl' data/train.pt nowhere.pt >out
echo $?
grep -o '{"id":"PKL002".\{230\}' out
sed 's/"rules":\[.*\]}},"results"/"rules":[]}},"results"/' out
ckpt scan --sarif --json 'a b.pkl'
echo $?
