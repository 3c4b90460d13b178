"""Writes tests/golden/gguf/: GGUF files made by the Python package `gguf`, and what they contain.

Run:    python tests/golden/make_gguf.py                   (needs gguf, numpy, torch and safetensors)
Check:  python tests/golden/make_gguf.py --check FOLDER    (also transformers and accelerate)
        FOLDER holds files that tests/io/gguf.cpp and tests/transformer/gguf.cpp wrote (TINYTORCH_SAVED_GGUF=FOLDER).
        `gguf` must read each of them, and `transformers` must load the models and give the expected logits.
        --llama-cpp LIBRARY    also compares the sizes of all types and the logits of the models with those of llama.cpp;
        LIBRARY is a shared library with its C interface.

all.gguf has every type of metadata and of tensor, and types.json lists its tensors and the sizes of all types. The models
are those of tests/golden/transformers, with the names, permutations and metadata of llama.cpp's convert_hf_to_gguf.py.
"""

import argparse
import ctypes
import json
import math
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import load_file

GOLDEN = pathlib.Path(__file__).parent
FOLDER = GOLDEN / "gguf"
MODELS = {"gpt2_untied_odd": Type.F16, "llama_heads": Type.BF16, "llama_grouped": Type.F32, "llama_scaled": Type.F32}
# ggml changed the two scales of Q8_1 from 32 to 16 bits; the package still has the old size. No file contains this type.
SIZES = {**gguf.GGML_QUANT_SIZES, Type.Q8_1: (32, 2 + 2 + 32)}


def ramp(shape, dtype):
    values = (np.arange(int(np.prod(shape, dtype=int))) * 7) % 23 - 5
    return values.reshape(shape).astype(dtype)


def write_metadata(writer):
    writer.add_uint8("value.u8", 200)
    writer.add_int8("value.i8", -100)
    writer.add_uint16("value.u16", 60000)
    writer.add_int16("value.i16", -30000)
    writer.add_uint32("value.u32", 4000000000)
    writer.add_int32("value.i32", -2000000000)
    writer.add_float32("value.f32", 0.1)
    writer.add_bool("value.bool", True)
    writer.add_string("value.string", "caf\u00e9 \"x\"\n")
    writer.add_uint64("value.u64", 2**64 - 1)
    writer.add_int64("value.i64", -2**63)
    writer.add_float64("value.f64", 0.1)
    writer.add_array("array.i32", [1, -2, 3, 4])
    writer.add_array("array.f32", [0.5, -1.5])
    writer.add_array("array.bool", [True, False])
    writer.add_array("array.string", ["a", "bc", "\u00e9"])


def write_all():
    writer = gguf.GGUFWriter(FOLDER / "all.gguf", "example")
    write_metadata(writer)
    for dtype in ("f4", "f2", "f8", "i1", "i2", "i4", "i8"):
        writer.add_tensor("plain." + dtype, ramp((2, 3, 5), dtype))
    bf16 = (ramp((2, 3, 5), "f4").view("u4") >> 16).astype("u2").view("u1")
    writer.add_tensor("plain.bf16", bf16, raw_dtype=Type.BF16)
    generator = np.random.default_rng(1)
    for kind, (block, size) in SIZES.items():
        if block > 1 and kind != Type.Q8_1:  # two rows of one block of any bytes, which is all that a container knows
            writer.add_tensor("blocks." + kind.name, generator.integers(0, 256, (2, size), "u1"), raw_dtype=kind)
    finish(writer)
    reader = gguf.GGUFReader(FOLDER / "all.gguf")
    tensors = [{"name": t.name, "type": t.tensor_type.name, "shape": t.shape.tolist()[::-1], "bytes": int(t.n_bytes),
                "offset": int(t.data_offset)} for t in reader.tensors]
    sizes = [{"id": int(kind), "name": kind.name, "block": block, "bytes": size} for kind, (block, size) in SIZES.items()]
    lines = ",\n  ".join(json.dumps(item) for item in sizes), ",\n  ".join(json.dumps(item) for item in tensors)
    (FOLDER / "types.json").write_text('{"types": [\n  %s\n], "tensors": [\n  %s\n]}\n' % lines)


def write_aligned():
    """Another alignment, no metadata but it, a scalar, an empty tensor, and a last tensor that needs padding."""
    writer = gguf.GGUFWriter(FOLDER / "aligned.gguf", "example")
    writer.add_custom_alignment(128)
    writer.add_tensor("scalar", np.float32(2.5).reshape(()))
    writer.add_tensor("empty", np.zeros((3, 0, 2), "f4"))
    writer.add_tensor("vector", ramp((7,), "i4"))
    finish(writer)
    writer = gguf.GGUFWriter(FOLDER / "big_endian.gguf", "example", endianess=gguf.GGUFEndian.BIG)
    writer.add_tensor("x", ramp((3,), "f4"))
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# --- models, as convert_hf_to_gguf.py writes them ---

