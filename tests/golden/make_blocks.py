"""Writes blocks.json, and a part of it for the check of task 7.4: blocks of packed weights as the gguf package of the llama.cpp project packs and decodes them.

Run with numpy and gguf installed:  python tests/golden/make_blocks.py
`pack` has rows of 64 numbers and their bytes. `unpack` has random bytes and their numbers, for formats whose packing
is a search, too, in which programs may differ. Numbers are the hexadecimal bytes of f32, little endian.
"""

import json
import pathlib

import gguf
import numpy as np
from gguf.quants import dequantize, quantize

PACKED = ["Q8_0", "Q4_0", "Q4_1", "MXFP4"]
DECODED = ["Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K", "MXFP4", "NVFP4"]
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q4_K": [0, 2], "Q6_K": [208]}  # where a block has f16 numbers


def text(array):
    return np.ascontiguousarray(array).tobytes().hex()


def rows(random):
    """Rows of 64 numbers."""
    normal = random.standard_normal(64)
    outliers = random.standard_normal(64)
    outliers[[3, 40]] = [25, -70]
    some = random.standard_normal(64)
    some[::3] = 0
    yield "normal", normal
    yield "small weights", 0.02 * random.standard_normal(64)
    yield "outliers", outliers
    yield "positive", 3 + random.random(64)
    yield "negative", -0.5 - random.random(64)
    yield "constant", np.full(64, 0.7)
    yield "zeros", np.zeros(64)
    yield "some zeros", some
    yield "one number", np.eye(64)[7]
    yield "scale rounds to zero", 1e-30 * normal
    yield "scale is subnormal in f16", 1e-5 * normal
    yield "ties of Q8_0", np.concatenate([np.arange(-31.5, 31, 2), np.arange(-126.5, 128, 8)]) + np.eye(64)[0] * 158.5
    yield "ties of Q4_0", np.concatenate([np.arange(-8, 8) / 2, np.arange(-8, 8) / 2 + 0.25, np.arange(-16, 16) / 4])
    yield "ties of Q4_1", np.concatenate([np.arange(32) % 31 / 2, np.arange(-8, 24) % 31 / 2])
    yield "ties of MXFP4", np.concatenate([np.arange(32) / 4 - 3.75, np.arange(32) / 2 - 6])


def blocks(name, random):
    """Random blocks with finite scales."""
    kind = gguf.GGMLQuantizationType[name]
    bytes_of_block = gguf.GGML_QUANT_SIZES[kind][1]
    numbers_of_block = gguf.GGML_QUANT_SIZES[kind][0]
    out = random.integers(0, 256, (512 // numbers_of_block, bytes_of_block), dtype=np.uint8)
    for at in HALVES.get(name, []):
        scales = (random.standard_normal(len(out)) * 2.0 ** random.integers(-22, 4, len(out))).astype(np.float16)
        out[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    if name == "MXFP4":
        out[:, 0] = [0, 1, 2, 3, 100, 119, 120, 121, 122, 126, 127, 128, 129, 140, 200, 250]
    if name == "NVFP4":
        out[:, :4] = np.arange(4 * len(out)).reshape(-1, 4) * 4  # its highest bit is a sign that is not used
    return out


def literal(hexadecimal, width=100):
    """A string of C++ in lines."""
    return "\n".join(f'    "{hexadecimal[i:i + width]}"' for i in range(0, len(hexadecimal), width))


def write_check(result):
    """Some rows and blocks as a header of C++."""
    rows = ["normal", "outliers", "negative", "zeros", "some zeros", "scale rounds to zero", "ties of Q8_0", "ties of Q4_0"]
    out = ["// Blocks as the gguf package of the llama.cpp project packs and decodes them, written by",
           "// tests/golden/make_blocks.py. Bytes are in hexadecimal, numbers are those of f32, little endian.",
           "// clang-format off",
           "#pragma once", "", "namespace course {", "", "struct PackedRow {", "  const char *row, *numbers, *q8_0, *q4_0;", "};",
           "inline constexpr PackedRow kPackedRows[] = {"]
    for r in result["pack"]:
        if r["row"] in rows:
            parts = [r["numbers"], r["bytes"]["Q8_0"], r["bytes"]["Q4_0"]]
            out.append(f'  {{"{r["row"]}",\n' + ",\n".join(map(literal, parts)) + "},")
    out += ["};", "", "struct DecodedBlocks {", "  const char *format, *bytes, *numbers;", "};",
            "inline constexpr DecodedBlocks kDecodedBlocks[] = {"]
    for name, size, block, count in (("Q8_0", 34, 32, 4), ("Q4_0", 18, 32, 4), ("Q4_K", 144, 256, 1)):
        of = result["unpack"][name]
        parts = [of["bytes"][:2 * size * count], of["numbers"][:8 * block * count]]
        out.append(f'  {{"{name}",\n' + ",\n".join(map(literal, parts)) + "},")
    out += ["};", "", "}  // namespace course", "// clang-format on", ""]
    root = pathlib.Path(__file__).resolve().parents[2]
    (root / "modules/07_quantization/checks/golden_blocks.hpp").write_text("\n".join(out))


def main():
    random = np.random.default_rng(28)
    packing = []
    for name, values in rows(random):
        x = values.astype(np.float32)
        bytes_of = {f: text(quantize(x, gguf.GGMLQuantizationType[f])) for f in PACKED}
        packing.append({"row": name, "numbers": text(x), "bytes": bytes_of})
    decoding = {}
    for name in DECODED:
        packed = blocks(name, random)
        numbers = dequantize(packed, gguf.GGMLQuantizationType[name]).astype(np.float32)
        decoding[name] = {"bytes": text(packed), "numbers": text(numbers)}
    result = {"gguf": "0.19.0", "pack": packing, "unpack": decoding}
    pathlib.Path(__file__).with_name("blocks.json").write_text(json.dumps(result, indent=1) + "\n")
    write_check(result)


if __name__ == "__main__":
    main()
