"""Writes layers.json: trajectories of optimizers, schedules, gradient clipping and batch norm statistics from PyTorch.

Run with torch installed:  python tests/golden/make_layers.py
All values are computed in f64, so that the tests can use small tolerances.
"""

import json
import math
import pathlib

import torch

STEPS = 10
START = [0.5, -1.25, 2.0, 0.0, -0.03]


def gradient(step):
    return [math.sin(1.0 + 0.7 * step + 1.3 * i) * (10.0 ** (i - 2)) for i in range(len(START))]


def trajectory(make):
    p = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    optimizer = make([p])
    values = []
    for step in range(STEPS):
        p.grad = torch.tensor(gradient(step), dtype=torch.float64)
        optimizer.step()
        values.append(p.detach().tolist())
    return values


def sgd_cases():
    cases = []
    for momentum, nesterov in [(0.0, False), (0.9, False), (0.9, True)]:
        for decay in [0.0, 0.1]:
            options = {"lr": 0.05, "momentum": momentum, "weight_decay": decay, "nesterov": nesterov}
            cases.append({**options, "values": trajectory(lambda p: torch.optim.SGD(p, **options))})
    return cases


def adam_cases():
    cases = []
    for name, kind in [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)]:
        for beta1, beta2, eps, decay in [(0.9, 0.999, 1e-8, 0.0), (0.9, 0.999, 1e-8, 0.1), (0.5, 0.9, 1e-2, 0.01)]:
            values = trajectory(
                lambda p: kind(p, lr=0.05, betas=(beta1, beta2), eps=eps, weight_decay=decay))
            cases.append({"kind": name, "lr": 0.05, "beta1": beta1, "beta2": beta2, "eps": eps,
                          "weight_decay": decay, "values": values})
    return cases


def rule_cases():
    """Trajectories of the optimizers whose rules are in optimizer_rules.hpp; Lion, which PyTorch lacks, by its definition."""
    cases = []
    for momentum, centered in [(0.0, False), (0.9, False), (0.0, True), (0.9, True)]:
        options = {"lr": 0.05, "alpha": 0.9, "eps": 1e-6, "weight_decay": 0.1, "momentum": momentum, "centered": centered}
        cases.append({"kind": "rmsprop", **options, "values": trajectory(lambda p: torch.optim.RMSprop(p, **options))})
    for lr_decay, decay, start in [(0.0, 0.0, 0.0), (0.1, 0.1, 0.5)]:
        options = {"lr": 0.05, "lr_decay": lr_decay, "eps": 1e-10, "weight_decay": decay, "initial_accumulator_value": start}
        cases.append({"kind": "adagrad", **options, "values": trajectory(lambda p: torch.optim.Adagrad(p, **options))})
    for kind, make in [("amsgrad", torch.optim.Adam), ("amsgradw", torch.optim.AdamW)]:
        values = trajectory(lambda p: make(p, lr=0.05, betas=(0.5, 0.9), eps=1e-8, weight_decay=0.1, amsgrad=True))
        cases.append({"kind": kind, "lr": 0.05, "beta1": 0.5, "beta2": 0.9, "eps": 1e-8, "weight_decay": 0.1, "values": values})
    p, m, values = torch.tensor(START, dtype=torch.float64), torch.zeros(len(START), dtype=torch.float64), []
    for step in range(STEPS):
        g = torch.tensor(gradient(step), dtype=torch.float64)
        p = p * (1 - 0.01 * 0.1) - 0.01 * torch.sign(0.9 * m + 0.1 * g)
        m = 0.99 * m + 0.01 * g
        values.append(p.tolist())
    cases.append({"kind": "lion", "lr": 0.01, "weight_decay": 0.1, "values": values})
    return cases


def newton_schulz(x, steps=5, eps=1e-7):
    """PyTorch's orthogonalization in the dtype of x, where PyTorch uses bf16."""
    a, b, c = 3.4445, -4.7750, 2.0315
    u = x.T if x.size(0) > x.size(1) else x
    u = u / u.norm().clamp(min=eps)
    for _ in range(steps):
        gram = u @ u.T
        u = a * u + (b * gram + c * gram @ gram) @ u
    return u.T if x.size(0) > x.size(1) else u


