"""The two examples of micrograd in Python, timed for bench_micrograd: one process for each round.

python3 bench/peers/micrograd_peer.py TASKS.json

Needs `pip install micrograd`. TASKS.json holds the data and the first weights of the network, and the number
of calls. Prints one JSON object: for each example its results, and the seconds of one call.
Source: https://github.com/karpathy/micrograd, README and demo.ipynb.
"""

import json
import sys
import time

from micrograd.engine import Value
from micrograd.nn import MLP


def expression(x, y):
    a, b = Value(x), Value(y)
    c = a + b
    d = a * b + b**3
    c = c + (c + 1)
    c = c + (1 + c + (-a))
    d = d + (d * 2 + (b + a).relu())
    d = d + (3 * d + (b - a).relu())
    e = c - d
    f = e**2
    g = f / 2.0
    g = g + 10.0 / f
    g.backward()
    return [g.data, a.grad, b.grad]


def network(task):
    """The network with the weights of the task: rows of [inputs, outputs] and a bias for each layer."""
    sizes = [len(layer["bias"]) for layer in task["layers"]]
    model = MLP(len(task["points"][0]), sizes)
    for layer, values in zip(model.layers, task["layers"]):
        for j, neuron in enumerate(layer.neurons):
            neuron.b.data = values["bias"][j]
            for i, w in enumerate(neuron.w):
                w.data = values["weight"][i][j]
    return model


def step(model, task):
    """One step of gradient descent on the hinge loss; returns the loss before it."""
    inputs = [list(map(Value, row)) for row in task["points"]]
    scores = list(map(model, inputs))
    losses = [(1 + -t * score).relu() for t, score in zip(task["labels"], scores)]
    loss = sum(losses) * (1.0 / len(losses)) + task["decay"] * sum(p * p for p in model.parameters())
    model.zero_grad()
    loss.backward()
    for p in model.parameters():
        p.data -= task["rate"] * p.grad
    return loss.data


def seconds_of(calls, work):
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) / calls


def main():
    task = json.load(open(sys.argv[1], encoding="utf-8"))
    a, b = task["expression"]
    model, losses = network(task), []
    seconds = seconds_of(task["steps"], lambda: losses.append(step(model, task)))
    print(json.dumps({
        "expression": {"results": expression(a, b), "seconds": seconds_of(2000, lambda: expression(a, b))},
        "network": {"results": losses, "seconds": seconds}}))


if __name__ == "__main__":
    main()
