"""Writes layer_ops.json: values and gradients of PyTorch's functions behind layers, in f64, for the tests of conv_transpose.hpp,
interpolate.hpp, windows.hpp, conv.hpp, pool.hpp and multihead_attention.hpp.

Run with torch installed:  python tests/golden/make_layer_ops.py
"""

import json
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(32)
CASES = []


def plain(tensor):
    # Ten digits: the tolerance of the tests in f64 is 1e-8.
    return {"shape": list(tensor.shape), "values": [float(f"{v:.10g}") for v in tensor.detach().flatten().tolist()]}


def normal(*shape):
    # Three digits, which f32 and JSON hold, and which bf16 rounds.
    return torch.randn(*shape, dtype=torch.float64).mul(1000).round().div(1000)


def case(name, function, inputs, options=None, call=None):
    """One case. `options` is what the test reads, and the keywords of the function unless `call` has others."""
    options = options or {}
    leaves = [x.clone().requires_grad_() for x in inputs]
    results = function(*leaves, **(options if call is None else call))
    results = list(results) if isinstance(results, tuple) else [results]
    sum((r * torch.cos(torch.arange(r.numel(), dtype=torch.float64)).reshape(r.shape)).sum() for r in results).backward()
    CASES.append({"name": name, "options": options, "inputs": [plain(x) for x in inputs], "results": [plain(r) for r in results],
                  "gradients": [plain(x.grad) for x in leaves]})


def convolutions():
    case("conv1d", F.conv1d, [normal(2, 3, 7), normal(4, 3, 3), normal(4)])
    case("conv1d", F.conv1d, [normal(2, 4, 9), normal(6, 2, 3), normal(6)], {"stride": 2, "padding": 3, "dilation": 2, "groups": 2})
    case("conv1d", F.conv1d, [normal(1, 2, 5), normal(3, 2, 5)], {"padding": 4, "stride": 3})
    for name, x, w in [("conv_transpose1d", (2, 4, 5), (4, 3, 3)), ("conv_transpose2d", (2, 4, 3, 4), (4, 3, 3, 2))]:
        function = getattr(F, name)
        case(name, function, [normal(*x), normal(*w), normal(3)])
        case(name, function, [normal(*x), normal(*w)], {"stride": 2, "padding": 1, "output_padding": 1})
        case(name, function, [normal(*x), normal(*w), normal(6)], {"stride": 3, "padding": 2, "dilation": 2, "groups": 2})
        case(name, function, [normal(*x), normal(4, 1, *w[2:]), normal(4)], {"stride": 2, "groups": 4})


def interpolations():
    for mode, x, size in [("nearest", (2, 3, 5), [8]), ("nearest", (1, 2, 5, 4), [3, 9]), ("linear", (2, 3, 5), [8]),
                          ("bilinear", (1, 2, 5, 4), [3, 9]), ("bilinear", (1, 2, 1, 4), [3, 1])]:
        for corners in [False, True] if mode != "nearest" else [False]:
            options = {"size": size, "mode": mode, "align_corners": corners}
            call = {"size": size, "mode": mode, "align_corners": corners if mode != "nearest" else None}
            case("interpolate", F.interpolate, [normal(*x)], options, call)
            for factor in [2.0, 0.7, 1.3]:
                if min(x[2:]) * factor < 1:
                    continue
                call = {**call, "size": None, "scale_factor": factor}
                case("interpolate", F.interpolate, [normal(*x)], {**options, "size": [], "scale_factor": factor}, call)


