"""Writes ops.safetensors: what PyTorch says about every operation of tensor/functions.hpp.

Run with torch and safetensors installed:  python3 tests/golden/make_ops.py
A case is a row of OP in tests/support/cases, named by its call in C++ ("sum(x, {-1}, true)"), and inputs for it: x, y, z,
u, v. Each row needs one; unary functions get theirs from their range. Results and gradients are computed in float64 from inputs
already rounded to the case's dtype, then rounded to it. The gradient of the k-th result is not stored: its
element i is ((7 (i + k) + 3) mod 11 - 5) / 4, exact in every floating dtype.

Keys: "<call>|<label>|<role>", role: x y z u v (inputs), 0 1 .. (results), dx dy .. (gradients), and tol where
a case is statistical and brings its own absolute tolerance.
"""


import pathlib
import re
import sys
import zlib

import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path += [str(ROOT / "tests/support"), str(ROOT / "bench/peers")]
from op_list import read_ops  # noqa: E402
from torch_calls import bf16, f16, f32, f64, function_of, i8, i32, i64, inf, nan, u8  # noqa: E402

FUNCTIONS = ROOT / "include/tinytorch/tensor/functions.hpp"
OPS = {op.text: op for op in read_ops()}
INPUT_NAMES = "xyzuv"
LABELS = {f32: "f32", f64: "f64", bf16: "bf16", f16: "f16", i64: "i64", i32: "i32", i8: "i8", u8: "u8", torch.bool: "bool"}

tensors = {}


def cotangent(shape, k):
    n = torch.Size(shape).numel()
    return ((((torch.arange(n) + k) * 7 + 3) % 11 - 5).double() / 4).reshape(shape)


def store(key, t, dtype):
    if key in tensors:
        sys.exit(f"two cases write {key}")
    tensors[key] = (t.detach().to(dtype) if t.is_floating_point() else t.detach()).contiguous().clone()


def case(call, *inputs, fn=None, label=None, grad=True, tol=None):
    """inputs: tensors or Random, all floating ones of one dtype. fn: the call in PyTorch, for calls that are no row of OP; it
    takes the inputs, the floating ones as float64."""
    fn = fn or function_of(OPS[call].torch, len(inputs))
    dtype = next((t.dtype for t in inputs if t.dtype.is_floating_point), None)
    first = dtype or (inputs[0].dtype if inputs else f32)
    prefix = f"{call}|{label or LABELS[first]}"
    wide = []
    for name, t in zip(INPUT_NAMES, inputs):
        t = t.draw(f"{prefix}|{name}") if isinstance(t, Random) else t
        store(f"{prefix}|{name}", t, t.dtype)
        wide.append(t.double().requires_grad_(grad) if t.is_floating_point() else t)
    outputs = fn(*wide)
    outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    for k, out in enumerate(outputs):
        store(f"{prefix}|{k}", out, dtype or out.dtype)
    if tol is not None:
        store(f"{prefix}|tol", torch.tensor(tol), f32)
    live = [(k, o) for k, o in enumerate(outputs) if o.requires_grad]
    if not grad or not live:
        return
    leaves = [(n, t) for n, t in zip(INPUT_NAMES, wide) if t.requires_grad]
    grads = torch.autograd.grad(
        [o for _, o in live], [t for _, t in leaves], [cotangent(o.shape, k) for k, o in live], allow_unused=True
    )
    for (name, _), g in zip(leaves, grads):
        if g is not None:
            store(f"{prefix}|d{name}", g, dtype)


class Random:
    """A tensor whose values depend on the case and the operand that it is drawn for, and on no other case."""

    def __init__(self, shape, dtype, draw):
        self.shape, self.dtype, self.values = shape, dtype, draw  # draw(shape, generator)

    def draw(self, key):
        return self.values(self.shape, torch.Generator().manual_seed(zlib.crc32(key.encode()))).to(self.dtype)


