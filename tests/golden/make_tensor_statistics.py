"""Writes tensor_statistics.json: values and gradients of PyTorch's median, quantile, cov, corrcoef, cdist and histc, in f64,
for the test of tensor/ops/statistics.hpp.

Run with torch installed:  python tests/golden/make_tensor_statistics.py
"""

import json
import math
import pathlib

import torch

torch.manual_seed(29)
CASES = []


def plain(tensor):
    return {"shape": list(tensor.shape), "values": [float(f"{v:.10g}") for v in tensor.detach().flatten().tolist()]}


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64).mul(1000).round().div(1000)


def case(name, function, inputs, options, differentiable=True):
    leaves = [x.clone().requires_grad_(differentiable) for x in inputs]
    y = function(*leaves)
    if differentiable:
        (y * torch.cos(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape)).sum().backward()
    CASES.append({"name": name, "options": options, "inputs": [plain(x) for x in inputs], "result": plain(y),
                  "gradients": [plain(x.grad) for x in leaves] if differentiable else []})


def main():
    for shape in [(7,), (3, 6), (2, 5, 3)]:
        for dim in range(-1, len(shape)):
            for keep in [False, True]:
                options = {"dim": dim, "keepdim": keep}
                case("median", lambda x: torch.median(x, dim, keep).values, [normal(*shape)], options)
                q = [0.0, 0.3, 0.5, 0.925, 1.0]
                case("quantile", lambda x: torch.quantile(x, torch.tensor(q, dtype=x.dtype), dim, keep), [normal(*shape)],
                     {**options, "q": q})
    for shape in [(8,), (3, 7), (4, 5)]:
        for correction in [0, 1]:
            case("cov", lambda x: torch.cov(x, correction=correction), [normal(*shape)], {"correction": correction})
    case("corrcoef", torch.corrcoef, [normal(3, 7)], {}, differentiable=False)
    for a, b in [((4, 3), (5, 3)), ((2, 3, 4), (2, 2, 4)), ((2, 1, 2, 3), (3, 5, 3))]:
        for p in [1.0, 2.0, math.inf]:
            mode = "donot_use_mm_for_euclid_dist"
            case("cdist", lambda x, y: torch.cdist(x, y, p, mode), [normal(*a), normal(*b)], {"p": min(p, 3)})
    for bins, low, high in [(5, 0.0, 0.0), (4, -1.0, 0.5), (1, 0.0, 1.0)]:
        case("histc", lambda x: torch.histc(x, bins, low, high), [normal(4, 9)], {"bins": bins, "low": low, "high": high},
             differentiable=False)
    text = json.dumps({"torch": torch.__version__.split("+")[0], "cases": CASES}, separators=(",", ":"))
    pathlib.Path(__file__).with_name("tensor_statistics.json").write_text(text.replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main()
