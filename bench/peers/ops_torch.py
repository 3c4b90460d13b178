"""The cases of bench/common/op_cases.hpp in PyTorch on the CPU, timed with the method of bench_ops.

Answers one request per line. The JSON object {"name", "n", "seconds"} measures a case; the answer has "name", "n", the
median "seconds", the "best", the median "processor" seconds and the number of "samples". The word list returns the names
of the cases, the word version the version and threads of torch. bench/compare_ops.py starts this program, which needs
torch.
"""

import argparse
import json
import math
import re
import statistics
import sys
import time

import torch
import torch.nn.functional as F


class Inputs:
    def __init__(self, n):
        self.n, self.side = n, round(math.sqrt(n))
        self.cols = min(1024, self.side)
        self.rows = n // self.cols
        self.channels = 16 if n >= 16 * 1024 else 1
        self.images = max(1, n // (self.channels * 1024))
        rows, cols, ch = self.rows, self.cols, self.channels
        self.x, self.y, self.positive = torch.randn(n), torch.randn(n), torch.rand(n) + 0.5
        self.m, self.k, self.flags = torch.randn(rows, cols), torch.randn(rows, cols), torch.randn(rows, cols) > 0
        self.integers, self.row, self.column = torch.randint(cols, (rows, cols)), torch.randn(cols), torch.randn(rows, 1)
        self.row_index, self.column_index = torch.randint(rows, (rows,)), torch.randint(rows, (rows, cols))
        self.square, self.other = torch.randn(self.side, self.side), torch.randn(self.side, self.side)
        self.weight, self.class_of = torch.randn(cols, cols), torch.randint(cols, (rows,))
        self.image, self.filter = torch.randn(self.images, ch, 32, 32), torch.randn(ch, ch, 3, 3)
        self.filter_bias, self.channel, self.channel_positive = torch.randn(ch), torch.randn(ch), torch.rand(ch) + 0.5
        self.half = self.x.bfloat16()


def heads(vector):
    return vector.view(1, 12, 1024, 64)


def attend(q, k, v, causal):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def layer_norm(x, w, b):
    return F.layer_norm(x, w.shape, w, b)


def rms_norm(x, w):
    return F.rms_norm(x, w.shape, w)


def add_and_norm(x, residual, norm, *parameters):
    total = x + residual
    return norm(total, *parameters), total


FORWARD = {
    "full": lambda i: torch.full((i.n,), 1.5), "arange": lambda i: torch.arange(0, i.n), "linspace": lambda i: torch.linspace(0, 1, i.n),
    "eye": lambda i: torch.eye(i.side), "rand": lambda i: torch.rand(i.n), "randn": lambda i: torch.randn(i.n),
    "randint": lambda i: torch.randint(0, 100, (i.n,)), "bernoulli": lambda i: torch.empty(i.n).bernoulli_(0.3),
    "neg": lambda i: torch.neg(i.x), "abs": lambda i: torch.abs(i.x), "sign": lambda i: torch.sign(i.x), "square": lambda i: torch.square(i.x),
    "clamp": lambda i: torch.clamp(i.x, -0.5, 0.5), "floor": lambda i: torch.floor(i.x), "ceil": lambda i: torch.ceil(i.x),
    "round": lambda i: torch.round(i.x), "logical_not": lambda i: torch.logical_not(i.flags), "exp": lambda i: torch.exp(i.x),
    "log": lambda i: torch.log(i.positive), "sqrt": lambda i: torch.sqrt(i.positive), "rsqrt": lambda i: torch.rsqrt(i.positive),
    "reciprocal": lambda i: torch.reciprocal(i.positive), "sin": lambda i: torch.sin(i.x), "cos": lambda i: torch.cos(i.x),
    "tanh": lambda i: torch.tanh(i.x), "sigmoid": lambda i: torch.sigmoid(i.x), "erf": lambda i: torch.erf(i.x), "relu": lambda i: torch.relu(i.x),
    "leaky_relu": lambda i: F.leaky_relu(i.x), "silu": lambda i: F.silu(i.x), "gelu": lambda i: F.gelu(i.x),
    "gelu_tanh": lambda i: F.gelu(i.x, approximate="tanh"), "exp bf16": lambda i: torch.exp(i.half), "relu bf16": lambda i: torch.relu(i.half),
    "add": lambda i: torch.add(i.x, i.y), "sub": lambda i: torch.sub(i.x, i.y), "mul": lambda i: torch.mul(i.x, i.y), "div": lambda i: torch.div(i.x, i.y),
    "pow": lambda i: torch.pow(i.positive, i.y), "maximum": lambda i: torch.maximum(i.x, i.y), "minimum": lambda i: torch.minimum(i.x, i.y),
    "eq": lambda i: torch.eq(i.x, i.y), "ne": lambda i: torch.ne(i.x, i.y), "lt": lambda i: torch.lt(i.x, i.y), "le": lambda i: torch.le(i.x, i.y),
    "gt": lambda i: torch.gt(i.x, i.y), "ge": lambda i: torch.ge(i.x, i.y), "logical_and": lambda i: torch.logical_and(i.flags, i.flags),
    "logical_or": lambda i: torch.logical_or(i.flags, i.flags), "add scalar": lambda i: i.x + 1.5, "add row": lambda i: i.m + i.row,
    "add column": lambda i: i.m + i.column, "add transposed": lambda i: i.square + i.other.T, "add bf16": lambda i: i.half + i.half,
    "where": lambda i: torch.where(i.flags, i.m, i.k), "masked_fill": lambda i: i.m.masked_fill(i.flags, 0),
    "sum": lambda i: i.x.sum(), "sum rows": lambda i: i.m.sum(1), "sum columns": lambda i: i.m.sum(0), "mean": lambda i: i.x.mean(),
    "mean rows": lambda i: i.m.mean(1), "prod": lambda i: i.positive.prod(), "max": lambda i: i.x.amax(), "max rows": lambda i: i.m.amax(1),
    "max columns": lambda i: i.m.amax(0), "min": lambda i: i.x.amin(), "any": lambda i: i.flags.any(), "all": lambda i: i.flags.all(),
    "any rows": lambda i: i.flags.any(1), "var": lambda i: i.x.var(), "var rows": lambda i: i.m.var(1), "var columns": lambda i: i.m.var(0),
    "stddev rows": lambda i: i.m.std(1), "norm": lambda i: torch.linalg.vector_norm(i.x), "norm rows": lambda i: torch.linalg.vector_norm(i.m, dim=1),
    "argmax rows": lambda i: i.m.argmax(1), "argmax columns": lambda i: i.m.argmax(0), "argmin rows": lambda i: i.m.argmin(1),
    "cumsum rows": lambda i: i.m.cumsum(1), "cumsum columns": lambda i: i.m.cumsum(0), "cumsum": lambda i: i.x.cumsum(0),
    "prod rows": lambda i: i.positive.view(i.rows, i.cols).prod(1), "min rows": lambda i: i.m.amin(1), "min columns": lambda i: i.m.amin(0),
    "all rows": lambda i: i.flags.all(1), "any columns": lambda i: i.flags.any(0), "norm columns": lambda i: torch.linalg.vector_norm(i.m, dim=0),
    "argmin columns": lambda i: i.m.argmin(0), "sum bf16": lambda i: i.half.sum(),
    "sum_to": lambda i: i.m.sum_to_size(i.row.shape), "logsumexp rows": lambda i: i.m.logsumexp(1),
    "reshape": lambda i: i.x.reshape(i.rows, i.cols), "transpose": lambda i: i.m.transpose(0, 1), "slice": lambda i: i.x[1:-1],
    "clone": lambda i: i.x.clone(), "contiguous transposed": lambda i: i.square.T.contiguous(),
    "contiguous permuted": lambda i: i.image.permute(0, 2, 3, 1).contiguous(), "cast bf16": lambda i: i.x.bfloat16(),
    "cast f32": lambda i: i.half.float(), "cast i64": lambda i: i.x.long(), "cat": lambda i: torch.cat((i.x, i.y)),
    "cat columns": lambda i: torch.cat((i.m, i.k), 1), "stack": lambda i: torch.stack((i.x, i.y), 1), "pad": lambda i: F.pad(i.m, (2, 2, 1, 1)),
    "flip": lambda i: i.m.flip(0), "flip rows": lambda i: i.m.flip(1), "tril": lambda i: i.square.tril(), "triu": lambda i: i.square.triu(),
    "index_select": lambda i: i.m.index_select(0, i.row_index), "gather rows": lambda i: i.m.gather(1, i.integers),
    "gather columns": lambda i: i.m.gather(0, i.column_index), "scatter_add rows": lambda i: i.m.scatter_add(1, i.integers, i.k),
    "scatter_add columns": lambda i: i.m.scatter_add(0, i.column_index, i.k), "sort rows": lambda i: torch.sort(i.m, stable=True),
    "sort": lambda i: torch.sort(i.x, stable=True), "sort i64": lambda i: torch.sort(i.integers, stable=True),
    "topk rows": lambda i: i.m.topk(10), "topk": lambda i: i.x.topk(10),
    "matmul": lambda i: i.square @ i.other, "matmul transposed": lambda i: i.square @ i.other.T, "matmul vector": lambda i: i.square @ i.other[0],
    "linear": lambda i: F.linear(i.m, i.weight, i.row),
    "linear_residual": lambda i: i.k + F.linear(i.m, i.weight, i.row), "conv2d": lambda i: F.conv2d(i.image, i.filter, i.filter_bias, padding=1),
    "max_pool2d": lambda i: F.max_pool2d(i.image, 2), "avg_pool2d": lambda i: F.avg_pool2d(i.image, 2),
    "adaptive_avg_pool2d": lambda i: F.adaptive_avg_pool2d(i.image, 4), "softmax": lambda i: i.m.softmax(-1),
    "log_softmax": lambda i: i.m.log_softmax(-1), "softmax columns": lambda i: i.m.softmax(0),
    "layer_norm": lambda i: F.layer_norm(i.m, (i.cols,), i.row, i.row), "rms_norm": lambda i: F.rms_norm(i.m, (i.cols,), i.row),
    "bias_activation": lambda i: F.gelu(i.m + i.row), "residual_layer_norm": lambda i: add_and_norm(i.m, i.k, layer_norm, i.row, i.row),
    "residual_rms_norm": lambda i: add_and_norm(i.m, i.k, rms_norm, i.row),
    "batch_norm_train": lambda i: F.batch_norm(i.image, None, None, i.channel, i.channel, training=True),
    "batch_norm_infer": lambda i: F.batch_norm(i.image, i.channel, i.channel_positive, i.channel, i.channel),
    "group_norm": lambda i: F.group_norm(i.image, i.channels, i.channel, i.channel), "embedding": lambda i: F.embedding(i.row_index, i.m),
    "dropout": lambda i: F.dropout(i.x, 0.1), "cross_entropy": lambda i: F.cross_entropy(i.m, i.class_of), "mse_loss": lambda i: F.mse_loss(i.x, i.y),
    "bce_with_logits": lambda i: F.binary_cross_entropy_with_logits(i.x, i.positive),
    "attention": lambda i: attend(heads(i.x), heads(i.y), heads(i.positive), False),
    "attention causal": lambda i: attend(heads(i.x), heads(i.y), heads(i.positive), True),
}  # fmt: skip

# name: operands, call
WITH_GRAD = {
    "conv2d": (lambda i: (i.image, i.filter, i.filter_bias), lambda x, w, b: F.conv2d(x, w, b, padding=1)),
    "max_pool2d": (lambda i: (i.image,), lambda x: F.max_pool2d(x, 2)), "softmax": (lambda i: (i.m,), lambda x: x.softmax(-1)),
    "layer_norm": (lambda i: (i.m, i.row, i.row), layer_norm), "rms_norm": (lambda i: (i.m, i.row), rms_norm),
    "log_softmax": (lambda i: (i.m,), lambda x: x.log_softmax(-1)), "bias_activation": (lambda i: (i.m, i.row), lambda x, b: F.gelu(x + b)),
    "cross_entropy": (lambda i: (i.m, i.class_of), F.cross_entropy), "embedding": (lambda i: (i.m, i.row_index), lambda w, index: F.embedding(index, w)),
    "gelu": (lambda i: (i.x,), F.gelu), "relu": (lambda i: (i.x,), torch.relu), "mul": (lambda i: (i.x, i.y), torch.mul),
    "add row": (lambda i: (i.m, i.row), torch.add), "sum rows": (lambda i: (i.m,), lambda x: x.sum(1)),
    "matmul": (lambda i: (i.square, i.other), torch.matmul), "linear": (lambda i: (i.m, i.weight, i.row), F.linear),
    "gather rows": (lambda i: (i.m, i.integers), lambda x, index: x.gather(1, index)),
    "attention": (lambda i: (heads(i.x), heads(i.y), heads(i.positive)), lambda q, k, v: attend(q, k, v, False)),
    "attention causal": (lambda i: (heads(i.x), heads(i.y), heads(i.positive)), lambda q, k, v: attend(q, k, v, True)),
}  # fmt: skip




def conv_case(name):
    """Parses a name such as "conv2d 32x16x32x32 to 16, 3x3 stride 1", which may end with "depthwise", "nhwc" or both.
    Returns (operands, call), or None for other names."""
    pattern = r"conv2d (\d+)x(\d+)x(\d+)x(\d+) to (\d+), (\d+)x(\d+) stride (\d+)( depthwise)?( nhwc)?"
    found = re.fullmatch(pattern, name)
    if not found:
        return None
    n, c, h, w, m, kh, kw, stride = map(int, found.groups()[:8])
    groups = c if found[9] else 1
    layout = torch.channels_last if found[10] else torch.contiguous_format

    def images(vector, *shape):
        return vector[: math.prod(shape)].view(shape).contiguous(memory_format=layout)

    def operands(i):
        return images(i.x, n, c, h, w), images(i.y, m, c // groups, kh, kw)

    return operands, lambda x, w: F.conv2d(x, w, stride=stride, padding=kh // 2, groups=groups)


ROW_CALLS = {
    "softmax": lambda x: F.softmax(x, 1), "log_softmax": lambda x: F.log_softmax(x, 1), "layer_norm": layer_norm, "rms_norm": rms_norm,
    "sum": lambda x: x.sum(1), "max": lambda x: x.amax(1), "argmax": lambda x: x.argmax(1),
}  # fmt: skip


def row_case(name):
    """Parses a name such as "rows 7x100003 softmax". Returns (operands, call), or None for other names."""
    found = re.fullmatch(r"rows (\d+)x(\d+) (\w+)", name)
    if not found:
        return None
    rows, cols, op = int(found[1]), int(found[2]), found[3]

    def operands(i):
        more = {"layer_norm": (i.y[:cols], i.positive[:cols]), "rms_norm": (i.y[:cols],)}.get(op, ())
        return i.x[: rows * cols].view(rows, cols), *more

    return operands, ROW_CALLS[op]


def shaped(vector, *shape):
    return vector[: math.prod(shape)].view(shape)


LAYOUTS = {
    "across 2000x2000 add": lambda i: shaped(i.x, 2000, 2000) + shaped(i.y, 2000, 2000).t(),
    "across 1031x4001 lt": lambda i: shaped(i.x, 1031, 4001) < shaped(i.y, 4001, 1031).t(),
    "across 64x256x250 mul permuted": lambda i: shaped(i.x, 64, 256, 250) * shaped(i.y, 250, 64, 256).permute(1, 2, 0),
    "across 2000x2000 add bf16": lambda i: shaped(i.half, 2000, 2000) + shaped(i.half, 2000, 2000).t(),
    "across 100000x33 sub": lambda i: shaped(i.x, 100_000, 33) - shaped(i.y, 33, 100_000).t(),
    "across 250x64x256 contiguous permuted": lambda i: shaped(i.x, 64, 256, 250).permute(2, 0, 1).contiguous(),
    "far apart 4000x64 of 1000 add": lambda i: shaped(i.x, 4000, 1000)[:, 3:67] + shaped(i.y, 4000, 1000)[:, 5:69],
    "far apart 2000x500 of 2000 softmax": lambda i: F.softmax(shaped(i.x, 2000, 2000)[:, 1:501], 1),
    "far apart 2000x500 of 2000 sum": lambda i: shaped(i.x, 2000, 2000)[:, 1:501].sum(1),
}


def adamw(inputs, **kind):
    parameters = []
    for k in range(10):
        part = slice(k * 1_000_000, (k + 1) * 1_000_000)
        parameters.append(inputs.x[part].clone().requires_grad_())
        parameters[-1].grad = inputs.y[part].clone()
    return torch.optim.AdamW(parameters, **kind).step


def digits_epoch(inputs):
    images, batch = 2048, 32
    pictures, labels = inputs.x[: images * 28 * 28].view(images, 1, 28, 28), torch.randint(10, (images,))
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 7 * 7, 10))
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)

    def work():
        for first in range(0, images, batch):
            optimizer.zero_grad()
            F.cross_entropy(net(pictures[first : first + batch]), labels[first : first + batch]).backward()
            optimizer.step()

    return work