def normal(*shape, dtype=f32, scale=1.0, shift=0.0):
    return Random(shape, dtype, lambda s, g: torch.randn(s, generator=g, dtype=f64) * scale + shift)


def positive(*shape, dtype=f32):
    return Random(shape, dtype, lambda s, g: torch.randn(s, generator=g, dtype=f64).abs() + 0.1)


def between(low, high, *shape, dtype=f32):
    return Random(shape, dtype, lambda s, g: torch.rand(s, generator=g, dtype=f64) * (high - low) + low)


def integers(low, high, *shape, dtype=i64):
    return Random(shape, dtype, lambda s, g: torch.randint(low, high, s, generator=g))


def unary_cases():
    special = torch.tensor([0.0, -0.0, inf, -inf, nan, 1e-30, -1e-30, 3.5, -2.5, 0.5, 88.0, -88.0])
    for op in OPS.values():
        if not op.range or op.name == "logical_not":
            continue
        case(op.text, between(*op.range, 19))
        case(op.text, between(*op.range, 2, 3, dtype=f64))
        # Where a function saturates, its derivative from the rounded result has few digits: an inner part of the range.
        inner = (op.range[0] / 4, op.range[1] / 4)
        case(op.text, between(*inner, 5, dtype=bf16))
        case(op.text, between(*inner, 5, dtype=f16))
        # sign(NaN) is NaN here, as in NumPy; PyTorch says 0.
        case(op.text, special[~special.isnan()] if op.name == "sign" else special, label="special", grad=False)
    case("logical_not(x)", torch.tensor([0.0, -0.0, 1.0, nan, -inf]))
    case("clamp(x, -0.5, 1.25)", torch.tensor([nan, inf, -inf, -0.5, 1.25]), label="bounds")
    for dtype in (i32, i64, i8, u8):
        for name in ("neg", "abs", "sign", "square", "relu"):
            case(f"{name}(x)", integers(0 if dtype == u8 else -9, 10, 7, dtype=dtype))
    case("logical_not(x)", torch.tensor([True, False]))
    # Arguments large enough that a careless reduction by pi loses digits.
    case("sin(x)", torch.tensor([100.0, -1000.5, 12345.678, 5e6]), label="large")
    case("cos(x)", torch.tensor([100.0, -1000.5, 12345.678, 5e6]), label="large")


def binary_cases():
    special = torch.tensor([0.0, -0.0, inf, -inf, nan, 1.0, -2.0])
    for name in ("add", "sub", "mul", "maximum", "minimum", "div"):
        call = f"{name}(x, y)"
        case(call, normal(17), normal(17))
        case(call, normal(2, 1, 3), normal(4, 1), label="broadcast")
        case(call, normal(5, dtype=bf16), normal(5, dtype=bf16))
        case(call, normal(5, dtype=f16), normal(5, dtype=f16))
        case(call, special.repeat_interleave(7), special.repeat(7), label="special", grad=False)
        if name != "div":
            case(call, integers(-5, 5, 3, 2, dtype=i32), integers(-5, 5, 2, dtype=i32))
            case(call, integers(0, 255, 9, dtype=u8), integers(0, 255, 9, dtype=u8))
            case(call, integers(-(1 << 40), 1 << 40, 5), integers(-(1 << 20), 1 << 20, 5))
    ties = torch.tensor([1.0, 2.0, 3.0, 0.0])
    case("maximum(x, y)", ties, ties.flip(0).clone().fill_(2.0), label="ties")
    case("minimum(x, y)", ties, ties.flip(0).clone().fill_(2.0), label="ties")
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or"):
        call = f"{name}(x, y)"
        case(call, special.repeat_interleave(7), special.repeat(7), label="special", grad=False)
        case(call, integers(-2, 2, 3, 4, dtype=i32), integers(-2, 2, 4, dtype=i32))
        case(call, torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False]))
    case("pow(x, y)", positive(13), normal(13, scale=2))
    case("pow(x, y)", positive(3, 1), torch.tensor([2.0, -1.0, 0.5, 0.0]), label="broadcast")
    case("pow(x, y)", positive(4, dtype=bf16), normal(4, dtype=bf16))
    base = torch.tensor([0.0, -0.0, -2.0, -8.0, 1.0, -1.0, inf, -inf, nan, 0.5])
    power = torch.tensor([0.0, 2.0, 3.0, -2.0, 0.5, inf, -inf, nan])
    case("pow(x, y)", base.repeat_interleave(8), power.repeat(10), label="special", grad=False)
    condition = torch.tensor([[True], [False], [True]])
    case("where(x, y, z)", condition, normal(3, 4), normal(4))
    case("where(x, y, z)", condition, normal(1, 2, dtype=bf16), normal(3, 1, dtype=bf16), label="bf16")
    case("where(x, y, z)", condition, integers(0, 9, 3, 2), integers(0, 9, 1, 2), label="i64")
    case("masked_fill(x, y, -2.5)", normal(3, 4), condition)
    case("mul(x, scalar_like(3, x))", normal(2, 2, dtype=f16))
    case("x + 1.5", normal(2, 3))


