# An archive of torch that lacks the record that describes the others is damaged: another pickle in it is not taken for the
# checkpoint. Each of these has one record under another name.
# lose RECORD FILE OUT - copies FILE to OUT, with the first letter of the last part of RECORD's name replaced
lose()
{
    other=$(printf %s "$1" | sed 's|\(.*/\)\{0,1\}.\([^/]*\)$|\1X\2|')
    LC_ALL=C sed "s|$1|$other|g" "corpus/torch/$2" >"$3"
}
# try FILE - reads, converts, checks and salvages FILE
try()
{
    echo "# $1"
    ckpt ls "$1"; echo "exit $?"
    ckpt convert -q "$1" -o out.pt; echo "exit $?"
    ckpt verify "$1"
    ckpt doctor "$1"
    ckpt salvage "$1" -o "out.$1.pt"; echo "exit $?"
}
lose torchscript_trace/data.pkl t27/torchscript_trace.pt script.pt
lose torchscript_trace/constants.pkl t27/torchscript_trace.pt constants.pt
lose torchscript_trace/model.json t10/torchscript_trace.pt script10.pt
lose state_dict/data.pkl t27/state_dict.pt state_dict.pt
LC_ALL=C sed 's|exported_program/models/|exported_program/mXdels/|g' corpus/torch/t215/exported_program.pt2 >models.pt2
lose exported_program/archive_format t215/exported_program.pt2 format.pt2
LC_ALL=C sed 's|model_weights_config.json|model_weights_cXnfig.json|g' corpus/torch/t215/export_tied_const.pt2 >weights.pt2
lose serialized_state_dict.pt t26/exported_program.pt2 old.pt2
lose serialized_exported_program.json t26/exported_program.pt2 old_graph.pt2
for f in script.pt constants.pt script10.pt state_dict.pt models.pt2 format.pt2 weights.pt2 old.pt2 old_graph.pt2; do
    try $f
done
