# --sarif prints one document for all files, with a result for a file that cannot be scanned.
printf 'cos\nsystem\n(S"id"\ntR.' >'a b.pkl'
ckpt scan --sarif 'a b.pkl' data/train.pt nowhere.pt >out
echo $?
grep -o '{"id":"PKL002".\{230\}' out
sed 's/"rules":\[.*\]}},"results"/"rules":[]}},"results"/' out
ckpt scan --sarif --json 'a b.pkl'
echo $?
# Why a folder was not scanned completely; a level that SARIF does not have, and no verdict but a step's own.
mkdir d && ln -s ../elsewhere.pt d/outside && ln -s outside d/inside
cp corpus/keras/k3/func.h5 d
ckpt scan --sarif d | sed 's/"rules":\[.*\]}},"results"/"rules":[]}},"results"/'
