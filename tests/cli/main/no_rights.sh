# If permissions forbid reading or writing, the error gives the reason. (Root drops its capabilities for this.)
if [ "$(id -u)" = 0 ]; then
    setpriv --inh-caps=-all --bounding-set=-all true 2>/dev/null || { echo 'root, and no setpriv'; exit 77; }
    try() { setpriv --inh-caps=-all --bounding-set=-all ckpt "$@"; echo "$1 $?"; }
else
    try() { ckpt "$@"; echo "$1 $?"; }
fi
mkdir closed read
cp data/train.pt closed/w.pt
cp data/train.pt read/w.pt
cp data/train.pt read/secret.pt
chmod 000 closed read/secret.pt
chmod 444 read/w.pt
chmod 555 read
try ls closed
try ls -r closed
try doctor closed
try verify closed/w.pt
try scan read/secret.pt
try strip -i --auto read/w.pt
try strip --auto read/w.pt -o read/x.pt
try strip -n --auto read/w.pt -o read/x.pt
try convert -n data/train.pt read
ls read
chmod 755 closed read
if [ "$(id -u)" = 0 ]; then # only root can give a file to another user
    cp data/train.pt foreign.pt
    chmod u+w foreign.pt
    chown 65534:65534 foreign.pt
    try strip --auto -fo foreign.pt foreign.pt 2>&1 | sed 's/user 0 now/user N now/; s/group 0 now/group N now/'
else # print what root gets
    cat <<END
ckpt: foreign.pt: its owner, user 65534, could not be kept; it belongs to user N now
ckpt: foreign.pt: its group 65534 could not be kept; it has group N now
module.   14 of 14 tensors in state_dict, 6 _metadata entries
foreign.pt   22 tensors, 48.1 KiB
strip 0
END
fi
