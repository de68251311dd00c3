# Paddle's .pdiparams gets its names from the program next to it; a program that has different parameters is refused.
infer=corpus/paddle/infer
ckpt ls $infer/net.pdiparams
ckpt info $infer/net.pdiparams
ckpt convert $infer/net.pdiparams -o net.safetensors
ckpt diff $infer/net.pdiparams net.safetensors
cp $infer/net.pdiparams alone.pdiparams
ckpt ls alone.pdiparams
ckpt salvage alone.pdiparams -o numbered.pt
ckpt ls numbered.pt
# Each tensor is float32 [2]. The program, in protobuf, has four variables: "b"; "t", which does not persist; one that
# is fed with the input; and "a". So its parameters are "b" and "a".
tensor='\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\004\0\0\0\010\005\020\002\0\0\200\077\0\0\0\100'
printf "$tensor$tensor" | tee old.pdiparams >__params__
printf '\012\051\032\011\012\001b\022\002\010\007\030\001\032\007\012\001t\022\002\010\007\032\010\012\000\022\002\010\011\030\001\032\011\012\001a\022\002\010\007\030\001' >old.pdmodel
cp old.pdmodel __model__
ckpt ls -l old.pdiparams
ckpt ls __params__
ckpt verify old.pdiparams
# a program with the one variable "b"
printf '\012\013\032\011\012\001b\022\002\010\007\030\001' >old.pdmodel
ckpt ls old.pdiparams
# a program that is cut off
printf '\012\377' >old.pdmodel
ckpt ls old.pdiparams
rm old.pdmodel
# two programs in JSON: one has a number as the name of the last parameter, the other is cut off
echo '{"ops": [{"#": "p", "A": [0, 1, 1, 7]}]}' >old.json
ckpt ls old.pdiparams
echo '{"ops": [' >old.json
ckpt ls old.pdiparams
# A folder of fluid: __model__, and __params__ or a file for each parameter.
mkdir fluid one
cp __model__ __params__ one
cp __model__ fluid
for name in a b; do printf "$tensor" >fluid/$name; done
ckpt ls -l one
ckpt ls --json fluid
ckpt info fluid
ckpt convert fluid -o fluid.pt
ckpt diff fluid fluid.pt
# The file of "b" in turn is missing, has a byte too many, is cut off, and is a link.
mv fluid/b b
ckpt ls fluid
ckpt verify fluid
ckpt salvage fluid -o part.pt
ckpt ls part.pt
{ cat b; echo; } >fluid/b
ckpt verify fluid
head -c 30 b >fluid/b
ckpt ls fluid
rm fluid/b
ln -s /etc/passwd fluid/b
ckpt ls fluid
# a parameter "../ea"
printf '\012\017\032\015\012\005../ea\022\002\010\007\030\001' >fluid/__model__
ckpt ls fluid
