# info shows the beginning of a long value, and never cuts a UTF-8 character.
ckpt info corpus/keras/tfk/opt_lion.keras | grep values
ckpt convert -q data/train.pt x.safetensors
long=$(printf 'é%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20)
ckpt meta x.safetensors -o y.safetensors "a=x$long$long$long" b=short
ckpt info y.safetensors | grep metadata
