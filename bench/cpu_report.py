"""The CPU's figures under bench/results as a table, and as the section "Speed on a CPU" of bench/README.md.

    bench/cpu_report.py            prints the table
    bench/cpu_report.py --write    writes it into bench/README.md
    bench/cpu_report.py --check    fails if bench/README.md says something else

bench/cpu_session.sh writes the files of results, with one thread into the folder one_thread, and runs this program. There
is a table for each folder of MACHINES. bench_scaling writes scaling_16_threads.json. Each file names its machine, threads,
date and commit. Values above 1 mean less time than the peer. A row whose file is missing is omitted.
"""

import argparse
import itertools
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests/support"))
from op_list import read_ops  # noqa: E402

RESULTS = ROOT / "bench/results"
MACHINES = {  # folder of results: text about the machine in the table's caption
    RESULTS / "avx512": "Zen 5: AVX-512 with instructions for bytes and bf16; two of two processors.",
    RESULTS: "Sapphire Rapids: AVX-512 and AMX; two of sixteen processors. Rows of any shape: Emerald Rapids, two of two. "
             "Layers, statistics, losses and further optimizers: Zen 4, two of two.",
    RESULTS / "avx2": "Zen 3: AVX2, and no instructions for bytes or bf16; two of two processors.",
}
OPS = read_ops()
ELEMENTS = [op.name for op in OPS if op.family == "elementwise" and op.name in op.timed] + ["clone"]
REDUCTIONS = [name for op in OPS if op.family == "reduce" for name in op.timed]
ABOUT = "Geometric means over the cases of a row, medians of rounds in which both took turns; \"one thread\" is the same with one."
BEGIN, END = "<!-- bench_cpu: begin -->", "<!-- bench_cpu: end -->"


class Results:
    """The files of results in one folder."""

    def __init__(self, folder):
        self.folder = folder

    def load(self, name):
        return json.loads((self.folder / name).read_text())


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def shape(row):
    return f"{row['M']}x{row['N']}x{row['K']} {row['layout']}"


# Each function returns a row: (work / against, least, aim, measured, worst value, worst case).
def of_groups(results, text, file, groups, key, least, aim):
    rows = [row for group in groups for row in results.load(file)["groups"][group]["rows"]]
    worst = min(rows, key=lambda row: row[key])
    return text, least, aim, geometric_mean([row[key] for row in rows]), worst[key], shape(worst)


def small_products(results):
    rows = [row for group in ("small", "skinny") for row in results.load("gemm_cpu.json")["groups"][group]["rows"]]
    for row in rows:
        row["best"] = min(row["times_best_blas"], row["times_eigen"])
    worst = min(rows, key=lambda row: row["best"])
    text = "f32 product up to 64 cubed, and of 1 to 8 rows / the better of OpenBLAS and Eigen"
    return text, 1.3, 2.0, geometric_mean([row["best"] for row in rows]), worst["best"], shape(worst)


def bf16_products(results):
    instruction = results.load("gemm_narrow_cpu.json")["bf16_instruction"]
    text = "product of bf16" + ("" if instruction else ", widened to f32,") + " / own f32"
    return of_groups(results, text, "gemm_narrow_cpu.json", ["square bf16", "gpt2 bf16"], "times_f32", 1.6, 1.8)


def scaling(results, name, text, least, aim):
    """Speedup by 16 threads on a machine with 16 processors."""
    found = [(row["counts"][-1]["times"], row["name"]) for row in results.load("scaling_16_threads.json")["rows"]
             if row["name"].startswith(name)]  # fmt: skip
    worst = min(found)
    return text, least, aim, geometric_mean([times for times, _ in found]), *worst


def machine_scaling(results):
    row = next(row for row in results.load("scaling_16_threads.json")["rows"] if row["name"].startswith("multiply-adds"))
    return row["counts"][-1]["times"]


