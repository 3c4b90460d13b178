"""Writes vision.json: names, logits, running statistics and gradients of torchvision's ResNets and vision transformers, in f64, for the
tests of vision/.

Run with torch and torchvision installed:  python tests/golden/make_vision.py
The cases are torchvision's classes: small ones, of which the stem is replaced if it would be wider than the case or read other channels,
and the published models. The state and the images are values of a hash, which the tests compute too, so that no weights are stored.
"""

import json
import pathlib

import torch
import torchvision
from hashed import hashed
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet
from torchvision.models.vision_transformer import VisionTransformer

# Published models. Those with an image have their state and their first logits in the golden data, the others their number of parameters.
PUBLISHED = {"resnet18": 64, "resnet34": 64, "resnet50": 64, "resnet101": None, "resnet152": None, "vit_b_16": 224, "vit_b_32": None,
             "vit_l_16": None}


def fill(net):
    """The state in the order of the names: weights of the scale of their inputs, factors near 1, small offsets."""
    state = net.state_dict()
    for key, name in enumerate(sorted(state)):
        value = state[name]
        if not value.is_floating_point():
            continue
        h = hashed(key, value.numel()).reshape(value.shape)
        if name.endswith("running_var") or (name.endswith("weight") and value.dim() == 1):
            value.copy_(1 + 0.5 * h)
        elif value.dim() >= 2 and name.endswith("weight"):
            value.copy_(h * (6 / value[0].numel()) ** 0.5)
        else:
            value.copy_(0.3 * h)


def resnet(bottleneck, blocks, classes, channels, width):
    """torchvision's ResNet; a width other than its 64 needs a new stem and head, and stages made again by its _make_layer."""
    block = Bottleneck if bottleneck else BasicBlock
    net = ResNet(block, blocks, classes)
    if (channels, width) == (3, 64):
        return net
    net.conv1, net.bn1 = nn.Conv2d(channels, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
    net.inplanes = width
    for i, count in enumerate(blocks):
        setattr(net, f"layer{i + 1}", net._make_layer(block, width << i, count, 2 if i else 1))
    net.fc = nn.Linear(net.inplanes, classes)
    return net


def vit(classes, image, patch, layers, heads, features, hidden, channels):
    """torchvision's vision transformer, with another first layer if the images do not have 3 channels; the head's zeros are replaced by
    fill()."""
    net = VisionTransformer(image, patch, layers, heads, features, hidden, num_classes=classes)
    if channels != 3:
        net.conv_proj = nn.Conv2d(channels, features, patch, patch)
    return net


def numbers(tensor):
    return [float(f"{v:.12g}") for v in tensor.detach().double().flatten().tolist()]


def shapes(net):
    return {name: list(value.shape) for name, value in sorted(net.state_dict().items())}


def case(kind, options, net, shape):
    net = net.double()
    fill(net)
    x = hashed(1000, torch.Size(shape).numel()).double().reshape(shape).requires_grad_()
    net.eval()
    logits = net(x)
    net.train()
    trained = net(x)
    (trained * torch.cos(torch.arange(trained.numel(), dtype=torch.float64)).reshape(trained.shape)).sum().backward()
    # A gradient is recorded as its sum of squares and its product with hashed numbers.
    pairs = {name: numbers(torch.stack([(p.grad**2).sum(), (p.grad.flatten() * hashed(7, p.numel())).sum()]))
             for name, p in [("input", x), *net.named_parameters()]}
    buffers = {name: numbers(b.double().sum()) for name, b in net.named_buffers()}
    return {"kind": kind, "options": options, "state": shapes(net), "parameters": sum(p.numel() for p in net.parameters()),
            "input": shape, "eval": numbers(logits), "train": numbers(trained), "gradients": pairs, "buffers": buffers}


def published(name, image):
    """A published model with 1000 classes. Of its logits in evaluation the first ten are kept."""
    net = getattr(torchvision.models, name)(weights=None)
    out = {"parameters": sum(p.numel() for p in net.parameters())}
    if image:
        net = net.double().eval()
        fill(net)
        shape = [1, 3, image, image]
        with torch.no_grad():
            logits = net(hashed(1000, torch.Size(shape).numel()).reshape(shape))
        out |= {"state": shapes(net), "input": shape, "eval": numbers(logits[0, :10])}
    return out


def main():
    cases = []
    for bottleneck, blocks, classes, channels, width, side in [(False, [2, 1, 1, 2], 5, 3, 4, 33), (True, [1, 2, 1, 1], 4, 1, 3, 40),
                                                               (False, [1, 1, 1, 1], 3, 3, 64, 17)]:
        options = {"bottleneck": bottleneck, "blocks": blocks, "classes": classes, "channels": channels, "width": width}
        cases.append(case("resnet", options, resnet(**options), [3, channels, side, side + 2]))
    for options in [{"classes": 5, "image": 12, "patch": 4, "layers": 2, "heads": 3, "features": 12, "hidden": 20, "channels": 3},
                    {"classes": 3, "image": 10, "patch": 5, "layers": 1, "heads": 1, "features": 6, "hidden": 7, "channels": 1}]:
        cases.append(case("vit", options, vit(**options), [2, options["channels"], options["image"], options["image"]]))
    data = {"torch": torch.__version__.split("+")[0], "torchvision": torchvision.__version__.split("+")[0], "cases": cases,
            "published": {name: published(name, image) for name, image in PUBLISHED.items()}}
    text = json.dumps(data, separators=(",", ":")).replace('{"kind"', '\n{"kind"').replace('{"parameters"', '\n{"parameters"')
    pathlib.Path(__file__).with_name("vision.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
