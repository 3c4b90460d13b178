"""Writes losses.json: values and gradients of PyTorch's losses in f64, for the test of composed_losses.hpp.

Run with torch installed:  python tests/golden/make_losses.py
"""

import json
import math
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(20)
CASES = []


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def case(name, function, inputs, classes=None, **options):
    """One case: `inputs` are f64 tensors that get gradients, `classes` is an i64 target, which follows them.

    Gradients that are not finite, of a probability 0 in kl_div, are null."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    weight = options.get("weight")
    given = {**options, "weight": torch.tensor(weight, dtype=torch.float64)} if weight else options
    loss = function(*leaves, *([] if classes is None else [classes]), **given)
    upstream = torch.cos(torch.arange(loss.numel(), dtype=torch.float64)).reshape(loss.shape)
    loss.backward(upstream)
    CASES.append({"name": name, "inputs": [{"shape": list(x.shape), "values": x.flatten().tolist()} for x in inputs],
                  "classes": None if classes is None else {"shape": list(classes.shape), "values": classes.flatten().tolist()},
                  "options": options, "value": {"shape": list(loss.shape), "values": loss.detach().flatten().tolist()},
                  "gradients": [[g if math.isfinite(g) else None for g in x.grad.flatten().tolist()] for x in leaves]})


def main():
    pair = [normal(3, 4), normal(3, 4)]
    for reduction in ["mean", "sum", "none"]:
        case("l1_loss", F.l1_loss, pair, reduction=reduction)
        case("smooth_l1_loss", F.smooth_l1_loss, pair, reduction=reduction, beta=0.7)
        case("huber_loss", F.huber_loss, pair, reduction=reduction, delta=0.7)
        probabilities = torch.softmax(normal(3, 4), 1)
        probabilities[0, 1] = 0
        case("kl_div", F.kl_div, [normal(3, 4), probabilities], reduction=reduction)
        case("kl_div", F.kl_div, [normal(3, 4), normal(3, 4)], reduction=reduction, log_target=True)
        p = 0.01 + 0.98 * torch.rand(3, 4, dtype=torch.float64)  # f32 has few digits of 1 - p near 1
        p[1, 2], p[2, 0] = 0, 1
        t = torch.rand(3, 4, dtype=torch.float64)
        t[1, 2], t[2, 0] = 0, 0.25
        case("binary_cross_entropy", F.binary_cross_entropy, [p, t], reduction=reduction)
        signs = torch.tensor([1.0, -1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
        case("cosine_embedding_loss", lambda x, y, **o: F.cosine_embedding_loss(x, y, signs, **o), [normal(5, 6), normal(5, 6)],
             reduction=reduction, margin=-0.2)
        for p_norm, swap in [(2.0, False), (2.0, True), (1.0, True), (3.0, False)]:
            case("triplet_margin_loss", F.triplet_margin_loss, [normal(4, 5), normal(4, 5), normal(4, 5)], reduction=reduction,
                 margin=0.8, p=p_norm, swap=swap)
        classes = torch.tensor([2, -100, 0, 1, 2, 2])
        weight = [0.5, 2.0, 1.25]
        case("nll_loss", F.nll_loss, [normal(6, 3)], classes, reduction=reduction)
        case("nll_loss", F.nll_loss, [normal(6, 3)], classes, reduction=reduction, weight=weight)
        image = classes[[0, 2, 3, 4, 5, 1, 0, 2]].reshape(2, 2, 2)
        case("nll_loss", F.nll_loss, [normal(2, 3, 2, 2)], image, reduction=reduction, weight=weight)
        case("cross_entropy", F.cross_entropy, [normal(6, 3)], classes, reduction=reduction, weight=weight)
        case("cross_entropy", F.cross_entropy, [normal(6, 3)], classes, reduction=reduction, weight=weight, label_smoothing=0.2)
        case("cross_entropy", F.cross_entropy, [normal(2, 3, 2, 2)], image, reduction=reduction)
        case("cross_entropy", F.cross_entropy, [normal(2, 3, 2, 2)], image, reduction=reduction, weight=weight, label_smoothing=0.1)
        case("cross_entropy", F.cross_entropy, [normal(3)], torch.tensor(1), reduction=reduction)
        soft = torch.softmax(normal(4, 3), 1)
        case("cross_entropy", F.cross_entropy, [normal(4, 3), soft], reduction=reduction)
        case("cross_entropy", F.cross_entropy, [normal(4, 3), soft], reduction=reduction, weight=weight, label_smoothing=0.3)
        case("cross_entropy", F.cross_entropy, [normal(2, 3, 4), torch.softmax(normal(2, 3, 4), 1)], reduction=reduction)
    case("kl_div", F.kl_div, [normal(3, 4), torch.softmax(normal(3, 4), 1)], reduction="batchmean")
    case("cosine_similarity", F.cosine_similarity, [normal(3, 4, 2), normal(3, 4, 2)], dim=1)
    case("cosine_similarity", F.cosine_similarity, [normal(3, 4, 2), normal(3, 4, 2)], dim=-1)
    text = json.dumps({"torch": torch.__version__.split("+")[0], "cases": CASES}, separators=(",", ":"))
    pathlib.Path(__file__).with_name("losses.json").write_text(text.replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main()
