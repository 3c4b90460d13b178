"""The training step of bench/bench_gpt2.cpp in PyTorch on the CPU: plain modules, F.scaled_dot_product_attention.

Answers one JSON request per line. {"load": path} loads the weights and tokens that bench_gpt2 saved and answers the
version of torch, the number of threads and "fused". {"step": true} does one step and answers "seconds", "processor" (its
processor seconds) and "loss". bench/compare_gpt2.py starts this program, which needs torch and safetensors. Modules have
the same names as in the library, so that the weights load without a mapping.
"""

import argparse
import json
import sys
import time

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, CONTEXT, FEATURES, LAYERS, HEADS = 50257, 1024, 768, 12, 12


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(FEATURES, 3 * FEATURES)
        self.projection = nn.Linear(FEATURES, FEATURES)

    def forward(self, x):
        batch, length, features = x.shape
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in self.qkv(x).split(features, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.projection(y.transpose(1, 2).reshape(batch, length, features))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(FEATURES, 4 * FEATURES)
        self.down = nn.Linear(4 * FEATURES, FEATURES)

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm = nn.LayerNorm(FEATURES)
        self.attention = Attention()
        self.mlp_norm = nn.LayerNorm(FEATURES)
        self.mlp = Mlp()

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embedding = nn.Embedding(VOCABULARY, FEATURES)
        self.position_embedding = nn.Embedding(CONTEXT, FEATURES)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.final_norm = nn.LayerNorm(FEATURES)

    def forward(self, tokens, targets):
        x = self.token_embedding(tokens) + self.position_embedding.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.final_norm(x), self.token_embedding.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


class Training:
    def __init__(self, path, fused):
        tensors = safetensors.torch.load_file(path)
        self.tokens, self.targets = tensors.pop("tokens"), tensors.pop("targets")
        self.model = Gpt2()
        self.model.load_state_dict(tensors)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=fused
        )

    def step(self):
        self.optimizer.zero_grad()
        loss = self.model(self.tokens, self.targets)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--fused", action="store_true", help="fused AdamW, which is not PyTorch's default on the CPU")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    training = None
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"torch": torch.__version__, "threads": torch.get_num_threads(), "fused": args.fused}
        if "load" in request:
            training = Training(request["load"], args.fused)
        if "step" in request:
            wall, processor = time.perf_counter(), time.process_time()
            loss = training.step()
            answer = {"seconds": time.perf_counter() - wall, "processor": time.process_time() - processor, "loss": loss}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
