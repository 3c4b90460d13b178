"""Writes vision.json: names, logits, running statistics and gradients of small ResNets and vision transformers, in f64, for the tests
of vision/.

Run with torch installed:  python tests/golden/make_vision.py
The models are written here with torch.nn alone; their parameters have the names of torchvision's models. The state and the images are
values of a hash, which the tests compute too, so that no weights are stored.
"""

import json
import pathlib

import torch
from torch import nn


def hashed(key, count):
    """Numbers in [-1, 1): element i depends on key and i alone."""
    h = (torch.arange(count, dtype=torch.int64) * 2654435761 + key * 40503 + 12345) % 2**32
    for shift, factor in [(15, 0x2C1B3C6D), (12, 0x297A2D39), (15, 1)]:
        h = (h ^ (h >> shift)) * factor % 2**32
    return h.double() / 2**31 - 1


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


def conv(inputs, outputs, side, stride=1):
    return nn.Conv2d(inputs, outputs, side, stride, side // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, width, stride, bottleneck):
        super().__init__()
        outputs = width * (4 if bottleneck else 1)
        sides = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)] if bottleneck else [
            (inputs, width, 3, stride), (width, width, 3, 1)]
        self.count = len(sides)
        for i, (a, b, side, step) in enumerate(sides, 1):
            self.add_module(f"conv{i}", conv(a, b, side, step))
            self.add_module(f"bn{i}", nn.BatchNorm2d(b))
        self.downsample = None
        if inputs != outputs or stride != 1:
            self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = torch.relu(y) if i < self.count else y
        return torch.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    def __init__(self, blocks, bottleneck, classes, channels, width):
        super().__init__()
        self.conv1, self.bn1 = conv(channels, width, 7, 2), nn.BatchNorm2d(width)
        inputs, self.stages = width, len(blocks)
        for stage, count in enumerate(blocks):
            layers = []
            for i in range(count):
                layers.append(Block(inputs, width << stage, 2 if stage > 0 and i == 0 else 1, bottleneck))
                inputs = (width << stage) * (4 if bottleneck else 1)
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        y = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in range(self.stages):
            y = getattr(self, f"layer{stage + 1}")(y)
        return self.fc(y.mean((2, 3)))


class EncoderLayer(nn.Module):
    def __init__(self, features, heads, hidden):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(features, 1e-6), nn.LayerNorm(features, 1e-6)
        self.self_attention = nn.MultiheadAttention(features, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(features, hidden), nn.GELU(), nn.Dropout(0), nn.Linear(hidden, features), nn.Dropout(0))

    def forward(self, x):
        h = self.ln_1(x)
        x = x + self.self_attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    def __init__(self, tokens, layers, features, heads, hidden):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.zeros(1, tokens, features))
        self.layers = nn.Sequential()
        for i in range(layers):
            self.layers.add_module(f"encoder_layer_{i}", EncoderLayer(features, heads, hidden))
        self.ln = nn.LayerNorm(features, 1e-6)

    def forward(self, x):
        return self.ln(self.layers(x + self.pos_embedding))


class VisionTransformer(nn.Module):
    def __init__(self, classes, image, patch, layers, heads, features, hidden, channels):
        super().__init__()
        self.class_token = nn.Parameter(torch.zeros(1, 1, features))
        self.conv_proj = nn.Conv2d(channels, features, patch, patch)
        self.encoder = Encoder((image // patch) ** 2 + 1, layers, features, heads, hidden)
        self.heads = nn.Sequential()
        self.heads.add_module("head", nn.Linear(features, classes))

    def forward(self, x):
        patches = self.conv_proj(x).flatten(2).transpose(1, 2)
        return self.heads(self.encoder(torch.cat([self.class_token.expand(len(x), -1, -1), patches], 1))[:, 0])


def numbers(tensor):
    return [float(f"{v:.12g}") for v in tensor.detach().double().flatten().tolist()]


def case(kind, options, net, shape):
    net = net.double()
    fill(net)
    state = {name: list(value.shape) for name, value in sorted(net.state_dict().items())}
    count = sum(p.numel() for p in net.parameters())
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
    return {"kind": kind, "options": options, "state": state, "parameters": count, "input": shape, "eval": numbers(logits),
            "train": numbers(trained), "gradients": pairs, "buffers": buffers}


def main():
    cases = []
    for bottleneck, blocks, classes, channels, width, side in [(False, [2, 1, 1, 2], 5, 3, 4, 33), (True, [1, 2, 1, 1], 4, 1, 3, 40)]:
        options = {"bottleneck": bottleneck, "blocks": blocks, "classes": classes, "channels": channels, "width": width}
        cases.append(case("resnet", options, ResNet(blocks, bottleneck, classes, channels, width), [3, channels, side, side + 2]))
    for options in [{"classes": 5, "image": 12, "patch": 4, "layers": 2, "heads": 3, "features": 12, "hidden": 20, "channels": 3},
                    {"classes": 3, "image": 10, "patch": 5, "layers": 1, "heads": 1, "features": 6, "hidden": 7, "channels": 1}]:
        cases.append(case("vit", options, VisionTransformer(**options), [2, options["channels"], options["image"], options["image"]]))
    published = [("resnet18", ResNet([2, 2, 2, 2], False, 1000, 3, 64)), ("resnet34", ResNet([3, 4, 6, 3], False, 1000, 3, 64)),
                 ("resnet50", ResNet([3, 4, 6, 3], True, 1000, 3, 64)), ("resnet101", ResNet([3, 4, 23, 3], True, 1000, 3, 64)),
                 ("resnet152", ResNet([3, 8, 36, 3], True, 1000, 3, 64)),
                 ("vit_b_16", VisionTransformer(1000, 224, 16, 12, 12, 768, 3072, 3)),
                 ("vit_b_32", VisionTransformer(1000, 224, 32, 12, 12, 768, 3072, 3)),
                 ("vit_l_16", VisionTransformer(1000, 224, 16, 24, 16, 1024, 4096, 3))]
    counts = {name: sum(p.numel() for p in net.parameters()) for name, net in published}
    text = json.dumps({"torch": torch.__version__.split("+")[0], "cases": cases, "parameters": counts}, separators=(",", ":"))
    pathlib.Path(__file__).with_name("vision.json").write_text(text.replace('{"kind"', '\n{"kind"') + "\n")


if __name__ == "__main__":
    main()
