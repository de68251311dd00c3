# diff --git takes the seven arguments that git passes, and exits 0 whatever it finds.
cp corpus/torch/t26/state_dict.pt old; cp corpus/torch/t26/dp_state_dict.pt new; echo no >bad
z=0000000000000000000000000000000000000000
ckpt diff --git m.pt old $z 100644 new $z 100644; echo $?
ckpt diff --git m.pt /dev/null . . new $z 100644; echo $?
ckpt diff --git m.pt old $z 100644 /dev/null . .; echo $?
ckpt diff --git m.pt bad $z 100644 new $z 100644; echo $?
ckpt diff --git m.pt; echo $?
ckpt diff --git m.pt a b; echo $?
# values are compared, too; the reader may close the pipe early
printf "(dS'epoch'\nI3\ns." >old; printf "(dS'epoch'\nI4\ns." >new
ckpt diff --git m.pt old $z 100644 new $z 100644; echo $?
{ sleep 0.3; ckpt diff --git m.pt old $z 100644 new $z 100644; echo $? >code; } | :; cat code
(trap '' PIPE; { sleep 0.3; ckpt diff --git m.pt old $z 100644 new $z 100644; echo $? >code; } | :; cat code)
