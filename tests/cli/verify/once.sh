# Damage to a record that is read twice, for its content and for its CRC, is reported once.
f=corpus/torch/t215/state_dict.pt
offset=$(LC_ALL=C grep -abo little $f | head -n 1 | cut -d: -f1)
{ head -c "$offset" $f; printf L; tail -c +$((offset + 2)) $f; } >order.pt
ckpt verify order.pt
ckpt verify --json order.pt
