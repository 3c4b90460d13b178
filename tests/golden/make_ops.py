"""Writes ops.safetensors: what PyTorch says about every operation of tensor/functions.hpp.

Run with torch and safetensors installed:  python3 tests/golden/make_ops.py
A case is a call written as in C++ ("sum(x, {-1}, true)") and the same in PyTorch; ops.cpp has the call in its
table under that very text. Inputs are x, y, z, u, v. Results and gradients are computed in float64 from inputs
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
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
FUNCTIONS = HERE.parent.parent / "include/tinytorch/tensor/functions.hpp"
INPUT_NAMES = "xyzuv"
inf, nan = float("inf"), float("nan")
f32, f64, bf16, f16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
i64, i32, i8, u8 = torch.int64, torch.int32, torch.int8, torch.uint8
LABELS = {f32: "f32", f64: "f64", bf16: "bf16", f16: "f16", i64: "i64", i32: "i32", i8: "i8", u8: "u8", torch.bool: "bool"}

tensors = {}


def cotangent(shape, k):
    n = torch.Size(shape).numel()
    return ((((torch.arange(n) + k) * 7 + 3) % 11 - 5).double() / 4).reshape(shape)


def store(key, t, dtype):
    if key in tensors:
        sys.exit(f"two cases write {key}")
    tensors[key] = (t.detach().to(dtype) if t.is_floating_point() else t.detach()).contiguous().clone()


def case(call, fn, *inputs, label=None, grad=True, tol=None):
    """inputs: tensors, all floating ones of one dtype. fn: takes them (floating ones as float64)."""
    dtype = next((t.dtype for t in inputs if t.is_floating_point()), None)
    first = dtype or (inputs[0].dtype if inputs else f32)
    prefix = f"{call}|{label or LABELS[first]}"
    wide = []
    for name, t in zip(INPUT_NAMES, inputs):
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


count = 0


def normal(*shape, dtype=f32, scale=1.0, shift=0.0):
    """Normal numbers, different at each call, the same in every run."""
    global count
    count += 1
    g = torch.Generator().manual_seed(zlib.crc32(str((count, shape)).encode()))
    return (torch.randn(shape, generator=g, dtype=f64) * scale + shift).to(dtype)


def positive(*shape, dtype=f32):
    return (normal(*shape, dtype=f64).abs() + 0.1).to(dtype)


def integers(low, high, *shape, dtype=i64):
    global count
    count += 1
    g = torch.Generator().manual_seed(count)
    return torch.randint(low, high, shape, generator=g).to(dtype)


def unary_cases():
    special = torch.tensor([0.0, -0.0, inf, -inf, nan, 1e-30, -1e-30, 3.5, -2.5, 0.5, 88.0, -88.0])
    functions = {
        "neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "square": torch.square, "floor": torch.floor,
        "ceil": torch.ceil, "round": torch.round, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt,
        "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal, "sin": torch.sin, "cos": torch.cos,
        "tanh": torch.tanh, "sigmoid": torch.sigmoid, "erf": torch.erf, "relu": torch.relu,
        "leaky_relu": lambda x: F.leaky_relu(x, 0.01), "silu": F.silu, "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    }  # fmt: skip
    for name, fn in functions.items():
        make = positive if name in ("log", "sqrt", "rsqrt") else lambda *s, dtype=f32: normal(*s, dtype=dtype, scale=2)
        case(f"{name}(x)", fn, make(19))
        case(f"{name}(x)", fn, make(2, 3, dtype=f64))
        case(f"{name}(x)", fn, make(5, dtype=bf16))
        case(f"{name}(x)", fn, make(5, dtype=f16))
        # sign(NaN) is NaN here, as in NumPy; PyTorch says 0.
        case(f"{name}(x)", fn, special[~special.isnan()] if name == "sign" else special, label="special", grad=False)
    case("clamp(x, -0.5, 1.25)", lambda x: x.clamp(-0.5, 1.25), normal(3, 5))
    case("clamp(x, -0.5, 1.25)", lambda x: x.clamp(-0.5, 1.25), torch.tensor([nan, inf, -inf, -0.5, 1.25]), label="special")
    case("leaky_relu(x, 0.25)", lambda x: F.leaky_relu(x, 0.25), normal(7))
    case("logical_not(x)", torch.logical_not, torch.tensor([0.0, -0.0, 1.0, nan, -inf]))
    for dtype in (i32, i64, i8, u8):
        x = integers(0 if dtype == u8 else -9, 10, 7, dtype=dtype)
        for name in ("neg", "abs", "sign", "square", "relu"):
            case(f"{name}(x)", functions[name], x)
    case("logical_not(x)", torch.logical_not, torch.tensor([True, False]))
    # Arguments large enough that a careless reduction by pi loses digits.
    case("sin(x)", torch.sin, torch.tensor([100.0, -1000.5, 12345.678, 5e6]), label="large")
    case("cos(x)", torch.cos, torch.tensor([100.0, -1000.5, 12345.678, 5e6]), label="large")


def binary_cases():
    arithmetic = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum}
    compare = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}
    logic = {"logical_and": torch.logical_and, "logical_or": torch.logical_or}
    special = torch.tensor([0.0, -0.0, inf, -inf, nan, 1.0, -2.0])
    for name, fn in (arithmetic | {"div": torch.div}).items():
        call = f"{name}(x, y)"
        case(call, fn, normal(17), normal(17))
        case(call, fn, normal(2, 1, 3), normal(4, 1), label="broadcast")
        case(call, fn, normal(5, dtype=bf16), normal(5, dtype=bf16))
        case(call, fn, normal(5, dtype=f16), normal(5, dtype=f16))
        case(call, fn, special.repeat_interleave(7), special.repeat(7), label="special", grad=False)
        if name != "div":
            case(call, fn, integers(-5, 5, 3, 2, dtype=i32), integers(-5, 5, 2, dtype=i32))
            case(call, fn, integers(0, 255, 9, dtype=u8), integers(0, 255, 9, dtype=u8))
            case(call, fn, integers(-(1 << 40), 1 << 40, 5), integers(-(1 << 20), 1 << 20, 5))
    ties = torch.tensor([1.0, 2.0, 3.0, 0.0])
    case("maximum(x, y)", torch.maximum, ties, ties.flip(0).clone().fill_(2.0), label="ties")
    case("minimum(x, y)", torch.minimum, ties, ties.flip(0).clone().fill_(2.0), label="ties")
    for name, fn in (compare | logic).items():
        call = f"{name}(x, y)"
        case(call, fn, special.repeat_interleave(7), special.repeat(7), label="special", grad=False)
        case(call, fn, integers(-2, 2, 3, 4, dtype=i32), integers(-2, 2, 4, dtype=i32))
        case(call, fn, torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False]))
    case("pow(x, y)", torch.pow, positive(13), normal(13, scale=2))
    case("pow(x, y)", torch.pow, positive(3, 1), torch.tensor([2.0, -1.0, 0.5, 0.0]), label="broadcast")
    case("pow(x, y)", torch.pow, positive(4, dtype=bf16), normal(4, dtype=bf16))
    base = torch.tensor([0.0, -0.0, -2.0, -8.0, 1.0, -1.0, inf, -inf, nan, 0.5])
    power = torch.tensor([0.0, 2.0, 3.0, -2.0, 0.5, inf, -inf, nan])
    case("pow(x, y)", torch.pow, base.repeat_interleave(8), power.repeat(10), label="special", grad=False)
    condition = torch.tensor([[True], [False], [True]])
    case("where(x, y, z)", torch.where, condition, normal(3, 4), normal(4))
    case("where(x, y, z)", torch.where, condition, normal(1, 2, dtype=bf16), normal(3, 1, dtype=bf16), label="bf16")
    case("where(x, y, z)", torch.where, condition, integers(0, 9, 3, 2), integers(0, 9, 1, 2), label="i64")
    case("masked_fill(x, y, -2.5)", lambda x, y: x.masked_fill(y, -2.5), normal(3, 4), condition)
    case("mul(x, scalar_like(3, x))", lambda x: x * 3, normal(2, 2, dtype=f16))


def creation_cases():
    case("full({2, 3}, 1.5)", lambda: torch.full((2, 3), 1.5))
    case("full({3}, 7, i64)", lambda: torch.full((3,), 7), label="i64")
    case("zeros({2, 2})", lambda: torch.zeros(2, 2))
    case("ones({1, 3}, f64)", lambda: torch.ones(1, 3, dtype=f64))
    case("zeros_like(x)", torch.zeros_like, integers(1, 5, 2, 3, dtype=i32))
    case("ones_like(x)", torch.ones_like, normal(4, dtype=bf16), grad=False)
    case("arange(2, 11, 3)", lambda: torch.arange(2, 11, 3))
    case("arange(5, -4, -2)", lambda: torch.arange(5, -4, -2))
    case("arange(0, 1, 0.3, f32)", lambda: torch.arange(0, 1, 0.3))
    case("linspace(-1, 2, 7)", lambda: torch.linspace(-1, 2, 7))
    case("linspace(3, 3.5, 1, f64)", lambda: torch.linspace(3, 3.5, 1, dtype=f64))
    case("eye(3)", lambda: torch.eye(3))
    # Random numbers differ from PyTorch's by design; their distribution must not. x: points at which the share
    # of samples below or at x is compared with PyTorch's distribution function, within 5 standard deviations.
    d = torch.distributions
    points = torch.tensor([-1.0, 0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 2.0])
    tol = 5 * 0.5 / 200_000**0.5

    def share(sample, cdf, at=points):
        case(f"share_up_to(x, {sample})", cdf, at, grad=False, tol=tol)

    uniform = lambda x: x.clamp(0, 1)
    gauss = lambda x: d.Normal(0.0, 1.0).cdf(x)
    share("rand({200000}, f32, cpu, seeded(1))", uniform)
    share("rand({200000}, f64, cpu, seeded(2))", uniform)
    share("uniform(-1, 3, {200000}, f32, cpu, seeded(9))", lambda x: ((x + 1) / 4).clamp(0, 1))
    share("randn({200000}, f32, cpu, seeded(3))", gauss)
    share("randn({200000}, f64, cpu, seeded(4))", gauss)
    share("randn({200000}, bf16, cpu, seeded(5))", gauss, points + 0.003)  # between bf16 values
    share("randint(-1, 4, {200000}, i64, cpu, seeded(6))", lambda x: ((x.floor() + 2) / 5).clamp(0, 1), points * 2 + 0.5)
    share("bernoulli(0.3, {200000}, f32, cpu, seeded(7))", lambda x: torch.where(x < 0, 0.0, torch.where(x < 1, 0.7, 1.0)).double())
    kept = 1 / 0.75  # dropout of ones: 0 with probability 1/4, else 4/3
    share(
        "dropout(ones({200000}), 0.25, seeded(8))",
        lambda x: torch.where(x < 0, 0.0, torch.where(x < kept, 0.25, 1.0)).double(),
        torch.tensor([-0.1, 0.0, 1.0, 1.33, 1.34]),
    )
    case("dropout(x, 0)", lambda x: F.dropout(x, 0.0), normal(3, 3))


def reduction_cases():
    all_dims = (0, 1, 2)
    reductions = {
        "sum": lambda x, dims, keep: x.sum(dims, keepdim=keep), "mean": lambda x, dims, keep: x.mean(dims, keepdim=keep),
        "max": lambda x, dims, keep: x.amax(dims, keepdim=keep), "min": lambda x, dims, keep: x.amin(dims, keepdim=keep),
        "logsumexp": lambda x, dims, keep: x.logsumexp(dims, keepdim=keep),
        "norm": lambda x, dims, keep: torch.linalg.vector_norm(x, dim=dims, keepdim=keep),
    }  # fmt: skip
    for name, fn in reductions.items():
        case(f"{name}(x)", lambda x: fn(x, tuple(range(x.dim())), False), normal(3, 5, 2))
        case(f"{name}(x, {{-1}}, true)", lambda x: fn(x, (-1,), True), normal(3, 7))
        case(f"{name}(x, {{0}})", lambda x: fn(x, (0,), False), normal(5, 3))
        case(f"{name}(x, {{0, 2}})", lambda x: fn(x, (0, 2), False), normal(2, 3, 4))
        case(f"{name}(x, {{-1}}, true)", lambda x: fn(x, (-1,), True), normal(2, 5, dtype=bf16))
        case(f"{name}(x, {{-1}}, true)", lambda x: fn(x, (-1,), True), normal(2, 5, dtype=f16))
        special = torch.tensor([[1.0, inf], [-inf, -inf], [nan, 1.0], [inf, -inf], [0.0, -0.0]])
        case(f"{name}(x, {{-1}}, true)", lambda x: fn(x, (-1,), True), special, label="special", grad=False)
    ties = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    case("max(x, {1})", lambda x: x.amax(1), ties, label="ties")
    case("min(x, {1})", lambda x: x.amin(1), ties, label="ties")
    for dtype in (i32, i64, u8):
        x = integers(0, 200, 3, 4, dtype=dtype)
        case("sum(x, {0})", lambda x: x.sum(0), x)
        case("max(x, {1})", lambda x: x.amax(1), x)
        case("min(x, {1})", lambda x: x.amin(1), x)
    case("sum(x)", lambda x: x.sum(), torch.tensor([True, False, True]))
    case("prod(x)", lambda x: x.prod(), normal(2, 3))
    case("prod(x, {-1}, true)", lambda x: x.prod(-1, keepdim=True), normal(3, 4))
    zeros = torch.tensor([[1.5, 0.0, 2.0], [0.0, 0.0, 3.0], [1.0, 2.0, -3.0]])
    case("prod(x, {1})", lambda x: x.prod(1), zeros, label="zeros")
    case("prod(x, {1})", lambda x: x.prod(1), integers(1, 5, 2, 3, dtype=i32))
    flags = torch.tensor([[True, False], [False, False], [True, True]])
    for name, fn in {"any": torch.any, "all": torch.all}.items():
        case(f"{name}(x)", fn, flags)
        case(f"{name}(x, {{1}})", lambda x: fn(x, 1), flags)
        case(f"{name}(x, {{0}}, true)", lambda x: fn(x, 0, keepdim=True), torch.tensor([[0.0, nan], [0.0, 1.0]]), grad=False)
    for name in ("var", "std"):
        fn, cpp = getattr(torch, name), "var" if name == "var" else "stddev"
        case(f"{cpp}(x)", lambda x: fn(x), normal(3, 4))
        case(f"{cpp}(x, {{-1}}, 0, true)", lambda x: fn(x, -1, correction=0, keepdim=True), normal(3, 5, shift=10))
        case(f"{cpp}(x, {{0, 2}})", lambda x: fn(x, (0, 2)), normal(2, 3, 4))
        case(f"{cpp}(x, {{0}})", lambda x: fn(x, 0), normal(4, 3, dtype=bf16))
    extremes = torch.tensor([[1.0, 5.0, 5.0, -1.0], [nan, 9.0, nan, 0.0], [-inf, -inf, inf, inf]])
    for name in ("argmax", "argmin"):
        fn = getattr(torch, name)
        case(f"{name}(x, -1)", lambda x: fn(x, -1), extremes, label="ties", grad=False)
        case(f"{name}(x, 0, true)", lambda x: fn(x, 0, keepdim=True), normal(6, 3), grad=False)
        case(f"{name}(x, 1)", lambda x: fn(x, 1), integers(-50, 50, 2, 5, 3, dtype=i32))
        case(f"{name}(x, -1)", lambda x: fn(x, -1), normal(2, 7, dtype=f16), grad=False)
    case("cumsum(x, -1)", lambda x: x.cumsum(-1), normal(3, 7))
    case("cumsum(x, 0)", lambda x: x.cumsum(0), normal(5, 3))
    case("cumsum(x, 1)", lambda x: x.cumsum(1), integers(-9, 9, 2, 4, 3, dtype=i32))
    case("cumsum(x, -1)", lambda x: x.cumsum(-1), normal(9, dtype=bf16))
    case("sum_to(x, {1, 3})", lambda x: x.sum((0, 1), keepdim=True)[0], normal(2, 4, 3))


def shape_cases():
    calls = {
        "reshape(x, {4, -1})": lambda x: x.reshape(4, -1), "flatten(x, 1)": lambda x: x.flatten(1),
        "flatten(x)": lambda x: x.flatten(), "transpose(x, 0, -1)": lambda x: x.transpose(0, -1),
        "permute(x, {2, 0, 1})": lambda x: x.permute(2, 0, 1), "unsqueeze(x, -1)": lambda x: x.unsqueeze(-1),
        "slice(x, 1, -2)": lambda x: x[:, -2:], "slice(x, 2, 0, kEnd, 2)": lambda x: x[:, :, ::2],
        "slice(x, 0, 0, -1)": lambda x: x[:-1], "select(x, 1, -1)": lambda x: x[:, -1],
        "split(x, 2, 1)": lambda x: x.split(2, 1), "chunk(x, 2, -1)": lambda x: x.chunk(2, -1),
        "contiguous(transpose(x, 1, 2))": lambda x: x.transpose(1, 2).contiguous(), "clone(x)": torch.clone,
        "flip(x, {0, -1})": lambda x: x.flip(0, -1), "tril(x)": torch.tril, "triu(x, 1)": lambda x: x.triu(1),
        "tril(x, -1)": lambda x: x.tril(-1),
        "pad(x, {{0, 0}, {1, 2}, {0, 1}}, 2.5)": lambda x: F.pad(x, (0, 1, 1, 2), value=2.5),
        "expand(unsqueeze(x, 1), {-1, 2, -1, -1})": lambda x: x.unsqueeze(1).expand(-1, 2, -1, -1),
    }  # fmt: skip
    for call, fn in calls.items():
        case(call, fn, normal(2, 3, 4))
    for call in ("permute(x, {2, 0, 1})", "flip(x, {0, -1})", "tril(x)"):
        case(call, calls[call], integers(0, 99, 2, 2, 3, dtype=u8))
        case(call, calls[call], normal(2, 2, 3, dtype=bf16))
    case("squeeze(x, 1)", lambda x: x.squeeze(1), normal(2, 1, 3))
    halves = torch.tensor([0.5, 1.5, -2.5, 1e5, 3.14159, 1 + 2**-8, 1 + 3 * 2**-8, 70000.0, -1e-8])
    for dtype in (bf16, f16):
        case(f"cast(cast(x, {LABELS[dtype]}), f32)", lambda x: x.float().to(dtype).double(), halves, grad=False)
    case("cast(x, f64)", lambda x: x, normal(5), grad=False, label="f32")
    tensors["cast(x, f64)|f32|0"] = tensors["cast(x, f64)|f32|x"].double()
    case("cast(x, i32)", lambda x: x.to(i32), torch.tensor([1.9, -1.9, 0.0, 1e6]), grad=False)
    case("cast(x, u8)", lambda x: x.to(u8), torch.tensor([1, 255, 256, -1]))
    case("cast(x, boolean)", lambda x: x.to(torch.bool), torch.tensor([0.0, 0.5, nan]), grad=False)
    case("cat({x, y}, -1)", lambda x, y: torch.cat((x, y), -1), normal(2, 3), normal(2, 2))
    case("cat({x, y, x}, 0)", lambda x, y: torch.cat((x, y, x), 0), normal(1, 3, dtype=bf16), normal(2, 3, dtype=bf16))
    case("stack({x, y}, 1)", lambda x, y: torch.stack((x, y), 1), normal(2, 3), normal(2, 3))
    case("index_select(x, 1, y)", lambda x, y: x.index_select(1, y), normal(3, 4), torch.tensor([3, 0, 3]))
    case("index_select(x, 0, y)", lambda x, y: x.index_select(0, y), normal(4, 3, dtype=f16), torch.tensor([1, 1]))
    index = torch.tensor([[0, 2, 1], [2, 2, 0]])
    case("gather(x, 0, y)", lambda x, y: x.gather(0, y), normal(3, 4), index)
    case("gather(x, -1, y)", lambda x, y: x.gather(-1, y), normal(2, 4), index)
    case("gather(x, 1, y)", lambda x, y: x.gather(1, y), integers(0, 9, 2, 3, 2), integers(0, 3, 2, 5, 2))
    case("scatter_add(x, 0, y, z)", lambda x, y, z: x.scatter_add(0, y, z), normal(3, 3), index, normal(2, 3))
    case("scatter_add(x, -1, y, z)", lambda x, y, z: x.scatter_add(-1, y, z), normal(2, 4), index, normal(2, 3))
    shuffled = torch.tensor([[3.0, 1.0, 2.0, 1.0, 3.0], [0.0, -0.0, -1.0, inf, -inf]])
    case("sort(x)", lambda x: torch.sort(x, dim=-1, stable=True), shuffled)
    case("sort(x, 0, true)", lambda x: torch.sort(x, dim=0, descending=True, stable=True), normal(6, 2))
    case("sort(x)", lambda x: torch.sort(x, dim=-1, stable=True), torch.tensor([1.0, nan, -1.0, nan, 5.0]), label="nan", grad=False)
    case("sort(x, -1, true)", lambda x: torch.sort(x, dim=-1, descending=True, stable=True), integers(-3, 3, 2, 11, dtype=i32))
    case("topk(x, 3)", lambda x: x.topk(3), normal(2, 9))
    case("topk(x, 2, 0, false)", lambda x: x.topk(2, 0, largest=False), normal(7, 3))


def matrix_cases():
    shapes = [((7, 5), (5, 9)), ((17,), (17,)), ((4,), (4, 3)), ((3, 4), (4,)), ((2, 1, 3, 4), (3, 4, 2)), ((2, 33), (33, 34))]
    for i, (a, b) in enumerate(shapes):
        case("matmul(x, y)", torch.matmul, normal(*a), normal(*b), label=f"f32_{i}")
    case("matmul(x, y)", torch.matmul, normal(3, 6, dtype=f64), normal(6, 2, dtype=f64))
    case("matmul(x, y)", torch.matmul, normal(3, 6, dtype=bf16), normal(6, 2, dtype=bf16))
    case("matmul(x, y)", torch.matmul, normal(3, 6, dtype=f16), normal(6, 2, dtype=f16))
    case("matmul(x, transpose(y, 0, 1))", lambda x, y: x @ y.T, normal(5, 3), normal(4, 3))
    case("linear(x, y, z)", F.linear, normal(2, 3, 5), normal(4, 5), normal(4))
    case("linear(x, y, z)", F.linear, normal(3, 5, dtype=bf16), normal(2, 5, dtype=bf16), normal(2, dtype=bf16))
    case("linear(x, y)", F.linear, normal(5), normal(4, 5))


def conv_cases():
    conv = lambda **options: lambda x, y, z=None: F.conv2d(x, y, z, **options)
    case("conv2d(x, y, z)", conv(), normal(2, 3, 5, 4), normal(2, 3, 3, 2), normal(2))
    case("conv2d(x, y)", conv(), normal(1, 2, 3, 3), normal(3, 2, 1, 1))
    case("conv2d(x, y, z, {2, 1})", conv(stride=2, padding=1), normal(1, 2, 6, 5), normal(3, 2, 3, 3), normal(3))
    case("conv2d(x, y, z, {1, 2, 2})", conv(padding=2, dilation=2), normal(1, 1, 5, 6), normal(2, 1, 3, 2), normal(2))
    case("conv2d(x, y, z, {2, 1, 1, 2})", conv(stride=2, padding=1, groups=2), normal(2, 4, 5, 5), normal(6, 2, 3, 3), normal(6))
    case("conv2d(x, y, z, {1, 0, 1, 3})", conv(groups=3), normal(1, 3, 4, 4), normal(3, 1, 2, 2), normal(3), label="depthwise")
    case("conv2d(x, y, z, {3, 2, 2})", conv(stride=3, padding=2, dilation=2), normal(1, 2, 7, 8), normal(2, 2, 3, 3), normal(2))
    case("conv2d(x, y, z)", conv(), normal(1, 2, 4, 4, dtype=bf16), normal(2, 2, 3, 3, dtype=bf16), normal(2, dtype=bf16))
    case("max_pool2d(x)", lambda x: F.max_pool2d(x, 2), normal(2, 2, 5, 4))
    case("max_pool2d(x, {3, 2, 1})", lambda x: F.max_pool2d(x, 3, 2, 1), normal(1, 2, 6, 5))
    case("max_pool2d(x, {2, 1})", lambda x: F.max_pool2d(x, 2, 1), integers(0, 3, 1, 1, 4, 4).float(), label="ties")
    case("avg_pool2d(x)", lambda x: F.avg_pool2d(x, 2), normal(2, 2, 5, 4))
    case("avg_pool2d(x, {3, 2, 1})", lambda x: F.avg_pool2d(x, 3, 2, 1), normal(1, 2, 6, 5))
    case("adaptive_avg_pool2d(x, 3, 2)", lambda x: F.adaptive_avg_pool2d(x, (3, 2)), normal(2, 2, 5, 7))
    case("adaptive_avg_pool2d(x, 1, 1)", lambda x: F.adaptive_avg_pool2d(x, 1), normal(1, 3, 4, 4, dtype=bf16))


def norm_cases():
    for name, fn in {"softmax": torch.softmax, "log_softmax": torch.log_softmax}.items():
        case(f"{name}(x)", lambda x: fn(x, -1), normal(3, 17, scale=3))
        case(f"{name}(x, 1)", lambda x: fn(x, 1), normal(2, 5, 3))
        case(f"{name}(x)", lambda x: fn(x, -1), normal(2, 7, dtype=bf16))
        case(f"{name}(x)", lambda x: fn(x, -1), normal(2, 7, dtype=f16))
        extreme = torch.tensor([[1e4, 0.0, -1e4], [-inf, 0.0, 1.0], [nan, 0.0, 1.0], [1e30, 1e30, 0.0]])
        case(f"{name}(x)", lambda x: fn(x, -1), extreme, label="special", grad=False)
    layer = lambda x, y=None, z=None: F.layer_norm(x, x.shape[-1:], y, z)
    rms = lambda x, y=None: F.rms_norm(x, x.shape[-1:], y, 1e-6)
    case("layer_norm(x, y, z)", layer, normal(2, 3, 9, shift=2), normal(9), normal(9))
    case("bias_activation(x, y, Activation::gelu_tanh)", lambda x, y: F.gelu(x + y, approximate="tanh"), normal(3, 2, 5), normal(5))
    case("bias_activation(x, y, Activation::silu)", lambda x, y: F.silu(x + y), normal(2, 4), normal(4))
    case("linear_activation(x, y, z, Activation::gelu)", lambda x, y, z: F.gelu(F.linear(x, y, z)), normal(2, 3, 5), normal(4, 5), normal(4))
    case("linear_activation(x, y, z, Activation::relu)", lambda x, y, z: F.relu(F.linear(x, y, z)), normal(6, 5), normal(4, 5), normal(4))
    case("residual_layer_norm(x, y, z, u).normalized", lambda x, y, z, u: F.layer_norm(x + y, x.shape[-1:], z, u), normal(2, 3, 9), normal(2, 3, 9), normal(9), normal(9))
    case("residual_layer_norm(x, y, z, u).sum", lambda x, y, z, u: x + y + 0 * (z + u), normal(4, 5), normal(4, 5), normal(5), normal(5))
    case("residual_rms_norm(x, y, z).normalized", lambda x, y, z: F.rms_norm(x + y, x.shape[-1:], z, 1e-6), normal(3, 8), normal(3, 8), normal(8))
    case("layer_norm(x)", layer, normal(4, 5))
    case("layer_norm(x, y, z)", layer, normal(2, 8, dtype=bf16), normal(8, dtype=bf16), normal(8, dtype=bf16))
    case("layer_norm(x, y, z, 0.1)", lambda x, y, z: F.layer_norm(x, x.shape[-1:], y, z, 0.1), normal(2, 4), normal(4), normal(4))
    case("rms_norm(x, y)", rms, normal(2, 3, 9, shift=1), normal(9))
    case("rms_norm(x)", rms, normal(4, 5))
    case("rms_norm(x, y)", rms, normal(2, 8, dtype=bf16), normal(8, dtype=bf16))

    def batch_norm(x, y, z):
        return F.batch_norm(x, None, None, y, z, training=True, eps=1e-5)

    def batch_statistics(x, y, z):
        dims = [d for d in range(x.dim()) if d != 1]
        return batch_norm(x, y, z), x.mean(dims), x.var(dims, correction=0)

    case("batch_norm_train(x, y, z)", batch_statistics, normal(3, 2, 2, 3, shift=1), normal(2), normal(2), grad=False)
    case("first(batch_norm_train(x, y, z))", batch_norm, normal(3, 2, 2, 3, shift=1), normal(2), normal(2))
    case("first(batch_norm_train(x, y, z))", batch_norm, normal(7, 3), normal(3), normal(3), label="rank2")
    infer = lambda x, y, z, u, v: F.batch_norm(x, y.detach(), z.detach(), u, v)
    case("batch_norm_infer(x, y, z, u, v)", infer, normal(2, 3, 2, 2), normal(3), positive(3), normal(3), normal(3))
    case("group_norm(x, 2, y, z)", lambda x, y, z: F.group_norm(x, 2, y, z), normal(2, 4, 3, 2, shift=1), normal(4), normal(4))
    case("group_norm(x, 3)", lambda x: F.group_norm(x, 3), normal(2, 3, 5))


def loss_cases():
    case("embedding(x, y)", lambda x, y: F.embedding(y, x), normal(5, 3), torch.tensor([[0, 4], [4, 2]]))
    case("embedding(x, y)", lambda x, y: F.embedding(y, x), normal(4, 2, dtype=bf16), torch.tensor([3, 3, 0]))
    target, some = torch.tensor([2, 0, 4, 1]), torch.tensor([2, -100, 4, -100])
    cross = lambda **options: lambda x, y: F.cross_entropy(x, y, **options)
    case("cross_entropy(x, y)", cross(), normal(4, 5, scale=2), target)
    case("cross_entropy(x, y)", cross(), normal(4, 5, scale=2), some, label="ignored")
    case("cross_entropy(x, y)", cross(), normal(4, 5, dtype=bf16), target)
    smooth = "cross_entropy(x, y, {.label_smoothing = 0.1})"
    case(smooth, cross(label_smoothing=0.1), normal(4, 5), target)
    case(smooth, cross(label_smoothing=0.1), normal(4, 5), some, label="ignored")
    case("cross_entropy(x, y, {.ignore_index = 4, .reduction = Reduction::sum})", cross(ignore_index=4, reduction="sum"), normal(4, 5), target)
    none = "cross_entropy(x, y, {.label_smoothing = 0.2, .reduction = Reduction::none})"
    case(none, cross(label_smoothing=0.2, reduction="none"), normal(4, 5), some)
    case("cross_entropy(x, y)", cross(), torch.tensor([[1e4, 0.0], [-1e4, 0.0]]), torch.tensor([1, 0]), label="extreme")
    for name, fn in {"mse_loss": F.mse_loss, "bce_with_logits": F.binary_cross_entropy_with_logits}.items():
        for reduction in ("mean", "sum", "none"):
            call = f"{name}(x, y)" if reduction == "mean" else f"{name}(x, y, Reduction::{reduction})"
            case(call, lambda x, y: fn(x, y.detach(), reduction=reduction), normal(3, 4), torch.sigmoid(normal(3, 4)))
    case("mse_loss(x, y)", F.mse_loss, normal(5, dtype=bf16), normal(5, dtype=bf16))
    extreme = torch.tensor([1e4, -1e4, 0.0, 50.0, -50.0])
    case("bce_with_logits(x, y, Reduction::none)", lambda x, y: F.binary_cross_entropy_with_logits(x, y.detach(), reduction="none"),
         extreme, torch.tensor([0.0, 0.0, 0.5, 1.0, 1.0]), label="extreme")  # fmt: skip


def attention_cases():
    sdpa = F.scaled_dot_product_attention

    def masked(q, k, v, seen, **rules):  # seen: rows of 0 and 1
        return sdpa(q, k, v, attn_mask=torch.tensor(seen) > 0, **rules)

    attention = "scaled_dot_product_attention(x, y, z"
    for dtype in (f32, bf16):
        case(attention + ")", sdpa, *(normal(2, 3, n, 8, dtype=dtype) for n in (5, 7, 7)))
    case(attention + ", {.causal = true})", lambda x, y, z: sdpa(x, y, z, is_causal=True), *(normal(1, 2, 9, 6) for _ in range(3)))
    case(attention + ", {.causal = true, .scale = 0.3})", lambda x, y, z: masked(
        x, y.repeat_interleave(2, 1), z.repeat_interleave(2, 1), [[j <= i + 2 for j in range(5)] for i in range(3)], scale=0.3),
         normal(2, 4, 3, 5), normal(2, 2, 5, 5), normal(2, 2, 5, 5))
    case(attention + ", {.causal = true, .window = 2})", lambda x, y, z: masked(
        x, y, z, [[i - 2 < j <= i for j in range(6)] for i in range(6)]), *(normal(1, 2, 6, 4) for _ in range(3)))


def joined_cases():
    """Ops that are several of PyTorch's."""

    def joined(x, heads, groups, **rules):
        q, k, v = x.unflatten(2, (heads + 2 * groups, -1)).transpose(1, 2).split((heads, groups, groups), 1)
        shared = [t.repeat_interleave(heads // groups, 1) for t in (k, v)]
        return F.scaled_dot_product_attention(q, *shared, **rules).transpose(1, 2).flatten(2)

    for dtype in (f32, bf16):
        case("joined_attention(x, 3, 3)", lambda x: joined(x, 3, 3), normal(2, 5, 36, dtype=dtype))
    case("joined_attention(x, 4, 2, {.causal = true})", lambda x: joined(x, 4, 2, is_causal=True), normal(2, 6, 40))
    head = lambda **options: lambda x, y, z: F.cross_entropy(F.linear(x, y).flatten(0, -2), z.flatten(), **options)
    features, weight = normal(2, 3, 4), normal(5, 4)
    case("linear_cross_entropy(x, y, z)", head(), features, weight, torch.tensor([[0, 3, 4], [1, -100, 2]]))
    case("linear_cross_entropy(x, y, z, {.label_smoothing = 0.1, .reduction = Reduction::sum})",
         head(label_smoothing=0.1, reduction="sum"), normal(7, 4), weight, torch.tensor([0, 3, 4, 1, 1, 0, 2]))

    mlp = lambda fn: lambda x, y, z, u, v: F.linear(fn(F.linear(x, y, z)), u, v)
    tanh_form = lambda x: F.gelu(x, approximate="tanh")
    for dtype in (f32, f64):
        shapes = (2, 3, 5), (7, 5), (7,), (4, 7), (4,)
        case("mlp(x, y, z, u, v, Activation::gelu_tanh)", mlp(tanh_form), *(normal(*s, dtype=dtype) for s in shapes))
    case("mlp(x, y, z, u, v, Activation::gelu)", mlp(F.gelu), normal(6, 5), normal(8, 5), normal(8), normal(3, 8), normal(3))
    case("mlp(x, y, {}, z, {}, Activation::relu)", lambda x, y, z: F.linear(F.relu(F.linear(x, y)), z), normal(4, 3), normal(6, 3),
         normal(2, 6))
    residual = lambda x, y, z, u: u + F.linear(x, y, z)
    for dtype in (f32, bf16):
        case("linear_residual(x, y, z, u)", residual, *(normal(*s, dtype=dtype) for s in ((2, 3, 5), (4, 5), (4,), (2, 3, 4))))
    case("linear_residual(x, y, {}, z)", lambda x, y, z: z + F.linear(x, y), normal(6, 5), normal(3, 5), normal(6, 3))


def check_complete():
    """Every operation that functions.hpp declares is called by some case."""
    declared = set(re.findall(r"^TT_API \w+ (\w+)\(", FUNCTIONS.read_text(), re.MULTILINE))
    called = set(re.findall(r"\w+", " ".join(key.split("|")[0] for key in tensors)))
    missing = sorted(declared - called)
    if missing:
        sys.exit("no golden case for: " + ", ".join(missing))
    return len(declared)


def main():
    for family in (unary_cases, binary_cases, creation_cases, reduction_cases, shape_cases, matrix_cases, conv_cases, norm_cases,
                   loss_cases, attention_cases, joined_cases):
        family()
    operations = check_complete()
    path = HERE / "ops.safetensors"
    save_file(tensors, path, metadata={"torch": torch.__version__.split("+")[0]})
    cases = len({key.rsplit("|", 1)[0] for key in tensors})
    print(f"{operations} operations, {cases} cases, {len(tensors)} tensors, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
