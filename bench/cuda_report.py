"""Reports of bench/compare_cuda.py: the table of goals, as rows, as JSON text, as Markdown and as a section of bench/README.md.

A report is a dictionary: "about" (device, versions, date, commit), "copy_gb_per_s", "table" (one entry per row of
ROWS), "failures" and "cases".
"""

import json
import math
import statistics

BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"  # markers of a section of bench/README.md, with its name

# Each row: text, groups of cases, kind of value, variants of PyTorch, least, aim. The kinds of values:
#   "ratio"    time of the fastest of the variants / our time
#   "memory"   smallest peak memory of the variants / our peak memory
#   "share"    bandwidth / bandwidth of the copy, for cases whose largest tensor has at least 64 MB
#   "moved"    like "share", for cases that read and write at least 64 MB in all
#   "speed"    bandwidth / bandwidth of the only rival, by the same rounds
ROWS = [
    (
        "softmax, layer norm, RMS norm forward / best of eager and compile",
        ["softmax", "layer_norm", "rms_norm"],
        "ratio",
        ["eager", "compile"],
        1.0,
        1.3,
    ),
    (
        "softmax, layer norm, RMS norm forward, tensors of 64 MB or more / copy bandwidth",
        ["softmax", "layer_norm", "rms_norm"],
        "share",
        [],
        0.80,
        0.92,
    ),
    (
        "layer norm, RMS norm backward / compile",
        ["layer_norm_backward", "rms_norm_backward"],
        "ratio",
        ["compile"],
        1.3,
        2.0,
    ),
    ("softmax backward / compile", ["softmax_backward"], "ratio", ["compile"], 1.0, 1.3),
    (
        "cross-entropy forward and backward, 4096x50304 bf16 / compile",
        ["cross_entropy"],
        "ratio",
        ["compile"],
        1.8,
        2.5,
    ),
    ("elementwise unary, binary, broadcast, sum / copy bandwidth", ["elementwise"], "share", [], 0.92, 0.98),
    (
        "AdamW, 125M parameters, with clipping / fused AdamW and clip_grad_norm_",
        ["adamw"],
        "ratio",
        ["eager"],
        1.1,
        1.4,
    ),
    ("linear + bias + GELU bf16 / compile, max-autotune", ["linear_gelu"], "ratio", ["max_autotune"], 0.97, 1.05),
    ("residual + linear + bias bf16 / compile, max-autotune", ["linear_residual"], "ratio", ["max_autotune"], 0.97, 1.05),
    (
        "conv2d forward and backward bf16 / cuDNN, better of both layouts",
        ["conv2d"],
        "ratio",
        ["eager", "channels_last"],
        0.4,
        0.7,
    ),
    ("attention forward, causal bf16 / FlashAttention-2 in PyTorch", ["attention"], "ratio", ["flash"], 1.0, 1.45),
    ("attention forward, causal bf16 / cuDNN", ["attention"], "ratio", ["cudnn"], 0.60, 0.85),
    ("attention backward, causal bf16 / FlashAttention-2 in PyTorch", ["attention_backward"], "ratio", ["flash"], 0.9, 1.2),
    ("attention backward, causal bf16 / cuDNN", ["attention_backward"], "ratio", ["cudnn"], 0.50, 0.70),
    (
        "training step of the digits conv net, batch 256, replayed / eager step in a CUDA graph",
        ["digits_step"],
        "ratio",
        ["eager"],
        1.0,
        2.0,
    ),
    (
        "training step of GPT-2 124M bf16, T=1024, with clipping and AdamW, replayed / compile",
        ["gpt2_step"],
        "ratio",
        ["compile"],
        0.85,
        1.1,
    ),
    ("training step of GPT-2 124M bf16, as above / eager", ["gpt2_step"], "ratio", ["eager"], 1.25, 1.6),
    ("peak memory of that step / compile", ["gpt2_step"], "memory", ["compile"], 1.0, 1.25),
    ("rows of bf16 quantized to i8 or fp8, 64 MB or more moved / copy bandwidth", ["quantize_rows"], "moved", [], 0.80, 0.90),
    ("int8 product, i32 sums, 4096 and 8192 / _int_mm", ["int8_mm"], "ratio", ["eager"], 1.0, 1.2),
    ("quantize, int8 product, scales and bias, 4096 and 8192 / eager chain", ["int8_linear"], "ratio", ["eager"], 1.5, 2.0),
    ("fp8 product, one scale per tensor / _scaled_mm", ["fp8_tensor"], "ratio", ["eager"], 0.90, 1.0),
    ("fp8 product, a scale per row / _scaled_mm", ["fp8_rows"], "ratio", ["eager"], 0.90, 1.0),
    ("quantize, int8 product, scales and bias, other shapes / compile", ["int8_linear_shapes"], "ratio", ["compile"], None, None),
    ("rows of other shapes and dtypes quantized / copy bandwidth", ["quantize_rows_shapes"], "moved", [], None, None),
    ("int8 product of 1 to 1024 rows / bf16", ["int8_rows"], "ratio", ["bf16"], None, None),
    ("int8 product by each path / copy bandwidth", ["int8_mm_paths", "int8_linear_paths"], "moved", [], None, None),
    ("linear of 1, 8 and 16 rows with bias and GELU or residual bf16 / compile, max-autotune", ["linear_few_rows"], "ratio", ["max_autotune"], None, None),
    ("log-softmax forward / best of eager and compile", ["log_softmax"], "ratio", ["eager", "compile"], None, None),
    ("log-softmax backward / compile", ["log_softmax_backward"], "ratio", ["compile"], None, None),
    ("AdamW as above, both captured as a CUDA graph", ["adamw_captured"], "ratio", ["eager"], None, None),
    ("attention to a paged cache, bf16, pages of 64 tokens, 537 MB / copy bandwidth", ["decode"], "speed", ["copy"], 0.85, 0.95),
    ("attention to a paged cache of 537 MB, bf16 / own contiguous cache", ["decode"], "ratio", ["contiguous"], 0.95, 0.98),
    ("attention to a paged cache of 537 MB, i8 / own bf16 cache", ["decode_i8"], "ratio", ["bf16"], 1.6, 1.8),
    ("attention to a paged cache of 537 MB, fp8 / own bf16 cache", ["decode_fp8"], "ratio", ["bf16"], 1.6, 1.8),
    ("attention to a paged cache of 537 MB, i4 / own bf16 cache", ["decode_i4"], "ratio", ["bf16"], 2.3, 2.8),
    ("attention to a contiguous cache, bf16 / copy bandwidth", ["decode_contiguous"], "speed", ["copy"], None, None),
]
# Attention to caches of other shapes, and the kernel that writes a cache, without goals.
for text, group, kind, rival in (
    ("attention to caches of other shapes, bf16 / copy bandwidth", "decode_shapes", "speed", "copy"),
    ("attention to caches of other shapes, bf16 / own contiguous cache", "decode_shapes", "ratio", "contiguous"),
    ("attention to caches of other shapes, i8 / own bf16 cache", "decode_shapes_i8", "ratio", "bf16"),
    ("attention to caches of other shapes, fp8 / own bf16 cache", "decode_shapes_fp8", "ratio", "bf16"),
    ("attention to caches of other shapes, i4 / own bf16 cache", "decode_shapes_i4", "ratio", "bf16"),
    ("attention to caches of other shapes, contiguous, bf16 / copy bandwidth", "decode_shapes_contiguous", "speed", "copy"),
    ("keys and values appended to a cache / copy bandwidth", "kv_append", "speed", "copy"),
):
    ROWS.append((text, [group], kind, [rival], None, None))