def creation_cases():
    for call in ("full({2, 3}, 1.5)", "zeros({2, 2})", "ones({1, 3}, f64)", "arange(2, 11, 3)", "arange(5, -4, -2)",
                 "arange(0, 1, 0.3, f32)", "linspace(-1, 2, 7)", "linspace(3, 3.5, 1, f64)", "eye(3)"):  # fmt: skip
        case(call)
    case("full({3}, 7, i64)", label="i64")
    case("zeros_like(x)", integers(1, 5, 2, 3, dtype=i32))
    case("ones_like(x)", normal(4, dtype=bf16), grad=False)
    for call in ("full(x.shape(), 1.5)", "linspace(0, 1, x.numel())", "eye(x.size(0))"):
        case(call, normal(4, 3))
    case("arange(0, x.numel())", integers(0, 9, 4, 3))
    # Random numbers differ from PyTorch's by design; their distribution must not. x: points at which the share
    # of samples below or at x is compared with PyTorch's distribution function, within 5 standard deviations.
    d = torch.distributions
    points = torch.tensor([-1.0, 0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 2.0])
    tol = 5 * 0.5 / 200_000**0.5

    def share(sample, cdf, at=points):
        case(f"share_up_to(x, {sample})", at, fn=cdf, grad=False, tol=tol)

    uniform = lambda x: x.clamp(0, 1)
    gauss = lambda x: d.Normal(0.0, 1.0).cdf(x)
    share("rand({200000}, f32, default_device(), seeded(1))", uniform)
    share("rand({200000}, f64, default_device(), seeded(2))", uniform)
    share("uniform(-1, 3, {200000}, f32, default_device(), seeded(9))", lambda x: ((x + 1) / 4).clamp(0, 1))
    share("randn({200000}, f32, default_device(), seeded(3))", gauss)
    share("randn({200000}, f64, default_device(), seeded(4))", gauss)
    share("randn({200000}, bf16, default_device(), seeded(5))", gauss, points + 0.003)  # between bf16 values
    share("randint(-1, 4, {200000}, i64, default_device(), seeded(6))", lambda x: ((x.floor() + 2) / 5).clamp(0, 1), points * 2 + 0.5)
    share("bernoulli(0.3, {200000}, f32, default_device(), seeded(7))", lambda x: torch.where(x < 0, 0.0, torch.where(x < 1, 0.7, 1.0)).double())
    kept = 1 / 0.75  # dropout of ones: 0 with probability 1/4, else 4/3
    share(
        "dropout(ones({200000}), 0.25, seeded(8))",
        lambda x: torch.where(x < 0, 0.0, torch.where(x < kept, 0.25, 1.0)).double(),
        torch.tensor([-0.1, 0.0, 1.0, 1.33, 1.34]),
    )
    case("dropout(x, 0)", normal(3, 3))


