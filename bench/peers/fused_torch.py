"""torch.compile with the chains of bench_fused_cuda, beside a copy of as many bytes.

python bench/peers/fused_torch.py [--elements N] [--json out.json]

Times are medians of CUDA graphs whose calls have operands of their own.
"""

import argparse
import json
import statistics

import torch
import torch.nn.functional as F

COLUMNS = 4096


def light(a, b, c):
    return torch.relu((a + b) * a - b) * c + a


def block(x, bias, mask, residual):
    return F.gelu(x + bias, approximate="tanh") * mask.to(x.dtype) + residual


def operands(chain, n, dtype):
    whole = lambda: torch.randn(n // COLUMNS, COLUMNS, device="cuda", dtype=dtype)
    if chain is light:
        return whole(), whole(), torch.randn((), device="cuda", dtype=dtype)
    return whole(), torch.randn(COLUMNS, device="cuda", dtype=dtype), whole() > 0, whole()


def captured(calls):
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [call() for call in calls]

    def seconds():
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3 / len(kept)

    return seconds


def measure(chain, n, dtype, rounds):
    compiled = torch.compile(chain)
    sets = [operands(chain, n, dtype) for _ in range(max(2, (1 << 28) // n))]
    size = torch.empty((), dtype=dtype).element_size()
    moved = (3 * size if chain is light else 3 * size + 1) * n
    sources = [torch.zeros(moved // 2, dtype=torch.uint8, device="cuda") for _ in sets]
    run = captured([lambda s=s: compiled(*s) for s in sets])
    copy = captured([lambda s=s: s.clone() for s in sources])
    times = [(run(), copy()) for _ in range(rounds + 2)][2:]
    seconds = statistics.median(t[0] for t in times)
    return {"chain": chain.__name__, "dtype": str(dtype), "elements": n, "seconds": seconds,
            "of_copy": statistics.median(t[1] / t[0] for t in times)}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=1 << 26)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    for dtype in (torch.float32, torch.bfloat16):
        for chain in (light, block):
            rows.append(measure(chain, options.elements, dtype, options.rounds))
            print(json.dumps(rows[-1]), flush=True)
    if options.json:
        with open(options.json, "w") as out:
            json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "chains": rows}, out, indent=1)


if __name__ == "__main__":
    main()