# The grid of row shapes, by kind. Its rows are judged by the worst case instead of the mean, because the grid exists to
# find single shapes that are slow.
GRID = {
    "rows_long": "few and very long rows",
    "rows_odd": "rows that do not fill words of 16 bytes",
    "rows_narrow": "narrow rows",
    "rows_vocabulary": "cross-entropy of large and odd vocabularies",
}
for group, kind in GRID.items():
    ROWS.append((f"grid: {kind} / compile", [group], "ratio", ["compile"], 0.85, 1.0))
    ROWS.append((f"grid: {kind}, 64 MB or more moved / copy bandwidth", [group], "moved", [], 0.75, 0.90))
ORDER = ["copy"] + list(dict.fromkeys(group for row in ROWS for group in row[1]))


def copy_speeds(results):
    """Returns {bytes moved by a copy: GB/s}; the faster of both programs counts."""
    speeds = {}
    for r in results:
        if r["group"] == "copy":
            seconds = min([r["seconds"]] + [p["seconds"] for p in r["peers"].values()])
            speeds[r["bytes"]] = r["bytes"] / seconds * 1e-9
    return speeds


def add_shares(results):
    speeds = copy_speeds(results)
    for r in results:
        if speeds and r["bytes"]:
            r["share_of_copy"] = r["gb_per_s"] / speeds[max(speeds)]
            nearest = min(speeds, key=lambda size: abs(math.log(size / r["bytes"])))
            r["share_of_copy_that_size"] = r["gb_per_s"] / speeds[nearest]


