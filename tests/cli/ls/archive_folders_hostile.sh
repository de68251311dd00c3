# archives whose folders could be read in two ways, or lead out of the archive: refused, with the reason
dcp=corpus/trainers/torch_dist/iter_0000003
mkdir -p m/model_weights
cp $dcp/* $dcp/.metadata m/model_weights
# two members of one name, in two spellings
tar -cf twice.tar -C m model_weights
tar -rf twice.tar -C m ./model_weights/__0_0.distcp
ckpt ls twice.tar
tar -cf dots.tar -C m model_weights
tar -rf dots.tar -P -C m --transform 's,^model_weights,other/../model_weights,' model_weights/__0_0.distcp
ckpt ls dots.tar
ckpt verify dots.tar
# a missing member
tar -cf missing.tar -C m --exclude=__0_0.distcp model_weights
ckpt ls missing.tar
ckpt verify missing.tar
ckpt salvage missing.tar -o saved.pt
# a link in the folder, and a folder that is a link; what it points to is not read
mv m/model_weights/__0_0.distcp .
ln -s ../../__0_0.distcp m/model_weights/__0_0.distcp
tar -cf link.tar -C m model_weights
ckpt ls link.tar
rm m/model_weights/__0_0.distcp
mv __0_0.distcp m/model_weights
ln -s m/model_weights folder
tar -cf folder.tar folder
tar -rf folder.tar -C m --transform 's,^model_weights,folder,' model_weights/.metadata model_weights/__0_0.distcp
ckpt ls 'folder.tar!folder'
ckpt ls 'folder.tar!folder/.metadata'
# names that lead out of the folder
sed 's,__._0.distcp,../file.data,g' $dcp/.metadata >m/model_weights/.metadata
cp m/model_weights/__0_0.distcp m/file.data
tar -cf outside.tar -C m model_weights file.data
ckpt ls outside.tar
ckpt scan outside.tar | grep EXT001
tar -cf parent.tar -C m --transform 's,^model_weights,../model_weights,' -P model_weights
ckpt ls parent.tar
# a folder next to the archive whose name is the path in it
cp corpus/containers/torch_dist.nemo x.nemo
mkdir -p 'x.nemo!model_weight'
cp $dcp/* $dcp/.metadata 'x.nemo!model_weight'
ckpt ls 'x.nemo!model_weight' | wc -l | tr -d ' '
ckpt ls 'x.nemo!model_weights' | wc -l | tr -d ' '
