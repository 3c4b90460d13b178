"""PyTorch's side of the rows OP("call in PyTorch", call in C++) of tests/support/cases: the names that a row may use."""

import torch
import torch.nn.functional as F

inf, nan = float("inf"), float("nan")
f32, f64, bf16, f16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
i64, i32, i8, u8 = torch.int64, torch.int32, torch.int8, torch.uint8


def residual_norm(total, norm, *parameters):
    """The normalized sum, and the sum."""
    return norm(total, total.shape[-1:], *parameters), total


def batch_norm_with_statistics(x, y, z):
    dims = [d for d in range(x.dim()) if d != 1]
    return F.batch_norm(x, None, None, y, z, training=True, eps=1e-5), x.mean(dims), x.var(dims, correction=0)


def head_loss(x, y, z, **options):
    return F.cross_entropy(F.linear(x, y).flatten(0, -2), z.flatten(), **options)


def visible(x, y, window=inf):
    """Causal mask, aligned at the last query and the last key: a query sees at most `window` keys."""
    queries, keys = x.shape[-2], y.shape[-2]
    distance = torch.arange(queries)[:, None] + (keys - queries) - torch.arange(keys)
    return (distance >= 0) & (distance < window)


def grouped_attention(q, k, v, **rules):
    group = q.shape[1] // k.shape[1]
    return F.scaled_dot_product_attention(q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), **rules)


def joined_attention(x, heads, groups, **rules):
    q, k, v = x.unflatten(2, (heads + 2 * groups, -1)).transpose(1, 2).split((heads, groups, groups), 1)
    return grouped_attention(q, k, v, **rules).transpose(1, 2).flatten(2)


def function_of(call, operands):
    """The call, such as "F.linear(x, y)", as a function of that many operands."""
    return eval(f"lambda {', '.join('xyzuv'[:operands])}: {call}", globals())