def reduction_cases():
    for name in ("sum", "mean", "max", "min", "logsumexp", "norm"):
        case(f"{name}(x)", normal(3, 5, 2))
        case(f"{name}(x, {{-1}}, true)", normal(3, 7))
        case(f"{name}(x, {{0}})", normal(5, 3))
        case(f"{name}(x, {{1}})", normal(5, 3))
        case(f"{name}(x, {{0, 2}})", normal(2, 3, 4))
        case(f"{name}(x, {{-1}}, true)", normal(2, 5, dtype=bf16))
        case(f"{name}(x, {{-1}}, true)", normal(2, 5, dtype=f16))
        special = torch.tensor([[1.0, inf], [-inf, -inf], [nan, 1.0], [inf, -inf], [0.0, -0.0]])
        case(f"{name}(x, {{-1}}, true)", special, label="special", grad=False)
    ties = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    case("max(x, {1})", ties, label="ties")
    case("min(x, {1})", ties, label="ties")
    for dtype in (i32, i64, u8):
        for call in ("sum(x, {0})", "max(x, {1})", "min(x, {1})"):
            case(call, integers(0, 200, 3, 4, dtype=dtype))
    case("sum(x)", torch.tensor([True, False, True]))
    case("prod(x)", normal(2, 3))
    case("prod(x, {-1}, true)", normal(3, 4))
    zeros = torch.tensor([[1.5, 0.0, 2.0], [0.0, 0.0, 3.0], [1.0, 2.0, -3.0]])
    case("prod(x, {1})", zeros, label="zeros")
    case("prod(x, {1})", integers(1, 5, 2, 3, dtype=i32))
    flags = torch.tensor([[True, False], [False, False], [True, True]])
    for name in ("any", "all"):
        case(f"{name}(x)", flags)
        case(f"{name}(x, {{1}})", flags)
        case(f"{name}(x, {{0}})", flags)
        case(f"{name}(x, {{0}}, true)", torch.tensor([[0.0, nan], [0.0, 1.0]]), grad=False)
    for name in ("var", "stddev"):
        case(f"{name}(x)", normal(3, 4))
        case(f"{name}(x, {{-1}}, 0, true)", normal(3, 5, shift=10))
        case(f"{name}(x, {{0, 2}})", normal(2, 3, 4))
        case(f"{name}(x, {{0}})", normal(4, 3, dtype=bf16))
        case(f"{name}(x, {{1}})", normal(4, 3))
    extremes = torch.tensor([[1.0, 5.0, 5.0, -1.0], [nan, 9.0, nan, 0.0], [-inf, -inf, inf, inf]])
    for name in ("argmax", "argmin"):
        case(f"{name}(x, -1)", extremes, label="ties", grad=False)
        case(f"{name}(x, 0, true)", normal(6, 3), grad=False)
        case(f"{name}(x, 0)", normal(6, 3), grad=False)
        case(f"{name}(x, 1)", integers(-50, 50, 2, 5, 3, dtype=i32))
        case(f"{name}(x, -1)", normal(2, 7, dtype=f16), grad=False)
    case("cumsum(x, -1)", normal(3, 7))
    case("cumsum(x, 0)", normal(5, 3))
    case("cumsum(x, 1)", integers(-9, 9, 2, 4, 3, dtype=i32))
    case("cumsum(x, -1)", normal(9, dtype=bf16))
    case("sum_to(x, {1, 3})", normal(2, 4, 3))
    case("sum_to(x, y.shape())", normal(4, 3), integers(0, 9, 3))


