#!/bin/sh
# bitsandbytes 0.50.2 on a CPU: dequantize_4bit gives wrong numbers, without an error, for a matrix whose width is a
# multiple of 16 and none of 64, the block size (in four rows: 32, 48, 80, 96, 112, 144, 160, 176). quantize_4bit counts
# its blocks over the flattened matrix, so that a block may end within a row. The codes and scales are right: the levels
# looked up by hand and multiplied by the scale of each block differ from the matrix by at most 0.32, as for a width of
# 64. What dequantize_4bit returns differs by 0.66 and more.
#
# Output seen (largest difference from the matrix: of the formula, of dequantize_4bit):
#   width 48 formula 0.311 library 1.510
#   width 64 formula 0.311 library 0.311
#   width 80 formula 0.311 library 0.663
#   width 96 formula 0.311 library 2.027
#   width 100 formula 0.311 library 0.311
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --only-binary :all: torch==2.15.0 numpy==2.4.6 bitsandbytes==0.50.2
"$folder/venv/bin/python" - >"$folder/got" 2>/dev/null <<'END'
import torch
from bitsandbytes.functional import dequantize_4bit, quantize_4bit

for width in 48, 64, 80, 96, 100:
    torch.manual_seed(0)
    matrix = torch.randn(4, width)
    packed, state = quantize_4bit(matrix, blocksize=64, quant_type="nf4")
    codes = torch.stack((packed.flatten() >> 4, packed.flatten() & 15), 1).flatten()[: matrix.numel()]
    scales = state.absmax.repeat_interleave(64)[: matrix.numel()]
    formula = (state.code[codes.long()] * scales).reshape(matrix.shape)
    library = dequantize_4bit(packed, state)
    errors = [(matrix - x).abs().max().item() for x in (formula, library)]
    print(f"width {width} formula {errors[0]:.3f} library {errors[1]:.3f}")
END
sed -n 's/^#   width/width/p' "$0" | diff - "$folder/got"
echo 'as seen'