def muon_cases():
    """Two steps of Muon in f64. They are compared with those of torch.optim.Muon, which computes in bf16."""
    cases = []
    for rows, columns in [(3, 5), (6, 2), (4, 4)]:
        for nesterov, adjust in [(True, "original"), (False, "match_rms_adamw")]:
            start = torch.tensor([math.sin(1 + 3 * i) for i in range(rows * columns)], dtype=torch.float64)
            start = start.reshape(rows, columns)
            gradients = [torch.cos(start * 7 + k) for k in range(2)]
            known = start.clone().requires_grad_()
            optimizer = torch.optim.Muon([known], lr=0.1, weight_decay=0.2, momentum=0.9, nesterov=nesterov, adjust_lr_fn=adjust)
            p, m = start.clone(), torch.zeros_like(start)
            size = math.sqrt(max(1, rows / columns)) if adjust == "original" else 0.2 * math.sqrt(max(rows, columns))
            for g in gradients:
                known.grad = g.clone()
                optimizer.step()
                m = 0.9 * m + 0.1 * g
                move = newton_schulz(0.9 * m + 0.1 * g if nesterov else m)
                p = p * (1 - 0.1 * 0.2) - 0.1 * size * move
            assert torch.allclose(known.detach(), p, atol=0.02), (known, p)
            cases.append({"rows": rows, "columns": columns, "nesterov": nesterov, "adjust": adjust,
                          "start": start.flatten().tolist(), "gradients": [g.flatten().tolist() for g in gradients],
                          "values": p.flatten().tolist()})
    return cases


def rates(make, lr, steps):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    scheduler = make(optimizer)
    values = []
    for _ in range(steps):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return values


def warm_cosine(optimizer):
    schedule = torch.optim.lr_scheduler
    rise = schedule.LinearLR(optimizer, start_factor=1 / 5, total_iters=4)
    fall = schedule.CosineAnnealingLR(optimizer, T_max=15, eta_min=0.01)
    return schedule.SequentialLR(optimizer, [rise, fall], milestones=[5])


def schedules():
    schedule = torch.optim.lr_scheduler
    return {
        "step": rates(lambda o: schedule.StepLR(o, step_size=4, gamma=0.3), 0.2, 14),
        "cosine": rates(lambda o: schedule.CosineAnnealingLR(o, T_max=12, eta_min=0.01), 0.2, 13),
        "warm_cosine": rates(warm_cosine, 0.2, 20),
        "one_cycle": rates(lambda o: schedule.OneCycleLR(o, max_lr=0.2, total_steps=25, pct_start=0.3,
                                                         cycle_momentum=False), 0.2, 24),
        "one_cycle_options": rates(lambda o: schedule.OneCycleLR(o, max_lr=0.2, total_steps=17, pct_start=0.45,
                                                                 div_factor=7, final_div_factor=30,
                                                                 cycle_momentum=False), 0.2, 16),
    }


def clipping():
    a = torch.tensor([3.0, -4.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([[12.0]], dtype=torch.float64, requires_grad=True)
    a.grad, b.grad = a.detach().clone(), b.detach().clone()
    norm = torch.nn.utils.clip_grad_norm_([a, b], 2.0)
    return {"norm": norm.item(), "a": a.grad.tolist(), "b": b.grad.flatten().tolist()}


def batch_norm():
    layer = torch.nn.BatchNorm2d(3, momentum=0.3).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([1.5, 0.5, -2.0], dtype=torch.float64))
        layer.bias.copy_(torch.tensor([0.1, 0.0, 1.0], dtype=torch.float64))
    batches, outputs = [], []
    for k in range(3):
        x = torch.tensor([math.sin(0.37 * i + k) * (1 + i % 5) for i in range(2 * 3 * 2 * 3)],
                         dtype=torch.float64).reshape(2, 3, 2, 3)
        batches.append(x.flatten().tolist())
        outputs.append(layer(x).flatten().tolist())
    layer.eval()
    final = layer(torch.tensor(batches[0], dtype=torch.float64).reshape(2, 3, 2, 3))
    return {"batches": batches, "outputs": outputs, "running_mean": layer.running_mean.tolist(),
            "running_var": layer.running_var.tolist(), "evaluated": final.flatten().tolist()}


def main():
    data = {"torch": torch.__version__.split("+")[0], "start": START,
            "gradients": [gradient(s) for s in range(STEPS)], "sgd": sgd_cases(), "adam": adam_cases(),
            "rules": rule_cases(), "muon": muon_cases(),
            "schedules": schedules(), "clipping": clipping(), "batch_norm": batch_norm()}
    path = pathlib.Path(__file__).with_name("layers.json")
    path.write_text(json.dumps(data, indent=None, separators=(",", ":")).replace('],"', '],\n"') + "\n")


if __name__ == "__main__":
    main()