def weights(results, kind, least, aim):
    names = [kind, "int4"] if kind == "Q4_0" else [kind]  # "int4": 4 bits with scales of f32, in older files
    row = next(row for row in results.load("gemv_cpu.json")["rows"] if row["weights"] in names)
    share = row["share_of_reading"]
    return f"matrix times vector, weights in {row['weights']} / reading them", least, aim, share, share, f"{row['rows']}x{row['columns']}"


def operations(results, text, begin, suffix, least, aim, end=""):
    """Row of the cases in ops_cpu.json whose names start with `begin`: forward, or forward and backward if suffix is
    "+grad". In the name of a convolution, `end` is the text after the stride."""
    cases = [c for c in results.load("ops_cpu.json")["cases"]
             if c["name"].startswith(begin) and c["name"].endswith("+grad") == bool(suffix)
             and c["name"].removesuffix("+grad").partition("stride")[2].lstrip("0123456789 ") == end]  # fmt: skip
    if not cases:
        return None
    worst = max(cases, key=lambda c: c["ratio"])
    return text, least, aim, geometric_mean([1 / c["ratio"] for c in cases]), 1 / worst["ratio"], worst["name"]


def grid(results, text, begin):
    """Row of the cases in row_grid_cpu.json whose names start with `begin`: shapes outside the usual sizes, among which the
    worst case is of interest."""
    cases = [c for c in results.load("row_grid_cpu.json")["cases"] if c["name"].startswith(begin)]
    worst = max(cases, key=lambda c: c["ratio"])
    return text, 0.85, 1.0, geometric_mean([1 / c["ratio"] for c in cases]), 1 / worst["ratio"], worst["name"]


LAYERS = {  # rows of layers_cpu.json: the beginnings of the names of their cases
    "convolutions of sequences and volumes, transposed ones": ("conv1d", "conv3d", "conv_transpose"),
    "interpolation, nearest and bilinear": ("interpolate",),
    "sums by Einstein's notation": ("einsum",),
    "masks, positions, repetition": ("masked_select", "nonzero", "rows of a mask", "repeat", "roll"),
    "median, quantile, unique, histc, multinomial, cdist, cov": ("median", "quantile", "unique", "histc", "multinomial", "cdist", "cov"),
    "losses: Huber, KL, binary cross-entropy, triplet": ("huber", "kl_div", "bce", "triplet"),
    "LSTM": ("LSTM",),
    "GRU and RNN": ("GRU", "RNN"),
    "attention as a layer": ("Multihead",),
    "SGD with momentum, RMSprop, Adagrad, AMSGrad": ("sgd", "rmsprop", "adagrad", "adamw amsgrad"),
}


def layers(results, text):
    """Row of cases in layers_cpu.json, with their gradients where they have one."""
    cases = [c for c in results.load("layers_cpu.json")["cases"] if c["name"].startswith(LAYERS[text])]
    worst = max(cases, key=lambda c: c["ratio"])
    return f"{text} / PyTorch", 0.7, 1.0, geometric_mean([1 / c["ratio"] for c in cases]), 1 / worst["ratio"], worst["name"]


def members(results, text, names, least, aim, sizes=(1 << 10, 1 << 20, 1 << 24)):
    """Row of the named cases in ops_cpu.json against the faster of PyTorch and Eigen. The value is the mean at the size for
    which the mean is lowest."""
    cases = [dict(c, ratio=max(c["ratio"], c.get("eigen_ratio", 0))) for c in results.load("ops_cpu.json")["cases"]
             if c["name"] in names and c["n"] in sizes]  # fmt: skip
    mean, n = min((geometric_mean([1 / c["ratio"] for c in cases if c["n"] == n]), n) for n in {c["n"] for c in cases})
    worst = max(cases, key=lambda c: c["ratio"])
    text = text.replace("COUNT", str(len({c["name"] for c in cases})))
    at = f" (at {n:,} elements, of {len(sizes)} sizes the lowest)" if len(sizes) > 1 else ""
    return text.replace(" / ", at + " / "), least, aim, mean, 1 / worst["ratio"], f"{worst['name']}, {worst['n']:,} elements"