def permute(weights, heads):
    """The rows of a head, from pairs of halves to pairs of neighbours. This is llama.cpp's formula."""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def rope_factors(config, head_size):
    options = config["rope_parameters"]
    freqs = 1.0 / options["rope_theta"] ** (np.arange(0, head_size, 2) / head_size)
    low, high, old = options["low_freq_factor"], options["high_freq_factor"], options["original_max_position_embeddings"]
    out = []
    for freq in freqs:
        wavelength = 2 * math.pi / freq
        if wavelength < old / high:
            out.append(1)
        elif wavelength > old / low:
            out.append(options["factor"])
        else:
            smooth = (old / wavelength - low) / (high - low)
            out.append(1 / ((1 - smooth) / options["factor"] + smooth))
    return np.array(out, "f4")


def load_weights(folder):
    """All tensors as f32, which holds their values exactly."""
    import torch
    from safetensors.torch import load_file as load_torch
    tensors = {}
    for path in sorted(folder.glob("model*.safetensors")):
        tensors |= {name: t.to(torch.float32).numpy() for name, t in load_torch(path).items()}
    return tensors


def add_weight(writer, name, values, kind):
    if values.ndim == 1 or name == "position_embd.weight":
        kind = Type.F32
    writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(values), kind), raw_dtype=kind)


def write_model(name, kind):
    folder = GOLDEN / "transformers" / name
    config = json.loads((folder / "config.json").read_text())
    is_llama = config["model_type"] == "llama"
    layers = config["num_hidden_layers"] if is_llama else config["n_layer"]
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA if is_llama else gguf.MODEL_ARCH.GPT2, layers)
    writer = gguf.GGUFWriter(FOLDER / f"{name}.gguf", "llama" if is_llama else "gpt2")
    writer.add_file_type({Type.F32: 0, Type.F16: 1, Type.BF16: 32}[kind])
    writer.add_block_count(layers)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    if is_llama:
        heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
        head_size = config.get("head_dim") or config["hidden_size"] // heads
        rope = config.get("rope_parameters") or config
        writer.add_context_length(config["max_position_embeddings"])
        writer.add_embedding_length(config["hidden_size"])
        writer.add_feed_forward_length(config["intermediate_size"])
        writer.add_head_count(heads)
        writer.add_head_count_kv(groups)
        writer.add_rope_freq_base(rope["rope_theta"])
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
        writer.add_key_length(head_size)
        writer.add_value_length(head_size)
        writer.add_rope_dimension_count(head_size)
        if rope.get("rope_type") == "llama3":
            add_weight(writer, "rope_freqs.weight", rope_factors(config, head_size), Type.F32)
    else:
        writer.add_context_length(config["n_positions"])
        writer.add_embedding_length(config["n_embd"])
        writer.add_feed_forward_length(config["n_inner"] or 4 * config["n_embd"])
        writer.add_head_count(config["n_head"])
        writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    ends = config["eos_token_id"] if isinstance(config["eos_token_id"], list) else [config["eos_token_id"]]
    for add, token in zip((writer.add_bos_token_id, writer.add_eos_token_id, writer.add_eot_token_id),
                          [config["bos_token_id"], *ends]):
        if token is not None:
            add(token)
    for key, values in load_weights(folder).items():
        if key.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
            values = values.T
        if key.endswith(("q_proj.weight", "q_proj.bias")):
            values = permute(values, heads)
        if key.endswith(("k_proj.weight", "k_proj.bias")):
            values = permute(values, groups)
        add_weight(writer, names.get_name(key, try_suffixes=(".weight", ".bias")), values, kind)
    finish(writer)


# --- checks ---

def check_containers(folder):
    for path in sorted(folder.glob("*.gguf")):
        reader = gguf.GGUFReader(path)
        print(f"{path.name:24} {len(reader.fields)} fields, {len(reader.tensors)} tensors")
        original = FOLDER / path.name
        if path.stem in MODELS:  # the same values under the same names as llama.cpp's converter wrote
            ours = {t.name: (t.tensor_type, t.data.tobytes()) for t in reader.tensors}
            theirs = {t.name: (t.tensor_type, t.data.tobytes()) for t in gguf.GGUFReader(original).tensors}
            assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
            for name, (kind, values) in theirs.items():
                if name != "rope_freqs.weight":
                    assert ours[name] == (kind, values), name
                else:
                    assert np.allclose(np.frombuffer(ours[name][1], "f4"), np.frombuffer(values, "f4"), rtol=1e-6, atol=0)


