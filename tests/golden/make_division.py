"""Writes division.json: PyTorch's floor_divide, remainder and fmod of floats (with gradients) and of integers, and einsum with
repeated letters and "...", for the tests of tensor/ops/division.hpp and tensor/ops/einsum.hpp.

Run with torch installed:  python tests/golden/make_division.py
"""

import json
import pathlib

import torch

torch.manual_seed(30)


def plain(tensor):
    return {"shape": list(tensor.shape), "values": [float(f"{v:.10g}") for v in tensor.detach().flatten().tolist()]}


def normal(*shape):
    return torch.randn(shape, dtype=torch.float64).mul(1024).round().div(1024)


def text_of(value):  # JSON has no NaN and no infinity
    return value if abs(value) < float("inf") else str(value)


def special_cases():
    numbers = [0.0, -0.0, 1.0, -1.0, 2.5, -7.25, 1e30, float("inf"), float("-inf"), float("nan")]
    a = torch.tensor(numbers, dtype=torch.float64).reshape(-1, 1)
    b = a.reshape(1, -1)
    functions = {"floor_divide": torch.floor_divide, "remainder": torch.remainder, "fmod": torch.fmod}
    return {"numbers": [text_of(v) for v in numbers],
            **{name: [text_of(v) for v in f(a, b).flatten().tolist()] for name, f in functions.items()}}


def differentiable(name, function, inputs, options):
    leaves = [x.clone().requires_grad_() for x in inputs]
    y = function(*leaves)
    gradients = []
    if name != "floor_divide":  # PyTorch has no derivative of it
        (y * torch.cos(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape)).sum().backward()
        gradients = [plain(x.grad) for x in leaves]
    return {"name": name, "options": options, "inputs": [plain(x) for x in inputs], "result": plain(y), "gradients": gradients}


def main():
    cases = []
    for a, b in [((5, 7), (5, 7)), ((3, 1, 4), (2, 1)), ((), (6,))]:
        x, y = normal(*a) * 5, normal(*b)
        y = torch.where(y < 0, y - 0.25, y + 0.25)
        cases.append(differentiable("floor_divide", torch.floor_divide, [x, y], {}))
        cases.append(differentiable("remainder", torch.remainder, [x, y], {}))
        cases.append(differentiable("fmod", torch.fmod, [x, y], {}))
    sums = [("ii->i", [(4, 4)]), ("ii", [(4, 4)]), ("iji->j", [(3, 2, 3)]), ("iii->i", [(3, 3, 3)]), ("ii,ij->j", [(3, 3), (3, 2)]),
            ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]), ("...ij,jk", [(2, 1, 3, 4), (4, 2)]), ("i...,i...->...", [(3, 1, 2), (3, 4, 1)]),
            ("...ii->...i", [(2, 3, 3)]), ("b...,b...->b", [(2, 3), (2, 3)]), ("...,...", [(2, 3), (3,)]), ("...i->i...", [(2, 3, 4)])]
    for equation, shapes in sums:
        inputs = [normal(*s) for s in shapes]
        cases.append(differentiable("einsum", lambda *t: torch.einsum(equation, *t), inputs, {"equation": equation}))
    golden = {"torch": torch.__version__.split("+")[0], "special": special_cases(), "cases": cases}
    text = json.dumps(golden, separators=(",", ":")).replace('{"name"', '\n{"name"')
    pathlib.Path(__file__).with_name("division.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
