"""Writes `testdata/gguf/kinds.gguf`: weights of every kind, and the numbers they stand for.

The blocks are random bytes under scales of all sizes, with zeros and the smallest and largest
numbers among them; a tensor `X.f32` holds what the `gguf` package makes of tensor `X`. The model's
tests read both and compare bit for bit.

    pip install gguf==0.19.0 numpy==2.4.6
    python tools/golden/gguf_kinds.py
"""

from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind

SEED = 2026
ROWS, COLUMNS = 3, 512
FILE = Path(__file__).resolve().parents[2] / "testdata" / "gguf" / "kinds.gguf"

# Where a block holds f16 numbers.
SCALES = {
    Kind.Q4_0: [0],
    Kind.Q4_1: [0, 2],
    Kind.Q5_0: [0],
    Kind.Q5_1: [0, 2],
    Kind.Q8_0: [0],
    Kind.IQ4_NL: [0],
    Kind.Q2_K: [80, 82],
    Kind.Q3_K: [108],
    Kind.Q4_K: [0, 2],
    Kind.Q5_K: [0, 2],
    Kind.Q6_K: [208],
}
# Zeros, the smallest number, the largest one below normal, the smallest normal, the largest.
ODD_SCALES = np.array([0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF], np.uint16)


def block_bytes(kind, random):
    """[ROWS, bytes of a row], u8."""
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (ROWS * COLUMNS // weights, size), np.uint8)
    for at in SCALES[kind]:
        scales = random.normal(0, 0.1, len(blocks)).astype(np.float16)
        odd = random.random(len(blocks)) < 0.3
        scales[odd] = random.choice(ODD_SCALES, odd.sum()).view(np.float16)
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(ROWS, -1)


def plain_bytes(kind, random):
    """As `block_bytes`, for kinds without blocks."""
    numbers = random.normal(0, 0.1, (ROWS, COLUMNS)).astype(np.float32)
    numbers[0, :7] = ODD_SCALES.view(np.float16)
    return np.ascontiguousarray(gguf.quants.quantize(numbers, kind)).view(np.uint8)


def main():
    random = np.random.default_rng(SEED)
    writer = gguf.GGUFWriter(None, "kinds")
    for kind in [Kind.F32, Kind.F16, Kind.BF16, *SCALES]:
        stored = (block_bytes if kind in SCALES else plain_bytes)(kind, random)
        numbers = gguf.quants.dequantize(stored, kind) if kind != Kind.F32 else stored.view(np.float32)
        assert numbers.shape == (ROWS, COLUMNS) and np.isfinite(numbers).all(), kind
        writer.add_tensor(kind.name, stored, raw_dtype=kind)
        writer.add_tensor(f"{kind.name}.f32", numbers.astype(np.float32))
    FILE.parent.mkdir(exist_ok=True)
    writer.write_header_to_file(FILE)
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
