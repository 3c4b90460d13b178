"""Decoding steps of GPT-2 124M or a Llama of 1.2 billion parameters in PyTorch on a GPU, captured by hand as CUDA graphs, for
bench/compare_decode_cuda.py.

Answers one JSON request per line: {"batch": B, "after": TOKENS, "steps": N} gives "seconds" of the median step for each way
of running it: "eager" and "compile" (torch.compile, max-autotune), both captured as one graph. The cache has 1,024 places,
attention masks those that are not in use, and the best token is chosen inside the graph. Nothing but the replay is timed.
"""

import argparse
import json
import statistics
import sys

import torch
import torch.nn.functional as F
from torch import nn

CONTEXT = 1024
LAYERS, HEADS, WIDTH, VOCABULARY = 12, 12, 768, 50304  # of GPT-2
HALF = {"device": "cuda", "dtype": torch.bfloat16}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, keys, values, position, mask):
        batch = x.shape[0]
        q, k, v = self.qkv(self.norm1(x)).view(batch, 1, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        keys.index_copy_(2, position, k)
        values.index_copy_(2, position, v)
        a = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        x = x + self.out(a.transpose(1, 2).reshape(batch, 1, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    cache_shape = LAYERS, HEADS, WIDTH // HEADS

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for p in self.parameters():
            nn.init.normal_(p, 0, 0.02)

    def forward(self, tokens, cache, position, mask):
        x = self.tokens(tokens) + self.positions(position)
        for block, (keys, values) in zip(self.blocks, cache):
            x = block(x, keys, values, position, mask)
        return (self.norm(x) @ self.tokens.weight.t()).argmax(-1)


# The sizes of Llama 3.2 1B.
class LlamaBlock(nn.Module):
    WIDTH, HEADS, GROUPS, HEAD, HIDDEN = 2048, 32, 8, 64, 8192

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(self.WIDTH, 1e-5), nn.RMSNorm(self.WIDTH, 1e-5)
        self.qkv = nn.Linear(self.WIDTH, (self.HEADS + 2 * self.GROUPS) * self.HEAD, bias=False)
        self.out = nn.Linear(self.WIDTH, self.WIDTH, bias=False)
        self.gate_up = nn.Linear(self.WIDTH, 2 * self.HIDDEN, bias=False)
        self.down = nn.Linear(self.HIDDEN, self.WIDTH, bias=False)

    def forward(self, x, keys, values, position, mask, cos, sin):
        batch, turned = x.shape[0], self.HEADS + self.GROUPS
        heads = self.qkv(self.norm1(x)).view(batch, 1, turned + self.GROUPS, self.HEAD).transpose(1, 2)
        a, b = heads[:, :turned].float().chunk(2, -1)
        qk = torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)
        keys.index_copy_(2, position, qk[:, self.HEADS :])
        values.index_copy_(2, position, heads[:, turned:])
        y = F.scaled_dot_product_attention(qk[:, : self.HEADS], keys, values, attn_mask=mask, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, 1, self.WIDTH))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    cache_shape = 16, LlamaBlock.GROUPS, LlamaBlock.HEAD

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(128256, LlamaBlock.WIDTH)
        self.blocks = nn.ModuleList(LlamaBlock() for _ in range(self.cache_shape[0]))
        self.norm = nn.RMSNorm(LlamaBlock.WIDTH, 1e-5)
        for p in self.parameters():
            nn.init.normal_(p, 0, 0.02)
        frequencies = 500000.0 ** (-torch.arange(0, LlamaBlock.HEAD, 2, device="cuda") / LlamaBlock.HEAD)
        angles = torch.arange(CONTEXT, device="cuda")[:, None] * frequencies
        self.cos, self.sin = angles.cos(), angles.sin()

    def forward(self, tokens, cache, position, mask):
        x, cos, sin = self.tokens(tokens), self.cos[position], self.sin[position]
        for block, (keys, values) in zip(self.blocks, cache):
            x = block(x, keys, values, position, mask, cos, sin)
        return (self.norm(x) @ self.tokens.weight.t()).argmax(-1)


class Step:
    """One captured step of B sequences at a fixed position."""

    def __init__(self, model, batch, after, compiled):
        layers, heads, head = model.cache_shape
        shape = (batch, heads, CONTEXT, head)
        cache = [(torch.zeros(shape, **HALF), torch.zeros(shape, **HALF)) for _ in range(layers)]
        tokens = torch.zeros(batch, 1, dtype=torch.long, device="cuda")
        position = torch.tensor([after], device="cuda")
        mask = (torch.arange(CONTEXT, device="cuda") <= position)[None, None, None, :]
        step = torch.compile(model, mode="max-autotune-no-cudagraphs", fullgraph=True) if compiled else model
        for _ in range(4):
            step(tokens, cache, position, mask)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            step(tokens, cache, position, mask)

    def seconds(self, steps):
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
        torch.cuda.synchronize()
        marks[0].record()
        for mark in marks[1:]:
            self.graph.replay()
            mark.record()
        torch.cuda.synchronize()
        return statistics.median(a.elapsed_time(b) for a, b in zip(marks, marks[1:])) * 1e-3


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eager-only", action="store_true", help="leave torch.compile out, which takes a minute")
    parser.add_argument("--model", choices=["gpt2", "llama"], default="gpt2")
    args = parser.parse_args()
    with torch.device("cuda"):  # weights are drawn where they are used
        model = {"gpt2": Gpt2, "llama": Llama}[args.model]()
    model = model.to(torch.bfloat16).eval()
    steps = {}
    for line in sys.stdin:
        request = json.loads(line)
        key = request["batch"], request["after"]
        if key not in steps:
            ways = ["eager"] if args.eager_only else ["eager", "compile"]
            steps[key] = {way: Step(model, *key, way == "compile") for way in ways}
        seconds = {way: step.seconds(request["steps"]) for way, step in steps[key].items()}
        answer = {"seconds": seconds, "torch": torch.__version__, "device": torch.cuda.get_device_name()}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
