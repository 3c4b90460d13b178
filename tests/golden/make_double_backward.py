"""Writes double_backward.json: second derivatives of PyTorch in f64, for tests/autograd/grad.cpp.

Run with torch installed:  python tests/golden/make_double_backward.py
"""

import json
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(31)


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def plain(x):
    return {"shape": list(x.shape), "values": x.detach().flatten().tolist()}


def mlp(x, w1, b1, w2, b2):
    return F.linear(torch.tanh(F.linear(x, w1, b1)), w2, b2)


def gradient_penalty():
    """WGAN-GP: the mean of (|d critic / d x| - 1)^2 over the samples, and its gradients of all parameters."""
    x, parameters = normal(5, 4), [normal(6, 4), normal(6), normal(1, 6), normal(1)]
    (g,) = torch.autograd.grad(mlp(x, *parameters).sum(), x, create_graph=True)
    penalty = ((g.norm(dim=1) - 1) ** 2).mean()
    penalty.backward()
    return {"x": plain(x), "parameters": [plain(p) for p in parameters], "penalty": penalty.item(),
            "gradients": [plain(torch.zeros_like(p) if p.grad is None else p.grad) for p in parameters]}


def hessian_vector_product():
    """H v of the cross-entropy of an MLP with layer norm, for the parameters, by differentiating (grad . v)."""
    x, target = normal(7, 4), torch.tensor([0, 2, 1, 1, -100, 2, 0])
    parameters = [normal(6, 4), normal(6), normal(6), normal(6), normal(3, 6), normal(3)]
    vectors = [normal(*p.shape).detach() for p in parameters]
    w1, b1, scale, shift, w2, b2 = parameters
    hidden = F.layer_norm(F.gelu(F.linear(x, w1, b1)), (6,), scale, shift, 1e-5)
    loss = F.cross_entropy(F.linear(hidden, w2, b2), target, label_smoothing=0.1)
    grads = torch.autograd.grad(loss, parameters, create_graph=True)
    products = torch.autograd.grad(sum((g * v).sum() for g, v in zip(grads, vectors)), parameters)
    return {"x": plain(x), "target": target.tolist(), "parameters": [plain(p) for p in parameters],
            "vectors": [plain(v) for v in vectors], "loss": loss.item(), "products": [plain(h) for h in products]}


def main():
    cases = {"gradient_penalty": gradient_penalty(), "hessian_vector_product": hessian_vector_product()}
    path = pathlib.Path(__file__).with_name("double_backward.json")
    path.write_text(json.dumps(cases).replace('{"x"', '\n{"x"') + "\n")


if __name__ == "__main__":
    main()