TRAINING = {"adamw 10M, fused": lambda i: adamw(i, fused=True), "adamw 10M, foreach": lambda i: adamw(i, foreach=True),
            "digits epoch": digits_epoch}


def prepare(name, inputs):
    if name in TRAINING:
        return TRAINING[name](inputs)
    if name in LAYOUTS:
        return lambda: LAYOUTS[name](inputs)
    shaped_case = conv_case(name.removesuffix("+grad")) or row_case(name.removesuffix("+grad"))
    if shaped_case and not name.endswith("+grad"):
        operands, call = shaped_case
        given = operands(inputs)
        return lambda: call(*given)
    if name in FORWARD:
        call = FORWARD[name]
        return lambda: call(inputs)
    operands, call = shaped_case or WITH_GRAD[name.removesuffix("+grad")]
    leaves = [t.detach().requires_grad_() if t.is_floating_point() else t for t in operands(inputs)]
    g = torch.ones_like(call(*leaves))

    def work():
        call(*leaves).backward(g)
        for t in leaves:
            t.grad = None

    return work


def sample(work, budget):
    """Returns lists of wall-clock and processor seconds per call. It takes samples until `budget` seconds are over; each
    sample consists of calls that together last about 50 microseconds."""
    clock, processor = time.perf_counter, time.process_time
    start = clock()
    work()
    calls = max(1, int(5e-5 / max(clock() - start, 1e-9)))
    repeats = range(calls)
    samples, processor_samples = [], []
    deadline = clock() + budget
    while True:
        processor_start = processor()
        start = clock()
        for _ in repeats:
            work()
        end = clock()
        processor_samples.append((processor() - processor_start) / calls)
        samples.append((end - start) / calls)
        if end >= deadline or len(samples) >= 1000:
            return samples, processor_samples


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    torch.set_num_threads(parser.parse_args().threads)
    inputs = None
    for line in sys.stdin:
        line = line.strip()
        if line == "list":
            answer = [*FORWARD, *(f"{name}+grad" for name in WITH_GRAD), *LAYOUTS, *TRAINING]
        elif line == "version":
            answer = {"torch": torch.__version__, "threads": torch.get_num_threads()}
        else:
            request = json.loads(line)
            if inputs is None or inputs.n != request["n"]:
                inputs = None
                inputs = Inputs(request["n"])
            work = prepare(request["name"], inputs)
            work()
            samples, processor_samples = sample(work, request["seconds"])
            answer = {**request, "seconds": statistics.median(samples), "best": min(samples),
                      "processor": statistics.median(processor_samples), "samples": len(samples)}  # fmt: skip
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
