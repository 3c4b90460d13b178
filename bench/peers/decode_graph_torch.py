"""Decoding steps of GPT-2 124M in PyTorch on a GPU, captured by hand as CUDA graphs, for bench/compare_decode_cuda.py.

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

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY = 12, 12, 768, 1024, 50304
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


class Decoder(nn.Module):
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


class Step:
    """One captured step of B sequences at a fixed position."""

    def __init__(self, model, batch, after, compiled):
        shape = (batch, HEADS, CONTEXT, WIDTH // HEADS)
        cache = [(torch.zeros(shape, **HALF), torch.zeros(shape, **HALF)) for _ in range(LAYERS)]
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
    args = parser.parse_args()
    model = Decoder().to(**HALF).eval()
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
