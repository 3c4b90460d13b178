"""The cases of bench/codes_cases.hpp in PyTorch: rows that are quantized, and products of 8-bit codes."""

import torch
import torch.nn.functional as F

CODES_OPS = ("quantize_rows", "codes_product", "int8_linear")
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def quantized(x, fp8, whole=False):
    """Codes and scales of the rows of x, or of the whole matrix."""
    x = x.float()
    largest = x.abs().amax() if whole else x.abs().amax(dim=-1, keepdim=True)
    scale = largest / (448 if fp8 else 127)
    if fp8:
        return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale
    return (x / scale).round().clamp(-127, 127).to(torch.int8), scale


def int8_linear(x, w, w_scale, bias):
    """Activations of bf16, weights of int8 with a scale per row: the chain of a quantized layer."""
    codes, scale = quantized(x, False)
    sums = torch._int_mm(codes, w.t())
    return (sums.float() * scale * w_scale + bias).to(torch.bfloat16)


def codes_work(case, compiled, variant, device):
    op, shape, o = case["op"], case["shape"], case["options"]
    random = lambda *sizes: torch.randn(sizes, device=device)  # noqa: E731
    if op == "quantize_rows":
        x, f = random(*shape).to(DTYPES[case["dtype"]]), compiled(quantized)
        return lambda: f(x, bool(o["fp8"]))
    m, k, n = shape
    if op == "int8_linear":
        x, bias = random(m, k).to(torch.bfloat16), random(n)
        w, w_scale = quantized(random(n, k), False)
        w_scale, f = w_scale.reshape(1, n), compiled(int8_linear)
        return lambda: f(x, w, w_scale, bias)
    if variant == "bf16":
        x, w = random(m, k).to(torch.bfloat16), random(n, k).to(torch.bfloat16)
        return lambda: F.linear(x, w)
    fp8, whole = bool(o["fp8"]), not o["of_rows"]
    (x, x_scale), (w, w_scale) = (quantized(random(rows, k), fp8, whole) for rows in (m, n))
    if not fp8:
        return lambda: torch._int_mm(x, w.t())
    w_scale = w_scale if whole else w_scale.reshape(1, n)
    return lambda: torch._scaled_mm(x, w.t(), scale_a=x_scale, scale_b=w_scale, out_dtype=torch.bfloat16)
