"""The cases of bench/cuda_cases.hpp in PyTorch, timed with the method of bench_cuda.

Answers one JSON request per line. A request contains the description of the case that bench_cuda returned, so shapes,
sets and calls are defined in one place:
    {"do": "prepare", "case": {...}, "variant": "eager"}     a variant from the case's list of peers
    {"do": "measure", "variant": "eager", "seconds": 0.02}   measures the prepared case
    {"do": "release"}, {"do": "about"}
Variants: eager; compile (torch.compile, static shapes); max_autotune (torch.compile with mode
max-autotune-no-cudagraphs); channels_last (eager, with images and filters in channels-last layout); flash, cudnn (the
library behind attention). All calls of a sample are captured in a CUDA graph and replayed, unless the case says "graph":
false. With --warm the program only compiles the cases given on standard input, one JSON object per line, so that several
processes can fill the compiler's cache. bench/compare_cuda.py starts this program.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from codes_torch import CODES_OPS, codes_work
from torch_calls import function_of  # noqa: I001
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
BATCH = 8  # samples in flight: all are queued before the first time is read


def normal(shape, dtype, device):
    return torch.randn(shape, device=device).to(dtype)


def compiled(f, variant):
    if variant == "compile":
        return torch.compile(f, dynamic=False)
    if variant == "max_autotune":
        return torch.compile(f, dynamic=False, mode="max-autotune-no-cudagraphs")
    return f


def copy(case, device):
    x = normal(case["shape"], DTYPES[case["dtype"]], device)
    to = torch.empty_like(x)
    return lambda: to.copy_(x)


def row(case, f, device):
    """A row of OP: forward, or backward with the graph of a forward call that is kept. The weight of a linear layer is scaled."""
    dtype, inputs = DTYPES[case["dtype"]], []
    for i, shape in enumerate(case["operands"]):
        is_weight = case["op"].startswith("linear_") and i == 1
        inputs.append((torch.randn(shape, device=device) / shape[-1] ** 0.5).to(dtype) if is_weight else normal(shape, dtype, device))
    if not case["op"].endswith("_backward"):
        return lambda: f(*inputs)
    for t in inputs:
        t.requires_grad_()
    y = f(*inputs)
    dy = normal(y.shape, dtype, device)
    return lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True)


def cross_entropy(case, f, device):
    n, classes = case["shape"]
    logits = normal((n, classes), DTYPES[case["dtype"]], device).requires_grad_()
    target = torch.randint(classes, (n,), device=device)

    def work():
        loss = f(logits, target)
        return loss.detach(), torch.autograd.grad(loss, logits)

    return work


def conv2d(case, variant, device):
    o, dtype = case["options"], DTYPES[case["dtype"]]
    layout = torch.channels_last if variant == "channels_last" else torch.contiguous_format
    x = normal(case["shape"], dtype, device).contiguous(memory_format=layout).requires_grad_()
    w = normal((o["out"], case["shape"][1], o["kernel"], o["kernel"]), dtype, device)
    w = w.contiguous(memory_format=layout).requires_grad_()
    forward = lambda: F.conv2d(x, w, stride=o["stride"], padding=o["padding"])  # noqa: E731
    dy = torch.randn_like(forward())
    return lambda: torch.autograd.grad(forward(), (x, w), dy)


def attention(case, variant, device):
    backend = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[variant]
    if device.type != "cuda":
        backend = SDPBackend.MATH  # a dry run
    inputs = [normal(case["shape"], DTYPES[case["dtype"]], device) for _ in range(3)]

    def forward():
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in inputs), is_causal=True)

    if case["op"] == "attention":
        return forward
    for t in inputs:
        t.requires_grad_()
    y, dy = forward(), normal(case["shape"], DTYPES[case["dtype"]], device).transpose(1, 2)
    return lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True)


def adamw(case, device):
    c, vocabulary, blocks = case["shape"]
    shapes = [(vocabulary, c), (1024, c)]
    for _ in range(blocks):
        shapes += [(c,), (c,), (3 * c, c), (3 * c,), (c, c), (c,), (c,), (c,), (4 * c, c), (4 * c,), (c, 4 * c), (c,)]
    shapes += [(c,), (c,)]
    parameters = [torch.randn(s, device=device).requires_grad_() for s in shapes]
    for p in parameters:
        p.grad = torch.randn_like(p)
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01, fused=True, capturable=case["graph"])
    limit = 1e3

    def work():
        nonlocal limit
        torch.nn.utils.clip_grad_norm_(parameters, limit)
        limit *= 0.999  # after a step the norm equals the limit; a lower limit makes the next step scale again
        optimizer.step()

    return work


def digits_step(case, variant, device):
    """The net of examples/digits_conv.cpp: forward, backward and AdamW."""
    nn = torch.nn
    stage = lambda i, o: nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2)
    )  # noqa: E731, E501
    model = nn.Sequential(stage(1, 8), stage(8, 16), nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True, capturable=device.type == "cuda")
    images = torch.rand(case["shape"][0], 1, 28, 28, device=device)
    labels = torch.randint(10, (case["shape"][0],), device=device)
    loss_of = compiled(lambda x, t: F.cross_entropy(model(x), t), variant)

    def work():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(images, labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return work


class Gpt2(torch.nn.Module):
    """GPT-2 with the head tied to the embedding; attention by scaled_dot_product_attention."""

    def __init__(self, layers, heads, features, vocabulary, context):
        super().__init__()
        nn, c = torch.nn, features
        self.heads = heads
        self.tokens, self.positions = nn.Embedding(vocabulary, c), nn.Embedding(context, c)
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.LayerNorm(c),
                    nn.Linear(c, 3 * c),
                    nn.Linear(c, c),
                    nn.LayerNorm(c),
                    nn.Linear(c, 4 * c),
                    nn.Linear(4 * c, c),
                ]
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(c)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)

    def forward(self, tokens, targets):
        b, t = tokens.shape
        x = self.tokens(tokens) + self.positions.weight[:t]
        for norm_1, qkv, projection, norm_2, up, down in self.blocks:
            q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in qkv(norm_1(x)).chunk(3, -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + projection(y.transpose(1, 2).reshape(b, t, -1))
            x = x + down(F.gelu(up(norm_2(x)), approximate="tanh"))
        return F.cross_entropy(F.linear(self.norm(x), self.tokens.weight).flatten(0, 1), targets.flatten())


def gpt2_step(case, variant, device):
    """Forward, backward, gradient clipping and fused AdamW. Parameters are f32, and autocast computes products in the case's
    dtype, which is PyTorch's way to keep f32 master weights."""
    (b, t, c), o, dtype = case["shape"], case["options"], DTYPES[case["dtype"]]
    model = Gpt2(o["layers"], o["heads"], c, o["vocabulary"], t).to(device)
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=6e-4, fused=True, capturable=device.type == "cuda")
    tokens, targets = (torch.randint(o["vocabulary"], (b, t), device=device) for _ in range(2))
    loss_of = compiled(model, variant)

    def work():
        optimizer.zero_grad(set_to_none=True)
        # Without autocast's cache of casts: a captured graph must not share it with code outside of the graph.
        with torch.autocast(device.type, dtype, cache_enabled=False):
            loss = loss_of(tokens, targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach(), norm

    return work


def works(case, variant, device):
    """Returns one function per set of operands. A compiled function is compiled once for all sets."""
    op = case["op"]
    operands = 2 if op == "cross_entropy" else len(case["operands"])
    f = compiled(function_of(case["torch"], operands), variant) if case["torch"] else None
    if op == "copy":
        make = lambda: copy(case, device)  # noqa: E731
    elif op == "cross_entropy":
        make = lambda: cross_entropy(case, f, device)  # noqa: E731
    elif op == "conv2d":
        make = lambda: conv2d(case, variant, device)  # noqa: E731
    elif op.startswith("attention"):
        make = lambda: attention(case, variant, device)  # noqa: E731
    elif op in CODES_OPS:
        make = lambda: codes_work(case, lambda g: compiled(g, variant), variant, device)  # noqa: E731
    elif op == "adamw":
        make = lambda: adamw(case, device)  # noqa: E731
    elif op == "gpt2_step":
        make = lambda: gpt2_step(case, variant, device)  # noqa: E731
    elif op == "digits_step":
        make = lambda: digits_step(case, variant, device)  # noqa: E731
    else:
        make = lambda: row(case, f, device)  # noqa: E731
    return [make() for _ in range(case["sets"])]


class Prepared:
    def __init__(self, case, variant, device):
        self.case, self.device, self.results = case, device, [None] * case["sets"]
        self.graph = self.capture_error = None
        if device.type != "cuda":
            self.works = works(case, variant, device)
            self.call_all()
            return
        # Forward, backward and capture on one stream: a backward pass runs on the stream of its forward pass.
        self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            self.works = works(case, variant, device)
            for _ in range(3):  # warm-up: compile, autotune, create the libraries' handles
                for work in self.works:
                    work()
        torch.cuda.synchronize()
        if case["graph"]:
            self.capture()
        self.events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(BATCH)]

    def capture(self):
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                self.call_all()
            graph.replay()
            torch.cuda.synchronize()
            self.graph = graph
        except Exception as error:  # noqa: BLE001
            self.capture_error, self.results = f"{type(error).__name__}: {error}"[:1000], [None] * self.case["sets"]
            torch.cuda.synchronize()  # raises if the device is lost

    def call_all(self):
        sets = self.case["sets"]
        for i in range(self.case["calls"]):
            self.results[i % sets] = self.works[i % sets]()

    def sample(self):
        """Returns the seconds of each sample of a batch."""
        if self.device.type != "cuda":
            start = time.perf_counter()
            self.call_all()
            return [max(time.perf_counter() - start, 1e-9)]
        run = self.graph.replay if self.graph else self.call_all
        with torch.cuda.stream(self.stream):
            for start, end in self.events:
                start.record()
                run()
                end.record()
        self.stream.synchronize()
        return [start.elapsed_time(end) * 1e-3 for start, end in self.events]

    def measure(self, budget):
        deadline = time.perf_counter() + budget
        self.sample()  # warm-up: the GPU raises its clocks
        samples = []
        while True:
            samples += [seconds / self.case["calls"] for seconds in self.sample()]
            if time.perf_counter() >= deadline or len(samples) >= 2000:
                break
        return {"seconds": statistics.median(samples), "best": min(samples), "samples": len(samples)}


