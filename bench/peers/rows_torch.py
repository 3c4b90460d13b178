"""torch.compile with the functions of bench_rows_cuda, beside a copy of as many bytes.

python bench/peers/rows_torch.py [--json out.json]

Times are medians of CUDA graphs whose calls have operands of their own.
"""

import argparse
import json
import statistics

import torch
from fused_torch import captured

SHAPES = [(65536, 128), (16384, 768), (16384, 1024), (8191, 1023), (4096, 8192), (4096, 50257)]


def softmax(x, weight, bias, target):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def layer_norm(x, weight, bias, target):
    d = x - x.mean(-1, keepdim=True)
    return d * torch.rsqrt((d * d).mean(-1, keepdim=True) + 1e-5) * weight + bias


def cross_entropy(x, weight, bias, target):
    m = x.amax(-1, keepdim=True)
    return torch.log(torch.exp(x - m).sum(-1, keepdim=True)) + m - x.gather(1, target)


def measure(function, rows, n, dtype, rounds):
    torch._dynamo.reset()
    compiled = torch.compile(function, dynamic=False)
    count = max(2, (1 << 28) // (rows * n))
    random = lambda *shape: torch.randn(*shape, device="cuda", dtype=dtype)
    sets = [
        (random(rows, n), random(n), random(n), torch.randint(0, n, (rows, 1), device="cuda")) for _ in range(count)
    ]
    moved = rows * n * sets[0][0].element_size() * (1 if function is cross_entropy else 2)
    sources = [torch.zeros(moved // 2, dtype=torch.uint8, device="cuda") for _ in range(count)]
    run = captured([lambda s=s: compiled(*s) for s in sets])
    copy = captured([lambda s=s: s.clone() for s in sources])
    times = [(run(), copy()) for _ in range(rounds + 2)][2:]
    seconds = statistics.median(t for t, _ in times)
    return {
        "function": function.__name__,
        "dtype": str(dtype).removeprefix("torch."),
        "shape": [rows, n],
        "seconds": seconds,
        "of_copy": statistics.median(c for _, c in times) / seconds,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json")
    options = parser.parse_args()
    found = {"torch": torch.__version__, "device": torch.cuda.get_device_name(), "rows": []}
    for function in (softmax, layer_norm, cross_entropy):
        for dtype in (torch.float32, torch.bfloat16):
            for rows, n in SHAPES:
                row = measure(function, rows, n, dtype, options.rounds)
                found["rows"].append(row)
                print(
                    f"{row['function']:14} {row['dtype']:8} {rows:6} x {n:6}: {row['seconds'] * 1e6:8.1f} us, "
                    f"{row['of_copy']:.2f} of a copy's speed",
                    flush=True,
                )
                if options.json:
                    with open(options.json, "w") as file:
                        json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
