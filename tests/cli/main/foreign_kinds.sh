# Files and folders of other programs are named for what they are, with what to do, by ls and by doctor.
command -v unzip >/dev/null || { echo 'no unzip here'; exit 77; }
make_files() {
    printf '<?xml version="1.0"?>\n<net name="toy" version="6">\n' >openvino.xml
    printf '<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>' >answer.xml
    printf 'weights' >openvino.bin
    printf '\202\250metadata\202\246format\331\041burn_core::record::NamedMpkFileRec' >burn.mpk
    printf 'NRUB\001\000' >burn.bpk
    printf 'lmgg\231\312\0\0\334\005\0\0\200\001\0\0\006\0\0\0\004\0\0\0\300\001\0\0' >whisper.bin
    printf 'lmgg\000\175\0\0\0\020\0\0\0\001\0\0' >llama.bin
    printf 'MATLAB 5.0 MAT-file, Platform: posix' >m.mat
    printf '\236\250b2frame\0\322\0\0\0\245' >m.b2nd
    printf 'ZTEN1000' >m.zt
    printf '\211PNG\r\n\032\n\0\0\0\rIHDR' >image.pt
    printf '\211LZO\0\015\012\032\012\020\100' >m.pt.lzo
    printf '\212MNG\r\n\032\n' >image.mng
    printf '\213JNG\r\n\032\n' >image.jng
    printf '\212AB\001' >numbers.bin
    printf '\211\001\063\004\000\001\010\000\035' >m.pt.sig
    printf '\210\165\004\001\026\010\000\035' >ecc.sig
    printf '<?xml version="1.0"?><PMML version="4.4"><Error/></PMML>' >model.pmml
    printf '<Error><Code>404</Code></Error>' >bare.xml.pt
    printf '{"error":"Access to model a/b is restricted and you are not in the authorized list."}' >gated.json.bin
    printf '[tool]\nx = 1\n' >m.toml
    printf '{i\001ai\001}' >m.ubj
    printf '\204\245nodes\223\204\245index\0' >thinc.msgpack
    printf '\204\245param\223\001\002\003' >flax.msgpack
    printf '|TZR|\002\0\0\0' >m.tensors
}
make_encrypted() {
    printf '\214\015\004\011\003\002abcdefgh' >m.pt.gpg
    printf '\205\002\014\003ABCDEFGH\001abcdefgh' >key.pt.gpg
    printf -- '-----BEGIN PGP MESSAGE-----\n' >m.pt.asc
    printf 'age-encryption.org/v1\n' >m.pt.age
}
make_r() {
    printf 'X\n\0\0\0\003\0\004\003\001' >m.rds
    gzip -c m.rds >packed.rds
    printf 'RDX3\nX\n' >m.RData
}
make_placeholders() {
    printf 'version https://git-lfs.github.com/spec/v1\r\noid sha256:07\r\nsize 97700000\r\n' >crlf.pt
    printf '/annex/objects/SHA256E-s97700000--0123.pt\n' >annex.pt
    printf 'outs:\n- md5: 0123\n  size: 12\n  hash: md5\n  path: dvc.pt\n' >dvc.pt.dvc
    printf 'bplist00\323\001\002\003' >.cloud.pt.icloud
    printf '../../blobs/0123456789abcdef' >link.pt
    printf 'model-v2.safetensors\r\n' >link.safetensors
    printf '!<symlink>/data/model.pt\0' >cygwin.pt
    printf 'XSym\n0009\n0123456789abcdef0123456789abcdef\n../m.ckpt\n     ' >cifs.pt
    printf 'Access to model a/b is restricted. You must have access to it and be authenticated to access it.' >gated.bin
    ln -s ../.git/annex/objects/ab/cd/SHA256E-s1--0/SHA256E-s1--0 annexed.pt
    ln -s ../../blobs/0123 lost.pt
    ln -s /nowhere/x.pt dangling.pt
}
make_folders() {
    mkdir -p unpacked/data sub/unpacked above/unpacked hub/snapshots/0123abcd hub/refs other/snapshots n5/w td snap tfjs
    mkdir tclass exported
    printf '\200\002}q\000.' | tee unpacked/data.pkl sub/unpacked/data.pkl >above/unpacked/data.pkl
    printf 0123abcd >hub/refs/main
    echo '{"n5":"2.5.0"}' >n5/attributes.json
    echo '{"dimensions":[4],"blockSize":[4],"dataType":"float32"}' >n5/w/attributes.json
    echo '{"shape":[],"_type":"<class '"'tensordict._td.TensorDict'"'>"}' >td/meta.json
    echo '{"_type": "<class '"'__main__.Data'"'>"}' >tclass/meta.json
    printf pt2 >exported/archive_format
    echo '{"version":"0.1.0","manifest":{}}' >snap/.snapshot_metadata
    echo '{"format":"layers-model","weightsManifest":7}' >tfjs/model.json
    printf 'weights' >tfjs/group1-shard1of1.bin
}
make_files; make_encrypted; make_r; make_placeholders; make_folders
for f in openvino.xml answer.xml openvino.bin burn.mpk burn.bpk whisper.bin llama.bin m.mat m.b2nd m.zt image.pt \
    m.pt.lzo image.mng image.jng numbers.bin m.pt.sig ecc.sig model.pmml bare.xml.pt gated.json.bin m.toml m.ubj \
    thinc.msgpack flax.msgpack m.tensors m.pt.gpg key.pt.gpg m.pt.asc m.pt.age m.rds packed.rds m.RData \
    crlf.pt annex.pt dvc.pt.dvc dvc.pt .cloud.pt.icloud cloud.pt link.pt link.safetensors cygwin.pt cifs.pt gated.bin \
    annexed.pt lost.pt dangling.pt unpacked sub/unpacked/ above hub other n5 n5/w td tclass exported snap tfjs \
    tfjs/model.json tfjs/group1-shard1of1.bin; do
    ckpt ls "$f"
    [ $? = 2 ] || echo "$f: the exit code is not 2"
done
ckpt doctor link.pt; ckpt doctor burn.mpk; ckpt doctor unpacked; ckpt doctor tclass exported
: >unpacked.pt; ckpt doctor unpacked; rm unpacked.pt
# no command of doctor replaces a file that is what its name says
echo '<html>' | tee page.html >page.pt
for f in m.pt.lzo image.jng numbers.bin m.pt.sig model.pmml answer.xml bare.xml.pt gated.bin gated.json.bin page.html page.pt; do
    ckpt doctor $f
done
# a suffix that torch's files have, too, is the usual one of these formats, but not every one of it
cp corpus/tensorflow/v1/names.ckpt names.bin
ckpt doctor corpus/mindspore/types.ckpt corpus/tensorflow/v1/names.ckpt corpus/thinc/chain.bin names.bin
# what the hint about an unpacked archive says, as it is printed
cp data/train.pt . && mkdir again && (cd again && unzip -q ../train.pt) && mv again/* model && ckpt ls model
if command -v zip >/dev/null; then zip -0Dqr model.pt model && ckpt diff train.pt model.pt; else echo '22 same; values: 29 same'; fi
unzip -q corpus/torch/t215/export_net.pt2 && ckpt ls export_net
if command -v zip >/dev/null; then
    zip -0Dqr export_net.pt2 export_net && ckpt diff corpus/torch/t215/export_net.pt2 export_net.pt2
    ! unzip -l export_net.pt2 | grep '/$'
else
    echo '9 same; values: 1 same'
fi
