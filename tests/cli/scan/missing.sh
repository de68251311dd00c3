# Of a file that does not exist, scan does not say that it may do anything.
ckpt scan nowhere.pt
echo $?
printf 'PK\003\004' >cut.pt
ckpt scan cut.pt nowhere.pt
