"""Writes volume.json: values and gradients of PyTorch's conv3d and pooling of volumes, in f64, for the test of
tensor/ops/volume.hpp.

Run with torch installed:  python tests/golden/make_volume.py
"""

import json
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(35)
CASES = []


def plain(tensor):
    return {"shape": list(tensor.shape), "values": [float(f"{v:.9g}") for v in tensor.detach().flatten().tolist()]}


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64).mul(100).round().div(100)


def case(name, function, inputs, options):
    leaves = [x.clone().requires_grad_() for x in inputs]
    y = function(*leaves, **options)
    (y * torch.cos(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape)).sum().backward()
    options = {k: [v] * 3 if isinstance(v, int) and k in ("kernel_size", "stride", "padding", "dilation") else v
               for k, v in options.items()}
    CASES.append({"name": name, "options": options, "inputs": [plain(x) for x in inputs], "results": [plain(y)],
                  "gradients": [plain(x.grad) for x in leaves]})


def main():
    for options, groups in [({}, 1), ({"stride": 2, "padding": 1}, 1), ({"padding": [2, 0, 1], "dilation": [2, 1, 1]}, 2),
                            ({"stride": [2, 1, 3], "padding": [0, 1, 2]}, 4), ({"stride": [3, 2, 2]}, 1)]:
        x, w, b = normal(2, 4, 4, 3, 4), normal(4, 4 // groups, 2, 3, 2), normal(4)
        case("conv3d", F.conv3d, [x, w, b], {**options, "groups": groups})
    case("conv3d", F.conv3d, [normal(1, 2, 3, 2, 3), normal(3, 2, 1, 1, 1)], {"groups": 1})
    for options in [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1},
                    {"kernel_size": [2, 3, 1], "stride": [1, 2, 2], "padding": [1, 0, 0]},
                    {"kernel_size": [2, 3, 2], "stride": [2, 2, 3], "ceil_mode": True}]:
        case("max_pool3d", F.max_pool3d, [normal(2, 1, 5, 4, 5).mul(2).round()], options)  # with ties
        case("avg_pool3d", F.avg_pool3d, [normal(2, 1, 5, 4, 5)], options)
        case("avg_pool3d", F.avg_pool3d, [normal(2, 1, 5, 4, 5)], {**options, "count_include_pad": False})
    for out in [[1, 1, 1], [2, 3, 2], [5, 2, 4]]:
        case("adaptive_avg_pool3d", lambda x, out: F.adaptive_avg_pool3d(x, out), [normal(1, 2, 5, 4, 3)], {"out": out})
    text = json.dumps({"torch": torch.__version__.split("+")[0], "cases": CASES}, separators=(",", ":"))
    pathlib.Path(__file__).with_name("volume.json").write_text(text.replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main()
