"""Writes linalg.json: values and gradients of torch.linalg in f64, for the test of tensor/ops/linalg.hpp. Only results whose signs
are determined are written: products of the factors instead of singular vectors and eigenvectors.

Run with torch installed:  python tests/golden/make_linalg.py
"""

import json
import math
import pathlib

import torch
from torch import linalg

torch.manual_seed(31)
CASES = []


def plain(tensor):
    return {"shape": list(tensor.shape), "values": [float(f"{v:.10g}") for v in tensor.detach().flatten().tolist()]}


def normal(*shape):
    return torch.randn(shape, dtype=torch.float64).mul(1024).round().div(1024)


def positive(*shape):
    x = normal(*shape)
    return x @ x.mT + torch.eye(shape[-1], dtype=torch.float64)


def case(name, function, inputs, **options):
    leaves = [x.clone().requires_grad_() for x in inputs]
    y = function(*leaves)
    (y * torch.cos(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape)).sum().backward()
    CASES.append({"name": name, "options": options, "inputs": [plain(x) for x in inputs], "result": plain(y),
                  "gradients": [plain(x.grad) for x in leaves]})


def projection_of_eigh(x):
    values, vectors = linalg.eigh((x + x.mT) / 2)
    return vectors[..., 1:] @ vectors[..., 1:].mT * values.sum()


def parts_of_svd(x):
    u, s, vh = linalg.svd(x, full_matrices=False)
    return u[..., :2] * torch.tanh(s[..., None, :2]) @ vh[..., :2, :]


def main():
    for a, b in [((3, 3), (3, 2)), ((4, 4), (4,)), ((2, 3, 3), (2, 3)), ((2, 1, 3, 3), (4, 3, 2)), ((1, 1), (1, 1))]:
        case("solve", linalg.solve, [normal(*a) + 2 * torch.eye(a[-1], dtype=torch.float64), normal(*b)])
    for shape in [(1, 1), (3, 3), (2, 4, 4)]:
        case("inverse", linalg.inv, [normal(*shape) + 2 * torch.eye(shape[-1], dtype=torch.float64)])
        case("det", linalg.det, [normal(*shape)])
        case("cholesky", lambda x: linalg.cholesky((x + x.mT) / 2), [positive(*shape)])
        case("eigvalsh", lambda x: linalg.eigvalsh((x + x.mT) / 2), [normal(*shape)])
        if shape[-1] > 1:
            case("eigh", projection_of_eigh, [normal(*shape)])
    for shape in [(5, 3), (3, 3), (2, 4, 2)]:
        case("qr_q", lambda x: linalg.qr(x).Q, [normal(*shape)])
        case("qr_r", lambda x: linalg.qr(x).R, [normal(*shape)])
    for shape in [(5, 3), (3, 5), (4, 4), (2, 3, 4)]:
        case("svdvals", linalg.svdvals, [normal(*shape)])
        case("svd", parts_of_svd, [normal(*shape)])
        case("pinv", linalg.pinv, [normal(*shape)])
        for order in ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf]:
            case("matrix_norm", lambda x: linalg.matrix_norm(x, order), [normal(*shape)], order=str(order))
    text = json.dumps({"torch": torch.__version__.split("+")[0], "cases": CASES}, separators=(",", ":"))
    pathlib.Path(__file__).with_name("linalg.json").write_text(text.replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main()
