# The differences that parts find are those that one process finds, in any number of parts and in any order.
# run OPTION… - what is compared
run() { ckpt diff data/train.pt corpus/torch/t26/general_checkpoint.tar "$@"; }
. "$TESTS/share_parts.sh"
