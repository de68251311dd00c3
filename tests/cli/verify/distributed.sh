# verify reads each item of a folder that several ranks wrote and names what is missing or damaged; salvage writes the rest.
cp -r corpus/torch/t215/dist/dcp_dtensor d
chmod -R u+w d
ckpt verify d
ckpt doctor d
cp d/__1_0.distcp rank_1
rm d/__0_0.distcp
ckpt ls d
ckpt verify d
ckpt salvage d -o two.pt
cp d/.metadata d/.metadata.tmp
# a file of a wrong rank, a file that .metadata does not list, and the metadata of an unfinished save
cp rank_1 d/__0_0.distcp
cp rank_1 d/__7_0.distcp
ckpt ls d | tail -n 1
head -c 500 d/.metadata.tmp >d/.metadata
ckpt ls d
ckpt verify d
ckpt salvage d -o three.pt
rm d/.metadata
ckpt ls d