def adamw_bandwidth(results):
    case = next(c for c in results.load("ops_cpu.json")["cases"] if c["name"] == "adamw 10M, fused")
    share = case["share_of_limit"]
    by_triad = results.load("ops_cpu.json").get("bandwidth") == "triad"
    text = f"AdamW, 10M parameters / {'a triad of' if by_triad else 'copying'} as many bytes"
    return text, 0.85, 0.95, share, share, f"{case['seconds'] * 1e3:.1f} ms"


def overhead(results):
    cases = [c for c in results.load("overhead_cpu.json")["cases"] if c["name"] in [*ELEMENTS, "add scalar"]]
    worst = max(cases, key=lambda c: c["seconds"])
    mean = geometric_mean([300e-9 / c["seconds"] for c in cases])
    return "an operation on one element / 300 ns", 1.0, 1.0, mean, 300e-9 / worst["seconds"], f"{worst['name']}, {worst['seconds'] * 1e9:.0f} ns"


def gpt2(results):
    result = results.load("gpt2_cpu.json")
    ratio = result["seconds"]["ratio"]["median"]
    text = f"training step of GPT-2 124M, {result['batch']} x {result['tokens']} tokens, f32 / PyTorch {result['peer']['torch']}"
    return text, 1.0, 1.3, ratio, ratio, f"{result['seconds']['ours']['median']:.2f} s"


def rows(results):
    """Returns all rows of the table; None stands for a row that was not measured."""
    large = ["square", "gpt2"]
    wanted = [
        (of_groups, "f32 product, 256 to 2048 and GPT-2's layers, NN, NT, TN / OpenBLAS, best core type", "gemm_cpu.json",
         large, "times_best_blas", 0.97, 1.02),
        (of_groups, "f32 product, the same shapes / Eigen", "gemm_cpu.json", large, "times_eigen", 1.2, 1.35),
        (of_groups, "f32 product, the same shapes / peak of multiply-adds in the same round", "gemm_cpu.json", large, "share_of_peak", 0.90, 0.95),
        (small_products,),
        (of_groups, "product of bytes / own f32", "gemm_narrow_cpu.json", large, "times_f32", 3.0, 3.5),
        (of_groups, "product of bytes / oneDNN", "gemm_narrow_cpu.json", large, "times_onednn", 0.85, 1.0),
        (bf16_products,),
        (weights, "f32", 0.85, 0.92),
        (weights, "bf16", 0.8, 0.88),
        (weights, "i8", 0.7, 0.8),
        (weights, "Q4_0", 0.5, 0.65),
        (grid, "grid: rows long, odd and narrow, with gradients / PyTorch", "rows "),
        (grid, "grid: operands that lie across the result / PyTorch", "across "),
        (grid, "grid: rows far apart / PyTorch", "far apart "),
        (operations, "attention, T=1024, heads of 64 / PyTorch", "attention", "", 1.0, 1.3),
        (operations, "attention with its gradients, T=1024, heads of 64 / PyTorch", "attention", "+grad", 0.9, 1.2),
        (operations, "conv2d of ResNet-8 and ResNet-18 / PyTorch", "conv2d ", "", 0.7, 1.0),
        (operations, "conv2d with both gradients / PyTorch", "conv2d ", "+grad", 0.7, 1.0),
        (operations, "conv2d of channels-last images / PyTorch", "conv2d ", "", 0.7, 1.0, "nhwc"),
        (operations, "conv2d of channels-last images, with both gradients / PyTorch", "conv2d ", "+grad", 0.7, 1.0, "nhwc"),
        (operations, "depthwise convolutions / PyTorch", "conv2d ", "", 0.7, 1.0, "depthwise"),
        (operations, "depthwise convolutions with both gradients / PyTorch", "conv2d ", "+grad", 0.7, 1.0, "depthwise"),
        (operations, "depthwise convolutions of channels-last images / PyTorch", "conv2d ", "", 0.7, 1.0, "depthwise nhwc"),
        (operations, "depthwise convolutions of channels-last images, with both gradients / PyTorch", "conv2d ", "+grad", 0.7, 1.0,
         "depthwise nhwc"),
        (members, "softmax, GELU, layer norm / the better of PyTorch and Eigen", ["softmax", "gelu", "layer_norm"], 1.0, 1.5),
        (members, "softmax, GELU, layer norm, with their gradients / PyTorch", ["softmax+grad", "gelu+grad", "layer_norm+grad"], 1.0, 1.5),
        (members, "COUNT functions of elements / PyTorch", ELEMENTS, 1.0, 1.3),
        (members, "COUNT reductions / PyTorch", REDUCTIONS, 1.0, 1.3),
        (members, "AdamW, 10M parameters / PyTorch, fused", ["adamw 10M, fused"], 1.1, 1.5, (1 << 24,)),
        (members, "AdamW, 10M parameters / PyTorch, foreach", ["adamw 10M, foreach"], 1.1, 1.5, (1 << 24,)),
        (adamw_bandwidth,),
        *((layers, text) for text in LAYERS),
        (members, "digits: an epoch of a net of two convolutions / PyTorch", ["digits epoch"], 1.5, 3.0, (1 << 22,)),
        (gpt2,),
        (overhead,),
        (scaling, "sgemm", "f32 product of 2048 cubed on 16 threads / on one", 10, 13),
        (scaling, "GPT-2", "training step of GPT-2 124M on 16 threads / on one", 7, 9),
    ]  # fmt: skip

    def measured(row, *about):
        try:
            return row(results, *about)
        except FileNotFoundError:
            return None

    return [measured(*row) for row in wanted]