def shape_cases():
    for op in OPS.values():
        if op.family == "shape" and op.text not in ("squeeze(x, 1)", "reshape(x, y.shape())"):
            case(op.text, normal(2, 3, 4))
    case("reshape(x, y.shape())", normal(4, 3), integers(0, 9, 2, 6))
    case("squeeze(x, 1)", normal(2, 1, 3))
    for call in ("contiguous(transpose(x, 1, 2))", "contiguous(x)", "clone(x)", "flip(x, {0, -1})", "flip(x, {0})", "flip(x, {1})",
                 "tril(x)", "tril(x, -1)", "triu(x)", "triu(x, 1)", "pad(x, {{0, 0}, {1, 2}, {0, 1}}, 2.5)"):  # fmt: skip
        case(call, normal(2, 3, 4))
    case("pad(x, {{1, 1}, {2, 2}})", normal(2, 3))
    for call in ("permute(x, {2, 0, 1})", "flip(x, {0, -1})", "tril(x)"):
        case(call, integers(0, 99, 2, 2, 3, dtype=u8))
        case(call, normal(2, 2, 3, dtype=bf16))
    halves = torch.tensor([0.5, 1.5, -2.5, 1e5, 3.14159, 1 + 2**-8, 1 + 3 * 2**-8, 70000.0, -1e-8])
    for dtype in (bf16, f16):
        case(f"cast(cast(x, {LABELS[dtype]}), f32)", halves, grad=False)
    case("cast(x, f64)", normal(5), grad=False, label="f32")
    tensors["cast(x, f64)|f32|0"] = tensors["cast(x, f64)|f32|x"].double()
    case("cast(x, i32)", torch.tensor([1.9, -1.9, 0.0, 1e6]), grad=False)
    case("cast(x, i64)", torch.tensor([1.9, -1.9, 0.0, 1e12]), grad=False)
    case("cast(x, u8)", torch.tensor([1, 255, 256, -1]))
    case("cast(x, boolean)", torch.tensor([0.0, 0.5, nan]), grad=False)
    case("cat({x, y})", normal(2), normal(3))
    case("cat({x, y}, 1)", normal(2, 3), normal(2, 2))
    case("cat({x, y}, -1)", normal(2, 3), normal(2, 2))
    case("cat({x, y, x}, 0)", normal(1, 3, dtype=bf16), normal(2, 3, dtype=bf16))
    case("stack({x, y}, 1)", normal(2, 3), normal(2, 3))
    case("index_select(x, 1, y)", normal(3, 4), torch.tensor([3, 0, 3]))
    case("index_select(x, 0, y)", normal(4, 3, dtype=f16), torch.tensor([1, 1]))
    for name in ("isnan", "isinf", "isfinite"):
        for dtype in (f32, f64, bf16, f16):
            case(f"{name}(x)", torch.tensor([0.0, -1.5, inf, -inf, nan], dtype=dtype), grad=False)
    case("outer(x, y)", normal(3), normal(4))
    case("one_hot(x, 5)", torch.tensor([[0, 4], [2, 2]]))
    case("repeat(x, {2, 3})", normal(2, 3))
    case("repeat(x, {2, 3})", integers(0, 99, 2, 2, dtype=u8))
    case("roll(x, 1, 0)", normal(3, 2))
    case('einsum("ij,kj->ik", {x, y})', normal(3, 4), normal(2, 4))
    index = torch.tensor([[0, 2, 1], [2, 2, 0]])
    case("gather(x, 0, y)", normal(3, 4), index)
    case("gather(x, -1, y)", normal(2, 4), index)
    case("gather(x, 1, y)", integers(0, 9, 2, 3, 2), integers(0, 3, 2, 5, 2))
    case("scatter_add(x, 0, y, z)", normal(3, 3), index, normal(2, 3))
    case("scatter_add(x, -1, y, z)", normal(2, 4), index, normal(2, 3))
    case("scatter_add(x, 1, y, z)", normal(2, 4), index, normal(2, 3))
    shuffled = torch.tensor([[3.0, 1.0, 2.0, 1.0, 3.0], [0.0, -0.0, -1.0, inf, -inf]])
    case("sort(x)", shuffled)
    case("sort(x, 0, true)", normal(6, 2))
    case("sort(x)", torch.tensor([1.0, nan, -1.0, nan, 5.0]), label="nan", grad=False)
    case("sort(x, -1, true)", integers(-3, 3, 2, 11, dtype=i32))
    case("topk(x, 3)", normal(2, 9))
    case("topk(x, 10)", normal(2, 33))
    case("topk(x, 2, 0, false)", normal(7, 3))