def value_of(result, kind, variants):
    """Returns the value of a case for a row and the variant of PyTorch that it comes from; None if it was not measured."""
    if kind in ("share", "moved"):
        return result.get("share_of_copy"), ""
    there = [v for v in variants if v in result["peers"]]
    if kind == "speed":
        return (result["peers"][there[0]]["speed"], there[0]) if there else (None, "")
    if kind == "memory":
        there = [v for v in there if "peak_bytes" in result["peers"][v] and "peak_bytes" in result]
        ratios = [(result["peers"][v]["peak_bytes"] / result["peak_bytes"], v) for v in there]
    else:
        ratios = [(result["peers"][v]["ratio"], v) for v in there]
    return min(ratios) if len(ratios) == len(variants) else (None, "")


def counts(case, groups, kind):
    size = {"share": "tensor_bytes", "moved": "bytes"}.get(kind)
    return case["group"] in groups and (size is None or case[size] >= 64e6)


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def summarize(cases, results):
    by_name = {r["name"]: r for r in results}
    table = []
    for text, groups, kind, variants, least, aim in ROWS:
        wanted = [c for c in cases if counts(c, groups, kind)]
        if not wanted:
            continue
        values = []
        for c in wanted:
            value, variant = value_of(by_name[c["name"]], kind, variants) if c["name"] in by_name else (None, "")
            if value is not None:
                values.append((value, c["name"], variant))
        row = {"row": text, "least": least, "aim": aim, "cases": len(wanted), "measured": len(values)}
        if values:
            row |= {
                "value": geometric_mean([v for v, *_ in values]),
                "worst": min(values)[0],
                "worst_case": min(values)[1],
            }
            row["judged"] = "worst" if groups[0] in GRID else "value"
        if values and kind == "share":
            same = [by_name[name]["share_of_copy_that_size"] for _, name, _ in values]
            row["of_copy_that_size"] = geometric_mean(same)
        table.append(row)
    return table


def verdict(row):
    if row["measured"] < row["cases"]:
        return f"{row['cases'] - row['measured']} of {row['cases']} missing"
    if row["least"] is None:
        return ""
    value = row[row.get("judged", "value")]
    return "aim" if value >= row["aim"] else "least" if value >= row["least"] else "below"


def markdown(report):
    lines = ["| kernel / against | least | aim | measured | worst case | reached |", "|---|---|---|---|---|---|"]
    for row in report["table"]:
        goal = ["" if row[key] is None else f"{row[key]:.2f}" for key in ("least", "aim")]
        value, worst = "", ""
        if "value" in row:
            value, worst = f"**{row['value']:.2f}**", f"{row['worst']:.2f}: {row['worst_case']}"
            if "of_copy_that_size" in row:
                value += f" ({row['of_copy_that_size']:.2f} of a copy of that size)"
        lines.append(f"| {row['row']} | {goal[0]} | {goal[1]} | {value} | {worst} | {verdict(row)} |")
    return "\n".join(lines)


