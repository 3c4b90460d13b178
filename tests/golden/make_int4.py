"""Writes int4.json: weights of 4 bits as auto_gptq and AutoAWQ lay them out, and the numbers that they stand for.

Run with numpy installed:  python tests/golden/make_int4.py
The packing follows auto_gptq/nn_modules/qlinear (pack) and awq/modules/linear/gemm.py (from_linear, pack_intweight), written
with numpy. Words are signed integers; scales are the bits of f16; numbers are the hexadecimal bytes of f32, little endian.
"""

import json
import pathlib

import numpy as np

N, K = 8, 128
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def text(array):
    return np.ascontiguousarray(array, dtype="<f4").tobytes().hex()


def gptq_words(codes):
    """[K, N] -> i32 [K / 8, N]: code 8 r + i in bits 4 i of row r."""
    words = np.zeros((codes.shape[0] // 8, codes.shape[1]), np.uint32)
    for row in range(words.shape[0]):
        for i in range(8):
            words[row] |= codes[8 * row + i].astype(np.uint32) << (4 * i)
    return words.astype(np.int32)


def gptq_zero_words(zeros, offset):
    """[groups, N] -> i32 [groups, N / 8], where z - offset is stored."""
    zeros = (zeros - offset).astype(np.uint32)
    words = np.zeros((zeros.shape[0], zeros.shape[1] // 8), np.uint32)
    for column in range(words.shape[1]):
        for i in range(8):
            words[:, column] |= zeros[:, 8 * column + i] << (4 * i)
    return words.astype(np.int32)


def awq_words(codes):
    """[rows, N] -> i32 [rows, N / 8]: code AWQ_ORDER[i] of eight in bits 4 i."""
    words = np.zeros((codes.shape[0], codes.shape[1] // 8), np.uint32)
    for column in range(words.shape[1]):
        for i in range(8):
            words[:, column] |= codes[:, 8 * column + AWQ_ORDER[i]].astype(np.uint32) << (4 * i)
    return words.astype(np.int32)


def case(random, name, layout, group, symmetric, act_order=False):
    groups = K // group
    codes = random.integers(0, 16, (K, N))
    scales = (0.01 + 0.05 * random.random((groups, N))).astype(np.float16)
    zeros = np.full((groups, N), 8) if symmetric else random.integers(1, 16, (groups, N))
    of_input = np.arange(K) // group
    if act_order:
        random.shuffle(of_input)
    numbers = scales[of_input].astype(np.float32) * (codes - zeros[of_input]).astype(np.float32)  # [K, N], exact
    if layout == "awq":
        config = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True}
        qweight, qzeros = awq_words(codes), awq_words(zeros)
    else:
        config = {"quant_method": "gptq", "bits": 4, "group_size": group, "desc_act": act_order, "sym": symmetric,
                  "checkpoint_format": layout}
        qweight, qzeros = gptq_words(codes), gptq_zero_words(zeros, 1 if layout == "gptq" else 0)
    out = {"name": name, "config": config, "N": N, "K": K, "qweight": qweight.flatten().tolist(),
           "qzeros": qzeros.flatten().tolist(), "scales": scales.view(np.uint16).flatten().tolist(), "numbers": text(numbers.T)}
    if layout != "awq":
        out["g_idx"] = of_input.tolist()
    return out


def main():
    random = np.random.default_rng(28)
    cases = [case(random, "symmetric", "gptq", 64, True), case(random, "act-order", "gptq", 32, True, act_order=True),
             case(random, "zero points", "gptq", 128, False), case(random, "version 2", "gptq_v2", 32, False, act_order=True),
             case(random, "awq", "awq", 64, False), case(random, "awq with zero points of 8", "awq", 32, True)]
    target = pathlib.Path(__file__).parent / "int4.json"
    target.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