def windows():
    for ceil in [False, True]:
        for kernel, stride, padding in [(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 1), (4, 3, 2), (5, 7, 0)]:
            options = {"kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil}
            for length in [7, 8]:
                case("max_pool1d", F.max_pool1d, [normal(2, 2, length)], options)
                case("avg_pool1d", F.avg_pool1d, [normal(2, 2, length)], options)
    for size in [(1, 1), (3, 2), (5, 4), (7, 9)]:
        case("adaptive_max_pool2d", lambda x, size: F.adaptive_max_pool2d(x, size), [normal(2, 2, 5, 4)], {"size": size})
    equal = torch.tensor([1.0, 1, 0, 0, 2, 2, 1, 2, 2], dtype=torch.float64).reshape(1, 1, 3, 3)  # equal maxima
    case("adaptive_max_pool2d", lambda x, size: F.adaptive_max_pool2d(x, size), [equal], {"size": (2, 2)})
    case("max_pool1d", F.max_pool1d, [equal.reshape(1, 1, 9)], {"kernel_size": 3, "stride": 2, "padding": 0, "ceil_mode": False})


def rectangles():
    for options in [{"stride": [2, 1]}, {"padding": [0, 2], "stride": [1, 3]}, {"dilation": [2, 1], "padding": [1, 0]},
                    {"stride": [4, 2], "padding": [2, 1], "dilation": [1, 3], "groups": 2}]:
        groups = options.get("groups", 1)
        case("conv2d", F.conv2d, [normal(2, 4, 9, 8), normal(6, 4 // groups, 3, 2), normal(6)], options)
    case("conv2d", F.conv2d, [normal(1, 2, 5, 6), normal(3, 2, 1, 3)], {"dilation": [5, 2]})
    for options in [{"kernel_size": [3, 2]}, {"kernel_size": [2, 3], "stride": [1, 2], "padding": [0, 1]},
                    {"kernel_size": [3, 3], "stride": [2, 2], "ceil_mode": True},
                    {"kernel_size": [3, 4], "stride": [2, 3], "padding": [1, 2], "ceil_mode": True}]:
        case("max_pool2d", F.max_pool2d, [normal(2, 2, 6, 7)], options)
        case("avg_pool2d", F.avg_pool2d, [normal(2, 2, 6, 7)], options)
    equal = torch.tensor([1.0, 1, 0, 0, 2, 2, 1, 2, 2], dtype=torch.float64).reshape(1, 1, 3, 3)
    case("max_pool2d", F.max_pool2d, [equal], {"kernel_size": [2, 3], "stride": [1, 1]})


def attention():
    def run(query, key, value, *weights, heads, batch_first, masks):
        layer = torch.nn.MultiheadAttention(6, heads, bias=len(weights) == 4, batch_first=batch_first, dtype=torch.float64)
        names = ["in_proj_weight", "out_proj.weight", "in_proj_bias", "out_proj.bias"][: len(weights)]
        given = {k: torch.tensor(v, dtype=torch.float64 if isinstance(sum(v, [])[0], float) else torch.bool) for k, v in masks.items()}
        y, w = torch.func.functional_call(layer, dict(zip(names, weights)), (query, key, value), given)
        return y, w

    causal = [[c > r + 1 for c in range(4)] for r in range(3)]
    added = [[0.5 * r - 0.25 * c for c in range(4)] for r in range(3)]
    padding = [[False, False, True, False], [True, False, False, False]]
    for batch_first in [False, True]:
        for masks in [{}, {"attn_mask": causal}, {"attn_mask": added}, {"key_padding_mask": padding},
                      {"key_padding_mask": padding, "attn_mask": causal}]:
            x, y = ((2, 3, 6), (2, 4, 6)) if batch_first else ((3, 2, 6), (4, 2, 6))
            weights = [normal(18, 6) / 2, normal(6, 6), normal(18), normal(6)]
            bias = 2 if masks and batch_first else 4
            case("multihead_attention", run, [normal(*x), normal(*y), normal(*y), *weights[:bias]],
                 {"heads": 3, "batch_first": batch_first, "masks": masks})


def means_without_padding():
    for ceil in [False, True]:
        for kernel, stride, padding in [(3, 2, 1), (4, 3, 2)]:
            options = {"kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil, "count_include_pad": False}
            case("avg_pool1d", F.avg_pool1d, [normal(2, 2, 7)], options)
    for options in [{"kernel_size": [3, 3], "padding": [1, 1]}, {"kernel_size": [2, 2], "stride": [1, 1]},
                    {"kernel_size": [3, 4], "stride": [2, 3], "padding": [1, 2], "ceil_mode": True}]:
        case("avg_pool2d", F.avg_pool2d, [normal(2, 2, 6, 7)], {**options, "count_include_pad": False})


def main():
    for write in [convolutions, interpolations, windows, attention, rectangles, means_without_padding]:
        write()
    text = json.dumps({"torch": torch.__version__.split("+")[0], "cases": CASES}, separators=(",", ":"))
    pathlib.Path(__file__).with_name("layer_ops.json").write_text(text.replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main()
