"""micrograd's training demo. Answers lines of JSON on stdin:
{"demo": true} with the points, labels and first weights; {"rate": r} with the loss and the seconds of a step."""
import json
import math
import random
import sys
import time

from micrograd.nn import MLP


def moons(count, noise):
    """Two half circles that reach into each other, with labels -1 and 1."""
    inputs, labels = [], []
    for k in range(count):
        upper = k % 2 == 0
        angle = math.pi * (k // 2) / (count // 2 - 1)
        x, y = (math.cos(angle), math.sin(angle)) if upper else (1 - math.cos(angle), 0.5 - math.sin(angle))
        inputs.append([x + random.gauss(0, noise), y + random.gauss(0, noise)])
        labels.append(-1.0 if upper else 1.0)
    return inputs, labels


def step(model, inputs, labels, rate):
    """One step of the demo, with all points in a batch; returns the loss before the update."""
    scores = [model(x) for x in inputs]
    losses = [(1 + -y * score).relu() for y, score in zip(labels, scores)]
    loss = sum(losses) * (1.0 / len(losses)) + 1e-4 * sum(p * p for p in model.parameters())
    model.zero_grad()
    loss.backward()
    for p in model.parameters():
        p.data -= rate * p.grad
    return loss.data


def main():
    random.seed(1337)
    sys.setrecursionlimit(1_000_000)
    inputs, labels = moons(100, 0.1)
    model = MLP(2, [16, 16, 1])
    for line in sys.stdin:
        request = json.loads(line)
        if "demo" in request:
            layers = [[[w.data for w in n.w] + [n.b.data] for n in layer.neurons] for layer in model.layers]
            answer = {"inputs": inputs, "labels": labels, "layers": layers}
        else:
            start = time.perf_counter()
            loss = step(model, inputs, labels, request["rate"])
            answer = {"loss": float(loss), "seconds": time.perf_counter() - start}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
