# OpenVINO: the constants of an .xml and its .bin, by the names of their layers.
d=corpus/openvino
for f in net half loop; do ckpt hash $d/$f/$f.xml | sed '$d' | cksum; done
ckpt ls -l $d/types | cut -c1-130; ckpt hash $d/types | cksum; ckpt verify $d/types
ckpt ls --values $d/loop
ckpt info $d/net | sed 's/2026[^,]*/VERSION/'
ckpt convert -q $d/net -o m.safetensors && ckpt diff $d/net/net.xml m.safetensors
ckpt ls $d/net/net.bin; cat $d/net/net.xml | ckpt ls -
mkdir two one && cp $d/net/* $d/half/* two/ && ckpt ls two
mv two/net.xml two/openvino_model.xml && mv two/net.bin two/openvino_model.bin && ckpt ls two
echo '# a .bin that is cut, missing'
cp $d/net/net.xml one/ && head -c 200 $d/net/net.bin >one/net.bin
ckpt ls one; ckpt verify one; ckpt salvage -q one -o out.pt; ckpt ls out.pt
rm one/net.bin; ckpt ls one/net.xml; ckpt verify one/net.xml; ckpt salvage -q one/net.xml -o none.pt
ln -s /etc/passwd one/net.bin; ckpt ls one
echo '# models that are wrong'
# edit SED - lists a copy of the model edited by SED
edit() { rm -rf e && cp -r $d/net e && chmod u+w e/* && sed "$1" $d/net/net.xml >e/net.xml; echo "# $1"; ckpt ls e; }
edit 's/version="11"/version="7"/'
edit 's/version="11"//'
edit 's/element_type="f32" shape="7, 5"/element_type="f31" shape="7, 5"/'
edit 's/element_type="f32" shape="7, 5"/element_type="nf4" shape="7, 5"/'
edit 's/shape="7, 5"/shape="7, -5"/'
edit 's/shape="7, 5"/shape="4294967296, 4294967296"/'
edit 's/shape="7, 5"/shape="7, 6"/'
edit 's/offset="0" size="140"/offset="0x0" size="140"/'
edit 's/offset="0" size="140"/offset="125" size="140"/'
edit 's/offset="0" size="140"/offset="18446744073709551615" size="140"/'
edit 's/size="140"//'
edit 's/shape="7, 5"/shape="0, 5"/'
edit 's/<data element_type="f32" shape="7, 5".*//'
edit 's/name="self.fc.weight" type/type/'
edit 's/name="self.fc.weight" type/name="self.out.weight" type/'
edit 's/<\/layers>//'
edit '1s/.*/<!DOCTYPE net>/'
ckpt verify e
