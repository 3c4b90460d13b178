"""Writes tests/golden/io/: small files made by other tools, which tests/io/*.cpp read.

Run with numpy, ml_dtypes and safetensors installed:  python tests/golden/make_io.py
The values follow from formulas that the tests repeat, so no expected values are stored. Element k of `ramp` is
(k * 7) % 23 - 5.
"""

import gzip
import json
import pathlib
import struct

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

FOLDER = pathlib.Path(__file__).parent / "io"
DTYPES = {"f32": "f4", "f64": "f8", "f16": "f2", "i8": "i1", "u8": "u1", "i32": "i4", "i64": "i8", "bool": "?"}
# Types that files have and tensors do not, each with its extreme values.
STORED = {"i16": "i2", "u16": "u2", "u32": "u4", "u64": "u8"}
STORED_F8 = {"f8_e4m3": ml_dtypes.float8_e4m3fn, "f8_e5m2": ml_dtypes.float8_e5m2}


def ramp(shape, dtype):
    n = int(np.prod(shape, dtype=int))
    values = (np.arange(n) * 7) % 23 - 5
    if dtype == "u1":
        values = values + 5
    if dtype == "?":
        values = values % 2
    return values.reshape(shape).astype(dtype)


def to_bf16(values):
    """Keeps the upper half of each float, which is exact for the integers of the ramp."""
    return (values.astype("<f4").view("<u4") >> 16).astype("<u2")


def extremes(dtype):
    """Smallest, largest and middle values; the largest u64 that an i64 holds in place of the largest one."""
    limits = np.iinfo(dtype)
    high = min(limits.max, 2**63 - 1)
    return np.array([limits.min, high, 0, 1, high // 2 + 1, high - 1, 200], dtype)


def all_codes(dtype):
    return np.arange(256, dtype="u1").view(dtype)


def write_stored_types():
    """Each type as npy in both byte orders and column-major, in an npz, and in safetensors. The values of the
    8-bit floats are beside them as f32."""
    arrays = {name: extremes(dtype) for name, dtype in STORED.items()}
    for name, dtype in STORED.items():
        np.save(FOLDER / f"{name}.npy", arrays[name])
        np.save(FOLDER / f"big_endian_{name}.npy", arrays[name].astype(f">{dtype}"))
        np.save(FOLDER / f"fortran_{name}.npy", np.asfortranarray(np.abs(ramp((2, 3, 5), "i4")).astype(dtype)))
        np.save(FOLDER / f"rank0_{name}.npy", np.array(200, dtype))
        np.save(FOLDER / f"empty_{name}.npy", np.zeros((3, 0, 2), dtype))
    np.savez(FOLDER / "stored_types.npz", **arrays)
    np.save(FOLDER / "too_large_u64.npy", np.array([1, 2**63], "u8"))
    codes = {name: all_codes(dtype) for name, dtype in STORED_F8.items()}
    for name, values in codes.items():
        np.save(FOLDER / f"{name}.npy", values)
        np.save(FOLDER / f"{name}_as_f32.npy", values.astype("f4"))
    # What each type makes of numbers, ties and subnormal ones among them; too large ones are refused by us.
    numbers = np.concatenate([np.linspace(-460, 460, 301), np.ldexp(np.linspace(-3, 3, 301), -9)]).astype("f4")
    rounded = {name: numbers.astype(dtype) for name, dtype in STORED_F8.items()}
    np.save(FOLDER / "f8_numbers.npy", numbers)
    tensors = arrays | codes | {f"rounded.{name}": values for name, values in rounded.items()}
    tensors |= {"rank0": np.array(200, "u2"), "empty": np.zeros((3, 0, 2), "u4"), "plain": ramp((3,), "f4")}
    save_file(tensors, FOLDER / "stored_types.safetensors")


def write_npy():
    for name, dtype in DTYPES.items():
        np.save(FOLDER / f"{name}.npy", ramp((2, 3, 5), dtype))
    np.save(FOLDER / "bf16.npy", to_bf16(ramp((2, 3, 5), "f4")).view("V2"))
    np.save(FOLDER / "big_endian.npy", ramp((2, 3, 5), ">f4"))
    np.save(FOLDER / "big_endian_i64.npy", ramp((2, 3, 5), ">i8"))
    np.save(FOLDER / "fortran.npy", np.asfortranarray(ramp((2, 3, 5), "f8")))
    np.save(FOLDER / "fortran_big_endian.npy", np.asfortranarray(ramp((2, 3, 5), ">i4")))
    np.save(FOLDER / "rank0.npy", np.float32(2.5))
    np.save(FOLDER / "empty.npy", np.zeros((3, 0, 2), "f4"))
    np.save(FOLDER / "vector.npy", ramp((7,), "i4"))
    np.save(FOLDER / "complex.npy", np.zeros(2, "c8"))
    np.save(FOLDER / "records.npy", np.zeros(2, [("a", "f4"), ("b", "i4")]))
    for version in ((2, 0), (3, 0)):
        with open(FOLDER / f"version{version[0]}.npy", "wb") as f:
            np.lib.format.write_array(f, ramp((2, 3, 5), "f4"), version=version)


def write_npz():
    arrays = {"weight": ramp((3, 4), "f4"), "bias": ramp((4,), "f8"), "step": np.int64(12)}
    np.savez(FOLDER / "stored.npz", **arrays)
    np.savez_compressed(FOLDER / "deflated.npz", **arrays)
    np.savez(FOLDER / "none.npz")


def write_safetensors():
    tensors = {name: ramp((2, 3, 5), dtype) for name, dtype in DTYPES.items()}
    tensors |= {"rank0": np.array(2.5, "f4"), "empty": np.zeros((3, 0, 2), "f4"), 'a "b" \\ c': ramp((3,), "f4")}
    save_file(tensors, FOLDER / "all.safetensors", metadata={"format": "np"})
    save_file({}, FOLDER / "none.safetensors")
    save_file({"x": ramp((3,), "c8")}, FOLDER / "complex.safetensors")
    # NumPy has no bfloat16, so this writes the file layout by hand.
    values = to_bf16(ramp((2, 3), "f4")).tobytes()
    header = json.dumps({"x": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, len(values)]}}).encode()
    (FOLDER / "bf16.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + values)


def write_idx():
    codes = {"u1": 8, "i1": 9, ">i2": 11, ">i4": 12, ">f4": 13, ">f8": 14}
    for dtype, code in codes.items():
        head = bytes([0, 0, code, 3]) + struct.pack(">III", 2, 3, 5)
        (FOLDER / f"type{code:02x}.idx").write_bytes(head + ramp((2, 3, 5), dtype).tobytes())
    plain = (FOLDER / "type08.idx").read_bytes()
    (FOLDER / "type08.idx.gz").write_bytes(gzip.compress(plain, mtime=0))


def write_gzip():
    text = b"".join(b"line %d\n" % i for i in range(200))
    (FOLDER / "lines.gz").write_bytes(gzip.compress(text, mtime=0))
    (FOLDER / "members.gz").write_bytes(gzip.compress(text[:700], mtime=0) + gzip.compress(text[700:], mtime=0))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    write_npy()
    write_npz()
    write_safetensors()
    write_stored_types()
    write_idx()
    write_gzip()