def cases(folder):
    for path in sorted(folder.glob("*.gguf")):
        expected = GOLDEN / "transformers" / path.stem / "expected.safetensors"
        if expected.exists():
            yield path, load_file(expected)


def check_transformers(folder):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    for path, expected in cases(folder):
        if path.stem == "llama_scaled":
            continue  # transformers does not read rope_freqs.weight
        config = AutoConfig.from_pretrained(GOLDEN / "transformers" / path.stem)  # not all of it can be in the file
        model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=path.name, config=config, dtype=torch.float64).eval()
        logits = model(torch.from_numpy(expected["tokens"])).logits.detach().numpy()
        print(f"{path.name:24} max |difference of logits| to transformers {np.abs(logits - expected['logits']).max():.2e}")
        assert np.abs(logits - expected["logits"]).max() < 1e-4


class LlamaCpp:
    """The C interface of llama.cpp. Its parameter structs are larger than they look in any version: a large enough buffer is
    passed by value, and only its beginning is read."""

    class Params(ctypes.Structure):
        _fields_ = [("words", ctypes.c_uint32 * 256)]

    class Batch(ctypes.Structure):
        _fields_ = [("n_tokens", ctypes.c_int32)] + [(name, ctypes.c_void_p) for name in ("token", "embd", "pos", "n_seq_id", "seq_id", "logits")]

    def __init__(self, path):
        self.lib = lib = ctypes.PyDLL(path)
        for name, result, arguments in [
                ("llama_model_default_params", self.Params, []), ("llama_context_default_params", self.Params, []),
                ("llama_model_load_from_file", ctypes.c_void_p, [ctypes.c_char_p, self.Params]),
                ("llama_init_from_model", ctypes.c_void_p, [ctypes.c_void_p, self.Params]),
                ("llama_batch_get_one", self.Batch, [ctypes.c_void_p, ctypes.c_int32]),
                ("llama_decode", ctypes.c_int32, [ctypes.c_void_p, self.Batch]),
                ("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float), [ctypes.c_void_p, ctypes.c_int32]),
                ("ggml_blck_size", ctypes.c_int64, [ctypes.c_int]), ("ggml_type_size", ctypes.c_size_t, [ctypes.c_int])]:
            getattr(lib, name).restype, getattr(lib, name).argtypes = result, arguments

    def logits(self, path, tokens, vocabulary):
        """One token after the other, because each call gives the logits of its last token."""
        model = self.lib.llama_model_load_from_file(str(path).encode(), self.lib.llama_model_default_params())
        params = self.lib.llama_context_default_params()
        params.words[0] = 256  # n_ctx
        context = self.lib.llama_init_from_model(model, params)
        out = []
        for token in tokens:
            one = (ctypes.c_int32 * 1)(int(token))
            assert self.lib.llama_decode(context, self.lib.llama_batch_get_one(one, 1)) == 0
            out.append([self.lib.llama_get_logits_ith(context, -1)[i] for i in range(vocabulary)])
        return np.array(out)


def check_llama_cpp(folder, library):
    llama = LlamaCpp(library)
    for kind, sizes in SIZES.items():
        assert (llama.lib.ggml_blck_size(kind), llama.lib.ggml_type_size(kind)) == sizes, kind
    for path, expected in cases(folder):
        logits = llama.logits(path, expected["tokens"][0], expected["logits"].shape[-1])
        worst = np.abs(logits - expected["logits"][0]).max() / np.abs(expected["logits"][0]).max()
        print(f"{path.name:24} relative difference of logits to llama.cpp {worst:.2e}")
        assert worst < 1e-2  # its cache of keys and values is f16


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=pathlib.Path, metavar="FOLDER", help="check saved files instead of writing files")
    parser.add_argument("--llama-cpp", metavar="LIBRARY")
    arguments = parser.parse_args()
    if arguments.check:
        check_containers(arguments.check)
        check_transformers(arguments.check)
        return check_llama_cpp(arguments.check, arguments.llama_cpp) if arguments.llama_cpp else None
    FOLDER.mkdir(exist_ok=True)
    write_all()
    write_aligned()
    for name, kind in MODELS.items():
        write_model(name, kind)


if __name__ == "__main__":
    main()