def section(report):
    about = report["about"]
    gpu, ours, peer = about["gpu_before"], about["ours"], about["peer"]
    where = gpu.get("name", ours.get("device", "unknown device"))
    copy = f"; a copy of the largest size moves {report['copy_gb_per_s']:.0f} GB/s" if report["copy_gb_per_s"] else ""
    return (
        f"{where}, driver {gpu.get('driver_version', 'unknown')}, PyTorch {peer.get('torch', 'unknown')}, "
        f"{about['date'][:10]}, commit `{about['commit'][:12]}`{copy}. Values above 1 mean less time, or memory, than the peer, or "
        f"the share of the copy's bandwidth; geometric means over the cases of a row, medians of {about['rounds']} "
        f"interleaved rounds.{' Only cases with ' + about['only'] + ' in their name.' if about['only'] else ''}"
        f"{' ' + about['note'] if about.get('note') else ''}\n\n{markdown(report)}\n"
    )


def write_whole(path, text):
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.replace(path)


def write_readme(path, report):
    """Writes the report's section of the README. A report of the grid of row shapes alone has its own section."""
    text = path.read_text()
    begin, end = (mark.format("bench_cuda_rows" if report["about"]["only"] == "grid" else "bench_cuda") for mark in (BEGIN, END))
    block = f"{begin}\n{section(report)}{end}"
    if begin in text and end in text:
        head, rest = text.split(begin, 1)
        text = head + block + rest.split(end, 1)[1]
    else:
        text = (
            text.rstrip("\n")
            + f"\n\n## Speed on a GPU\n\nBy `bench/compare_cuda.py`, which writes this section.\n\n{block}\n"
        )
    write_whole(path, text)


PEAK = 989.5e12  # bf16 FLOP/s of the tensor cores of an H100 or H200


def language_model_lines(results):
    """Lines with tokens per second, share of the peak and memory of the language models' training steps, ours and the
    peers'."""
    lines = []
    for r in results:
        for name, one in [("ours", r), *r["peers"].items()] if r.get("tokens") else []:
            share = r["flops"] / one["seconds"] / PEAK
            line = f"{r['name']}, {name}: {r['tokens'] / one['seconds']:.0f} tokens/s, {share:.1%} of 989.5 TFLOP/s"
            lines.append(line + (f", {one['peak_bytes'] * 1e-9:.1f} GB" if "peak_bytes" in one else ""))
    return lines


def print_report(report):
    print(f"\n{'case':<54} {'us':>10} {'GB/s':>7} {'TFLOP/s':>8} {'of copy':>8}  peers: time / ours (quartiles)")
    for r in report["cases"]:
        peers = []
        for name, p in r["peers"].items():
            low, high = p["quartiles"]
            speed = f", speed {p['speed']:.2f}" if "speed" in p else ""
            peers.append(f"{name} {p['ratio']:.2f} ({low:.2f}-{high:.2f}{speed})")
        share = f"{r['share_of_copy']:.2f}" if "share_of_copy" in r else ""
        speeds = f"{r['seconds'] * 1e6:>10.2f} {r['gb_per_s']:>7.0f} {r['tflop_per_s']:>8.1f} {share:>8}"
        print(f"{r['name']:<54} {speeds}  {', '.join(peers)}{'' if r['mode'] == 'graph' else ' *'}")
    print("* timed call by call, not as a replayed graph\n")
    print("\n".join([*language_model_lines(report["cases"]), ""]))
    print(markdown(report))
    print(f"\n{len(report['cases'])} cases measured, {len(report['failures'])} failures")
    for f in report["failures"]:
        print(f"  {f['case']}: {f['who']}: {f['error'].splitlines()[0] if f['error'] else ''}")


def as_text(report):
    """JSON text with one line per case."""
    head = {key: value for key, value in report.items() if key != "cases"}
    cases = ",\n  ".join(json.dumps(r) for r in report["cases"])
    return json.dumps(head, indent=1)[:-2] + ',\n "cases": [\n  ' + cases + "\n ]\n}\n"