class Server:
    def __init__(self, device):
        self.device, self.prepared = device, {}

    def answer(self, request):
        what = request["do"]
        if what == "prepare":
            start = time.perf_counter()
            on_device = self.device.type == "cuda"
            before = torch.cuda.memory_allocated() if on_device else 0  # by the other prepared variants
            if on_device:
                torch.cuda.reset_peak_memory_stats()
            prepared = Prepared(request["case"], request["variant"], self.device)
            self.prepared[request["variant"]] = prepared
            answer = {"mode": "graph" if prepared.graph else "stream", "prepared_in": time.perf_counter() - start}
            if on_device:
                answer["peak_bytes"] = torch.cuda.max_memory_allocated() - before
            return answer | ({"capture_error": prepared.capture_error} if prepared.capture_error else {})
        if what == "measure":
            return self.prepared[request["variant"]].measure(request["seconds"])
        if what == "release":
            self.prepared = {}
            torch._dynamo.reset()  # the functions of the next case have the same code objects
            gc.collect()
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            return {}
        if what == "about":
            about = {"torch": torch.__version__, "cuda": torch.version.cuda, "device": str(self.device)}
            if self.device.type == "cuda":
                about |= {"device": torch.cuda.get_device_name(), "cudnn": torch.backends.cudnn.version()}
                about |= {
                    "conv_tf32": torch.backends.cudnn.allow_tf32,
                    "matmul_tf32": torch.backends.cuda.matmul.allow_tf32,
                }  # noqa: E501
            return about
        return {"error": f"unknown request: {what}"}


def warm(server):
    """Compiles the cases on standard input. A failure is only printed; the measurement reports it again."""
    for line in sys.stdin:
        case = {**json.loads(line), "sets": 1, "calls": 1, "graph": False}
        try:
            server.answer({"do": "prepare", "case": case, "variant": "compile"})
        except Exception as error:  # noqa: BLE001
            print(f"{case['name']}: {error}", file=sys.stderr)
        server.answer({"do": "release"})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--warm", action="store_true")
    args = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of the compiler goes to stderr, since stdout is for answers
    # A backward graph is run many times, so its first run must not reuse its buffers for results.
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor

    functorch.donated_buffer = False
    # Only the measuring process autotunes, because timings by several processes at once disturb each other.
    inductor.autotune_local_cache = not args.warm
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    server = Server(torch.device(args.device))
    if args.warm:
        return warm(server)
    for line in sys.stdin:
        try:
            answer = server.answer(json.loads(line))
        except Exception as error:  # noqa: BLE001
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
