# --hub-name prints the file name with the digits of the SHA-256 that torch.hub checks: added, or in place of digits in
# the name. --check-name compares the digits in the name with the SHA-256.
mkdir a-b.c
cp corpus/torch/t26/tied.pt a-b.c/net.pth
cp corpus/torch/t26/tied.pt net-a.pth
cp corpus/torch/t26/tied.pt net-01234567.pth
cp corpus/torch/t26/tied.pt net
cp corpus/torch/t26/tied.pt net-a.v2.pth
for f in a-b.c/net.pth net-a.pth net-01234567.pth net net-a.v2.pth; do
    ckpt hash --hub-name $f
    echo $?
done
ckpt hash --check-name net-01234567.pth
echo $?
cp net-01234567.pth "$(ckpt hash --hub-name net-01234567.pth)"
ckpt hash --check-name net-[!0a]*.pth
ckpt hash --check-name -q net-[!0a]*.pth
echo $?
ckpt hash --check-name a-b.c/net.pth
echo $?
ckpt hash --json --hub-name net-a.pth
ckpt hash --json --check-name net-a.pth
echo $?
