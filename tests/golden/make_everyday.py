"""Writes everyday.json: values and gradients of PyTorch's functions of tensor/ops/composed_math.hpp and composed_shape.hpp, in
f64, and its unique along a dimension.

Run with torch installed:  python tests/golden/make_everyday.py
"""

import json
import math
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(34)
CASES = []


def plain(tensor):
    return {"shape": list(tensor.shape), "values": [float(f"{v:.10g}") for v in tensor.detach().flatten().tolist()]}


def normal(*shape):
    """Numbers with gaps of 0.001 that are no multiples of 0.5, where functions with steps have no derivative."""
    return torch.randn(*shape, dtype=torch.float64).mul(1000).round().add(0.25).div(1000)


def case(name, function, *inputs, index=None, differentiable=True):
    leaves = [x.clone().requires_grad_(differentiable) for x in inputs]
    y = function(*leaves)
    if differentiable:
        (y * torch.cos(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape)).sum().backward()
    CASES.append({"name": name, "inputs": [plain(x) for x in inputs], "index": None if index is None else plain(index),
                  "result": plain(y), "gradients": [plain(torch.zeros_like(x) if x.grad is None else x.grad) for x in leaves]
                  if differentiable else []})


def elementwise():
    x = lambda: normal(3, 4).mul(3)
    for name in ["tan", "sinh", "cosh", "trunc", "frac"]:
        case(name, getattr(torch, name), x())
    case("atanh", torch.atanh, normal(3, 4).div(4).clamp(-0.9, 0.9))
    for name in ["log2", "log10"]:
        case(name, getattr(torch, name), x().abs())
    case("clamp_min", lambda t: torch.clamp_min(t, 0.3), x())
    case("clamp_max", lambda t: torch.clamp_max(t, 0.3), x())
    case("lerp", torch.lerp, x(), x(), x())
    case("lerp_number", lambda a, b: torch.lerp(a, b, 0.3), x(), x())
    case("addcmul", lambda a, b, c: torch.addcmul(a, b, c, value=0.7), x(), normal(4), normal(3, 1))
    case("addcdiv", lambda a, b, c: torch.addcdiv(a, b, c, value=0.7), x(), normal(4), normal(3, 1))
    case("logaddexp", torch.logaddexp, x(), normal(4))
    case("amax", lambda t: torch.amax(t, (0, 2)), normal(3, 4, 2).round())  # with ties
    case("amin", lambda t: torch.amin(t, 1, True), normal(3, 4, 2).round())
    for name in ["relu6", "hardtanh", "hardsigmoid", "selu", "softsign", "logsigmoid", "tanhshrink", "softshrink", "hardshrink"]:
        case(name, getattr(F, name), x())
    case("celu", lambda t: F.celu(t, 0.7), x())
    case("threshold", lambda t: F.threshold(t, 0.4, 2.5), x())
    case("softmin", lambda t: F.softmin(t, 0), x())
    case("glu", lambda t: F.glu(t, 1), normal(2, 6, 3))
    case("prelu", F.prelu, normal(2, 3, 4), normal(3))
    case("prelu", F.prelu, normal(5), normal(1))


def shapes():
    case("mm", torch.mm, normal(3, 4), normal(4, 2))
    case("mv", torch.mv, normal(3, 4), normal(4))
    case("bmm", torch.bmm, normal(2, 3, 4), normal(2, 4, 5))
    case("addmm", lambda x, a, b: torch.addmm(x, a, b, beta=0.5, alpha=2), normal(2), normal(3, 4), normal(4, 2))
    case("tensordot", lambda a, b: torch.tensordot(a, b, 2), normal(2, 3, 4), normal(3, 4, 2, 2))
    case("tile", lambda x: torch.tile(x, (2, 3)), normal(2, 1, 3))
    case("repeat_interleave", lambda x: torch.repeat_interleave(x, 3, 1), normal(2, 3, 2))
    case("repeat_interleave_all", lambda x: torch.repeat_interleave(x, 2), normal(2, 3))
    case("movedim", lambda x: torch.movedim(x, 0, -1), normal(2, 3, 4))
    case("unflatten", lambda x: torch.unflatten(x, 1, (2, -1)), normal(2, 6, 2))
    case("hstack", lambda a, b: torch.hstack((a, b)), normal(2, 3), normal(2, 1))
    case("vstack", lambda a, b: torch.vstack((a, b)), normal(3), normal(2, 3))
    case("fliplr", torch.fliplr, normal(2, 3))
    case("flipud", torch.flipud, normal(2, 3))
    case("meshgrid_ij", lambda a, b: torch.stack(torch.meshgrid(a, b, indexing="ij")), normal(2), normal(3))
    case("meshgrid_xy", lambda a, b: torch.stack(torch.meshgrid(a, b, indexing="xy")), normal(2), normal(3))
    case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), normal(2, 8, 2, 3))
    case("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), normal(2, 2, 4, 6))
    case("diff", lambda x: torch.diff(x, 2, 1), normal(2, 5, 2))


def indexed():
    i = torch.tensor([[[3], [0]]])
    case("take_along_dim", lambda x: torch.take_along_dim(x, i, 1), normal(3, 4, 2), index=i)
    j = torch.tensor([2, 0, 2, 3])
    case("index_add", lambda x, s: torch.index_add(x, 1, j, s), normal(2, 5, 2), normal(2, 4, 2), index=j)
    case("index_fill", lambda x: torch.index_fill(x, 1, j, 1.5), normal(2, 5, 2), index=j)
    case("bincount", lambda w: torch.bincount(j, w, 6), normal(4), index=j, differentiable=False)
    case("argsort", lambda x: torch.argsort(x, 0, True), normal(5, 3), differentiable=False)
    case("isin", torch.isin, normal(3, 4).round(), torch.tensor([0.0, -1.0], dtype=torch.float64), differentiable=False)
    rows = torch.sort(normal(2, 7).mul(2).round()).values
    for right in [False, True]:
        case(f"searchsorted_{int(right)}", lambda s, v: torch.searchsorted(s, v, right=right), rows,
             normal(2, 5).mul(2).round(), differentiable=False)
        case(f"bucketize_{int(right)}", lambda v, b: torch.bucketize(v, b, right=right),
             normal(2, 5).mul(2).round(), rows[0], differentiable=False)
    for shape in [(9, 2), (2, 3, 9), (7,)]:
        x = torch.randint(0, 2, shape).double()
        for dim in range(len(shape)):
            for part in range(3):
                function = lambda t: torch.unique(t, return_inverse=True, return_counts=True, dim=dim)[part]
                case(f"unique_{part}", function, x, index=torch.tensor(dim), differentiable=False)
    for part in range(3):
        function = lambda t: torch.unique_consecutive(t, return_inverse=True, return_counts=True)[part]
        case(f"unique_consecutive_{part}", function, torch.randint(0, 2, (4, 3)).double(), differentiable=False)


def main():
    for write in [elementwise, shapes, indexed]:
        write()
    text = json.dumps({"torch": torch.__version__.split("+")[0], "cases": CASES}, separators=(",", ":"))
    assert not any(math.isnan(v) for c in CASES for v in c["result"]["values"])
    pathlib.Path(__file__).with_name("everyday.json").write_text(text.replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main()
