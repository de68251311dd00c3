# stat reads a view of 4 GB in a file of 456 bytes if --max-expanded allows it, and gathers the repeated block only once.
[ -z "${EMULATED:-}" ] || { echo 'an emulator takes minutes for a billion numbers'; exit 77; }
. "$TESTS/view_4gb.sh"
ckpt stat --tsv --max-expanded 4GB big.pt | cut -f 1-5
