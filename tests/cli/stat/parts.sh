# The statistics of parts, read in any order, are those of one process, in any number of parts.
# run OPTION… - what is compared
run() { ckpt stat data/train.pt "$@"; }
. "$TESTS/share_parts.sh"
