# scan accepts what torch and related libraries wrote. The output lists the exceptions, each of which has its reason:
# whole modules, packages and objects name their classes (PKL001), as do tensors of classes that are not torch's own;
# sharded tensors and enumerations are looked up by getattr (PKL002, PKL003); TorchScript contains code (SRC001).
# The others are a save that failed, mobile models that are no pickles, and a set that mixes archives and safetensors.
for dir in corpus/torch/t[0-9]* corpus/torch/dist26 corpus/torch/misc2; do
    ckpt scan --json "$dir/" 2>/dev/null | awk -v dir="$dir" '
        /\/dcp_zstd\/__/ { next } # libarchive.sh has those
        { n++ }
        /"exit":0}$/ { fine++; next }
        {
            file = $0
            sub(/^.*"file":"/, "", file)
            sub(/".*/, "", file)
            ids = ""
            for (rest = $0; match(rest, /"code":"[A-Z0-9]*"/); rest = substr(rest, RSTART + RLENGTH)) {
                id = substr(rest, RSTART + 8, RLENGTH - 9)
                if (index(ids, id) == 0)
                    ids = ids " " id
            }
            exit_code = $0
            sub(/^.*"exit":/, "", exit_code)
            print file, exit_code + 0 ids
        }
        END { print dir ": " n " files, " fine " fine" }'
done