def matrix_cases():
    shapes = [((7, 5), (5, 9)), ((17,), (17,)), ((4,), (4, 3)), ((3, 4), (4,)), ((2, 1, 3, 4), (3, 4, 2)), ((2, 33), (33, 34))]
    for i, (a, b) in enumerate(shapes):
        case("matmul(x, y)", normal(*a), normal(*b), label=f"f32_{i}")
    case("matmul(x, y)", normal(3, 6, dtype=f64), normal(6, 2, dtype=f64))
    case("matmul(x, y)", normal(3, 6, dtype=bf16), normal(6, 2, dtype=bf16))
    case("matmul(x, y)", normal(3, 6, dtype=f16), normal(6, 2, dtype=f16))
    case("matmul(x, transpose(y, 0, 1))", normal(5, 3), normal(4, 3))
    case("linear(x, y, z)", normal(2, 3, 5), normal(4, 5), normal(4))
    case("linear(x, y, z)", normal(3, 5, dtype=bf16), normal(2, 5, dtype=bf16), normal(2, dtype=bf16))
    case("linear(x, y)", normal(5), normal(4, 5))
    case("bias_activation(x, y, Activation::gelu)", normal(3, 2, 5), normal(5))
    case("bias_activation(x, y, Activation::gelu_tanh)", normal(3, 2, 5), normal(5))
    case("bias_activation(x, y, Activation::silu)", normal(2, 4), normal(4))
    case("linear_activation(x, y, z, Activation::gelu)", normal(2, 3, 5), normal(4, 5), normal(4))
    case("linear_activation(x, y, z, Activation::relu)", normal(6, 5), normal(4, 5), normal(4))
    case("linear_activation(x, y, z, Activation::gelu_tanh)", normal(6, 5), normal(4, 5), normal(4))
    for dtype in (f32, f64):
        shapes = (2, 3, 5), (7, 5), (7,), (4, 7), (4,)
        case("mlp(x, y, z, u, v, Activation::gelu_tanh)", *(normal(*s, dtype=dtype) for s in shapes))
    case("mlp(x, y, z, u, v, Activation::gelu)", normal(6, 5), normal(8, 5), normal(8), normal(3, 8), normal(3))
    case("mlp(x, y, {}, z, {}, Activation::relu)", normal(4, 3), normal(6, 3), normal(2, 6))
    for dtype in (f32, bf16):
        case("linear_residual(x, y, z, u)", *(normal(*s, dtype=dtype) for s in ((2, 3, 5), (4, 5), (4,), (2, 3, 4))))
    case("linear_residual(x, y, {}, z)", normal(6, 5), normal(3, 5), normal(6, 3))


def conv_cases():
    case("conv2d(x, y, z)", normal(2, 3, 5, 4), normal(2, 3, 3, 2), normal(2))
    case("conv2d(x, y)", normal(1, 2, 3, 3), normal(3, 2, 1, 1))
    case("conv2d(x, y, z, {1, 1})", normal(2, 3, 5, 4), normal(2, 3, 3, 3), normal(2))
    case("conv2d(x, y, z, {2, 1})", normal(1, 2, 6, 5), normal(3, 2, 3, 3), normal(3))
    case("conv2d(x, y, z, {1, 2, 2})", normal(1, 1, 5, 6), normal(2, 1, 3, 2), normal(2))
    case("conv2d(x, y, z, {2, 1, 1, 2})", normal(2, 4, 5, 5), normal(6, 2, 3, 3), normal(6))
    case("conv2d(x, y, z, {1, 0, 1, 3})", normal(1, 3, 4, 4), normal(3, 1, 2, 2), normal(3), label="depthwise")
    case("conv2d(x, y, z, {3, 2, 2})", normal(1, 2, 7, 8), normal(2, 2, 3, 3), normal(2))
    case("conv2d(x, y, z)", normal(1, 2, 4, 4, dtype=bf16), normal(2, 2, 3, 3, dtype=bf16), normal(2, dtype=bf16))
    case("max_pool2d(x)", normal(2, 2, 5, 4))
    case("max_pool2d(x, {3, 2, 1})", normal(1, 2, 6, 5))
    torch.manual_seed(1)
    case("max_pool2d(x, {2, 1})", torch.randint(0, 3, (1, 1, 4, 4)).float(), label="ties")
    case("avg_pool2d(x)", normal(2, 2, 5, 4))
    case("avg_pool2d(x, {3, 2, 1})", normal(1, 2, 6, 5))
    case("adaptive_avg_pool2d(x, 3, 2)", normal(2, 2, 5, 7))
    case("adaptive_avg_pool2d(x, 4, 4)", normal(2, 2, 6, 9))
    case("adaptive_avg_pool2d(x, 1, 1)", normal(1, 3, 4, 4, dtype=bf16))


