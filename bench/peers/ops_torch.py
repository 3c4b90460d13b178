"""The cases of bench/common/op_cases.hpp in PyTorch on the CPU, timed with the method of bench_ops.

Answers one request per line. The JSON object {"name", "n", "seconds", "torch", "operands", "backward"} measures a case: torch is
a call over x, y, z, u and v, and operands has an expression over the tensors of Inputs for each of them. The answer has
"name", "n", the median "seconds", the "best", the median "processor" seconds and the number of "samples". The word version
returns the version and threads of torch. bench/compare_ops.py starts this program, which needs torch.
"""

import argparse
import json
import math
import statistics
import sys
import time
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch_calls import function_of


class Inputs:
    """The tensors of common/op_inputs.hpp."""

    def __init__(self, n):
        self.n, side = n, round(math.sqrt(n))
        cols = min(1024, side)
        rows = n // cols
        ch = 16 if n >= 16 * 1024 else 1
        images = max(1, n // (ch * 1024))
        self.x, self.y, self.positive = torch.randn(n), torch.randn(n), torch.rand(n) + 0.5
        self.half = self.x.bfloat16()
        self.m, self.k, self.flags = torch.randn(rows, cols), torch.randn(rows, cols), torch.randn(rows, cols) > 0
        self.positive_m = self.positive[: rows * cols].view(rows, cols)
        self.integers, self.row, self.column = torch.randint(cols, (rows, cols)), torch.randn(cols), torch.randn(rows, 1)
        self.row_index, self.column_index = torch.randint(rows, (rows,)), torch.randint(rows, (rows, cols))
        self.square, self.other = torch.randn(side, side), torch.randn(side, side)
        self.square_t, self.other_t, self.other_row = self.square.T, self.other.T, self.other[0]
        self.weight, self.class_of = torch.randn(cols, cols), torch.randint(cols, (rows,))
        self.image, self.filter = torch.randn(images, ch, 32, 32), torch.randn(ch, ch, 3, 3)
        self.image_nhwc = self.image.permute(0, 2, 3, 1)
        self.filter_bias, self.channel, self.channel_positive = torch.randn(ch), torch.randn(ch), torch.rand(ch) + 0.5
        if n == 12 * 1024 * 64:
            self.queries, self.keys, self.values = (t.view(1, 12, 1024, 64) for t in (self.x, self.y, self.positive))


def shaped(vector, *shape):
    """The first elements of a vector as a tensor of this shape."""
    return vector[: math.prod(shape)].view(shape)


def images(vector, *shape, nhwc):
    return shaped(vector, *shape).contiguous(memory_format=torch.channels_last if nhwc else torch.contiguous_format)


def optimizer_step(kind, x, y, *shape):
    """A step of an optimizer of this kind for ten parameters of a million elements."""
    parameters = []
    for k in range(10):
        part = slice(k * 1_000_000, (k + 1) * 1_000_000)
        parameters.append(x[part].view(shape).clone().requires_grad_())
        parameters[-1].grad = y[part].view(shape).clone()
    return kind(parameters).step


def forward_or_both(net, forward, backward):
    """A call of a layer without gradients; or its forward and backward pass."""

    def work():
        if backward:
            net.zero_grad()
            forward().sum().backward()
        else:
            with torch.no_grad():
                forward()

    return work


def recurrent(net, x, with_lengths, backward):
    steps, sequences = x.shape[:2]
    if not with_lengths:
        return forward_or_both(net, lambda: net(x)[0], backward)
    lengths = steps - torch.arange(sequences) % (steps // 2)

    def forward():
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(net(packed)[0])[0]

    return forward_or_both(net, forward, backward)


def attention_layer(features, heads, x, backward):
    net = nn.MultiheadAttention(features, heads, batch_first=True)
    return forward_or_both(net, lambda: net(x, x, x, need_weights=False)[0], backward)


def digits_epoch(x):
    images, batch = 2048, 32
    pictures, labels = x[: images * 28 * 28].view(images, 1, 28, 28), torch.randint(10, (images,))
    net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 7 * 7, 10))
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)

    def work():
        for first in range(0, images, batch):
            optimizer.zero_grad()
            F.cross_entropy(net(pictures[first : first + batch]), labels[first : first + batch]).backward()
            optimizer.step()

    return work


def prepare(request, inputs):
    """The work of a request, as a function without arguments."""
    if not request["operands"]:
        return eval(request["torch"], globals(), vars(inputs))
    given = [eval(text, globals(), vars(inputs)) for text in request["operands"]]
    call = function_of(request["torch"], len(given))
    if not request["backward"]:
        return lambda: call(*given)
    leaves = [t.detach().requires_grad_() if t.is_floating_point() else t for t in given]
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
        if line == "version":
            answer = {"torch": torch.__version__, "threads": torch.get_num_threads()}
        else:
            request = json.loads(line)
            if inputs is None or inputs.n != request["n"]:
                inputs = None
                inputs = Inputs(request["n"])
            work = prepare(request, inputs)
            work()
            samples, processor_samples = sample(work, request["seconds"])
            answer = {"name": request["name"], "n": request["n"], "seconds": statistics.median(samples), "best": min(samples),
                      "processor": statistics.median(processor_samples), "samples": len(samples)}  # fmt: skip
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
