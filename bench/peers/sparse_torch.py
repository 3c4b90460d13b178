"""cuSPARSELt, as PyTorch calls it, beside PyTorch's dense product: the sizes of bench_sparse_cuda.

python bench/peers/sparse_torch.py [out.json]

Times are medians of CUDA graphs with two calls; the algorithm is the one that cuSPARSELt's search chooses.
"""

import json
import statistics
import sys

import torch
import torch.nn.functional as F

SIZES = [(4096, 4096, 4096), (8192, 8192, 8192), (4096, 11008, 4096), (2048, 8192, 8192), (512, 8192, 8192), (128, 8192, 8192),
         (8, 16384, 8192)]  # fmt: skip


def two_of_four(w):
    """w with the two smaller of each four neighbours set to 0."""
    groups = w.reshape(-1, 4)
    kept = groups.abs().topk(2, dim=1).indices
    return (torch.zeros_like(groups).scatter(1, kept, groups.gather(1, kept))).reshape(w.shape)


def captured(call, calls=2):
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()

    def seconds():
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3 / calls

    return seconds


def measure(m, n, k, rounds=21):
    x, w = (torch.randn(rows, k, device="cuda", dtype=torch.bfloat16) for rows in (m, n))
    packed = torch._cslt_compress(two_of_four(w))
    algorithm = torch._cslt_sparse_mm_search(packed, x.t(), transpose_result=True)
    sparse = captured(lambda: torch._cslt_sparse_mm(packed, x.t(), alg_id=algorithm, transpose_result=True))
    dense = captured(lambda: F.linear(x, w))
    times = [(sparse(), dense()) for _ in range(rounds + 2)][2:]
    a, b = (statistics.median(t[i] for t in times) for i in range(2))
    return {"shape": [m, n, k], "seconds": a, "dense_seconds": b, "of_dense": b / a}


def main():
    torch.manual_seed(1)
    rows = []
    for m, n, k in SIZES:
        try:
            rows.append(measure(m, n, k))
        except RuntimeError as error:
            rows.append({"shape": [m, n, k], "error": str(error).splitlines()[0]})
        print(json.dumps(rows[-1]), flush=True)
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as out:
            json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cases": rows}, out, indent=1)


if __name__ == "__main__":
    main()
