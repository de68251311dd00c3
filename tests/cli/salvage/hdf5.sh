# One byte of an HDF5 file is changed: the tensor that has it is lost and named, the other twelve are kept, exit 1.
original=corpus/keras/hdf5/filters_latest.h5

# salvage_changed WHAT OFFSET
salvage_changed()
{
    echo "# $1"
    cat "$original" >changed.h5
    printf X | dd of=changed.h5 bs=1 seek="$2" conv=notrunc 2>/dev/null
    ckpt salvage -f changed.h5 -o kept.safetensors; echo "exit $?"
    ckpt diff "$original" kept.safetensors
}
salvage_changed 'the header of a data set' 300
salvage_changed 'the list of its chunks' 1067
salvage_changed 'a compressed chunk' 2200
salvage_changed 'a chunk with a checksum' 3300

echo '# the command that doctor prints'
ckpt doctor changed.h5; echo "exit $?"
ckpt doctor changed.h5 | sed -n 's/^ *fix: //p' >fix
sh ./fix; echo "exit $?"
ckpt diff "$original" fixed.pt