def norm_cases():
    for name in ("softmax", "log_softmax"):
        case(f"{name}(x)", normal(3, 17, scale=3))
        case(f"{name}(x, 1)", normal(2, 5, 3))
        case(f"{name}(x)", normal(2, 7, dtype=bf16))
        case(f"{name}(x)", normal(2, 7, dtype=f16))
        extreme = torch.tensor([[1e4, 0.0, -1e4], [-inf, 0.0, 1.0], [nan, 0.0, 1.0], [1e30, 1e30, 0.0]])
        case(f"{name}(x)", extreme, label="special", grad=False)
    case("softmax(x, 0)", normal(5, 3))
    case("layer_norm(x, y, z)", normal(2, 3, 9, shift=2), normal(9), normal(9))
    case("residual_layer_norm(x, y, z, u)", normal(2, 3, 9), normal(2, 3, 9), normal(9), normal(9))
    case("residual_layer_norm(x, y, z, u).normalized", normal(2, 3, 9), normal(2, 3, 9), normal(9), normal(9))
    case("residual_layer_norm(x, y, z, u).sum", normal(4, 5), normal(4, 5), normal(5), normal(5))
    case("residual_rms_norm(x, y, z)", normal(3, 8), normal(3, 8), normal(8))
    case("residual_rms_norm(x, y, z).normalized", normal(3, 8), normal(3, 8), normal(8))
    case("layer_norm(x)", normal(4, 5))
    case("layer_norm(x, y, z)", normal(2, 8, dtype=bf16), normal(8, dtype=bf16), normal(8, dtype=bf16))
    case("layer_norm(x, y, z, 0.1)", normal(2, 4), normal(4), normal(4))
    case("rms_norm(x, y)", normal(2, 3, 9, shift=1), normal(9))
    case("rms_norm(x)", normal(4, 5))
    case("rms_norm(x, y)", normal(2, 8, dtype=bf16), normal(8, dtype=bf16))
    case("batch_norm_train(x, y, z)", normal(3, 2, 2, 3, shift=1), normal(2), normal(2), grad=False)
    case("batch_norm_train(x, y, z)[0]", normal(3, 2, 2, 3, shift=1), normal(2), normal(2))
    case("batch_norm_train(x, y, z)[0]", normal(7, 3), normal(3), normal(3), label="rank2")
    case("batch_norm_infer(x, y, z, u, v)", normal(2, 3, 2, 2), normal(3), positive(3), normal(3), normal(3))
    case("group_norm(x, 2, y, z)", normal(2, 4, 3, 2, shift=1), normal(4), normal(4))
    case("group_norm(x, 3)", normal(2, 3, 5))
    case("group_norm(x, x.size(1), y, z)", normal(2, 3, 5), normal(3), normal(3))