def reached(measured, least, aim):
    shown = round(measured, 2)
    return "aim" if shown >= aim else "least" if shown >= least else "no"


def of_one_thread(folder):
    """Returns the measured value of each row with one thread, or "" if there is none."""
    return [f"{row[3]:.2f}" if row else "" for row in rows(Results(folder / "one_thread"))]


def table(folder):
    results = Results(folder)
    machine = results.load("gemm_cpu.json")["machine"]
    caption = (
        f"{machine['cpu']}, {machine['threads']} threads, {machine['compiler']}, {machine['date'][:10]} "
        f"(`{folder.relative_to(ROOT)}/*_cpu.json`)"
    )
    caption += f": {MACHINES[folder]}"
    if (folder / "scaling_16_threads.json").exists():
        caption += (
            f" On all sixteen, multiply-adds in registers run {machine_scaling(results):.1f} times as fast as on one "
            "(`scaling_16_threads.json`)."
        )
    lines = [
        caption,
        "",
        "| work / against | least | aim | measured | worst case | one thread | reached |",
        "|---|---|---|---|---|---|---|",
    ]
    for row, one in itertools.zip_longest(rows(results), of_one_thread(folder), fillvalue=""):
        if not row:
            continue
        text, least, aim, measured, worst, where = row
        lines.append(f"| {text} | {least:.2f} | {aim:.2f} | **{measured:.2f}** | {worst:.2f}: {where} | {one} | "
                     f"{reached(measured, least, aim)} |")  # fmt: skip
    return "\n".join(lines)


def tables():
    return "\n\n".join(table(folder) for folder in MACHINES if (folder / "gemm_cpu.json").exists())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    section = f"{BEGIN}\n{ABOUT}\n\n{tables()}\n{END}"
    readme = ROOT / "bench/README.md"
    text = readme.read_text()
    if BEGIN not in text or END not in text:
        sys.exit(f"bench/README.md has no lines {BEGIN} and {END}")
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    if args.check and head + section + tail != text:
        sys.exit("the CPU table in bench/README.md differs from bench/results: run bench/cpu_report.py --write")
    if args.write:
        partial = readme.with_suffix(".partial")
        partial.write_text(head + section + tail)
        partial.replace(readme)
    print(section)


if __name__ == "__main__":
    main()
