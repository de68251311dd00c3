# 456 bytes that show 4 GB are read where the limit allows it, and one block of a view that repeats is gathered once.
[ -z "${EMULATED:-}" ] || { echo 'an emulator takes minutes for a billion numbers'; exit 77; }
. "$TESTS/view_4gb.sh"
ckpt stat --tsv --max-expanded 4GB big.pt | cut -f 1-5