def loss_cases():
    case("embedding(x, y)", normal(5, 3), torch.tensor([[0, 4], [4, 2]]))
    case("embedding(x, y)", normal(4, 2, dtype=bf16), torch.tensor([3, 3, 0]))
    target, some = torch.tensor([2, 0, 4, 1]), torch.tensor([2, -100, 4, -100])
    case("cross_entropy(x, y)", normal(4, 5, scale=2), target)
    case("cross_entropy(x, y)", normal(4, 5, scale=2), some, label="ignored")
    case("cross_entropy(x, y)", normal(4, 5, dtype=bf16), target)
    smooth = "cross_entropy(x, y, {.label_smoothing = 0.1})"
    case(smooth, normal(4, 5), target)
    case(smooth, normal(4, 5), some, label="ignored")
    case("cross_entropy(x, y, {.ignore_index = 4, .reduction = Reduction::sum})", normal(4, 5), target)
    case("cross_entropy(x, y, {.label_smoothing = 0.2, .reduction = Reduction::none})", normal(4, 5), some)
    case("cross_entropy(x, y)", torch.tensor([[1e4, 0.0], [-1e4, 0.0]]), torch.tensor([1, 0]), label="extreme")
    for name in ("mse_loss", "bce_with_logits"):
        for reduction in ("", ", Reduction::sum", ", Reduction::none"):
            case(f"{name}(x, y{reduction})", normal(3, 4), between(0, 1, 3, 4))
    case("mse_loss(x, y)", normal(5, dtype=bf16), normal(5, dtype=bf16))
    extreme = torch.tensor([1e4, -1e4, 0.0, 50.0, -50.0])
    case("bce_with_logits(x, y, Reduction::none)", extreme, torch.tensor([0.0, 0.0, 0.5, 1.0, 1.0]), label="extreme")
    features, weight = normal(2, 3, 4), normal(5, 4)
    case("linear_cross_entropy(x, y, z)", features, weight, torch.tensor([[0, 3, 4], [1, -100, 2]]))
    case("linear_cross_entropy(x, y, z, {.label_smoothing = 0.1, .reduction = Reduction::sum})",
         normal(7, 4), weight, torch.tensor([0, 3, 4, 1, 1, 0, 2]))  # fmt: skip


def attention_cases():
    attention = "scaled_dot_product_attention(x, y, z"
    for dtype in (f32, bf16):
        case(attention + ")", *(normal(2, 3, n, 8, dtype=dtype) for n in (5, 7, 7)))
    case(attention + ", {.causal = true})", *(normal(1, 2, 9, 6) for _ in range(3)))
    case(attention + ", {.causal = true, .scale = 0.3})", normal(2, 4, 3, 5), normal(2, 2, 5, 5), normal(2, 2, 5, 5))
    case(attention + ", {.causal = true, .window = 2})", *(normal(1, 2, 6, 4) for _ in range(3)))
    for dtype in (f32, bf16):
        case("joined_attention(x, 3, 3)", normal(2, 5, 36, dtype=dtype))
    case("joined_attention(x, 4, 2, {.causal = true})", normal(2, 6, 40))


def check_complete():
    """Every row of OP has a case, unless it is only timed, and every operation that functions.hpp declares is in one."""
    called = {key.split("|")[0] for key in tensors}
    missing = [text for text, op in OPS.items() if op.golden and text not in called]
    declared = set(re.findall(r"^TT_API \w+ (\w+)\(", FUNCTIONS.read_text(), re.MULTILINE))
    missing += sorted(declared - set(re.findall(r"\w+", " ".join(called))))
    if missing:
        sys.exit("no golden case for: " + ", ".join(missing))
    return len(declared)


def main():
    for family in (unary_cases, binary_cases, creation_cases, reduction_cases, shape_cases, matrix_cases, conv_cases, norm_cases,
                   loss_cases, attention_cases):  # fmt: skip
        family()
    operations = check_complete()
    path = HERE / "ops.safetensors"
    save_file(tensors, path, metadata={"torch": torch.__version__.split("+")[0]})
    cases = len({key.rsplit("|", 1)[0] for key in tensors})
    print(f"{operations} operations, {cases} cases, {len(tensors)} tensors, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
