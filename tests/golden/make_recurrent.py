"""Writes recurrent.json: outputs, states and gradients of PyTorch's recurrent layers and cells in f64.

Run with torch installed:  python tests/golden/make_recurrent.py
"""

import json
import pathlib

import torch

torch.manual_seed(31)
CASES = []


def plain(tensor):
    # Ten digits: the largest tolerance of the test in f64 is 1e-8.
    return {"shape": list(tensor.shape), "values": [float(f"{v:.10g}") for v in tensor.detach().flatten().tolist()]}


def flat(result):
    """The tensors of a result, without the tuples of an LSTM."""
    return [result] if isinstance(result, torch.Tensor) else [t for part in result for t in flat(part)]


def case(kind, inputs, states, options=None, lengths=None):
    """One call. `states` has the shapes of the states that are passed (none: PyTorch's default of zeros)."""
    options = options or {}
    layer = getattr(torch.nn, kind)(3, 4, dtype=torch.float64, **options)
    for p in layer.parameters():  # equal to what ten digits hold
        p.data = torch.tensor(plain(p)["values"], dtype=torch.float64).reshape(p.shape)
    leaves = [torch.randn(s, dtype=torch.float64).mul(1000).round().div(1000).requires_grad_() for s in [inputs, *states]]
    given = leaves[1:] if len(leaves) < 3 else [tuple(leaves[1:])]
    x = leaves[0]
    if lengths:
        x = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, options.get("batch_first", False), enforce_sorted=False)
    results = layer(x, *given)
    if lengths:
        results = (torch.nn.utils.rnn.pad_packed_sequence(results[0], options.get("batch_first", False))[0], results[1])
    results = flat(results)
    sum((r * torch.cos(torch.arange(r.numel(), dtype=torch.float64)).reshape(r.shape)).sum() for r in results).backward()
    CASES.append({"kind": kind, "options": options, "lengths": lengths, "inputs": [plain(t) for t in leaves],
                  "weights": {n: plain(p) for n, p in layer.named_parameters()}, "results": [plain(r) for r in results],
                  "gradients": [plain(t.grad) for t in leaves],
                  "weight_gradients": {n: plain(p.grad) for n, p in layer.named_parameters()}})


def main():
    for kind, states in [("RNN", 1), ("GRU", 1), ("LSTM", 2)]:
        case(kind, (5, 2, 3), [])
        case(kind, (5, 2, 3), [(2, 2, 4)] * states, {"num_layers": 2})
        case(kind, (2, 5, 3), [(4, 2, 4)] * states, {"num_layers": 2, "bidirectional": True, "batch_first": True})
        case(kind, (1, 1, 3), [(1, 1, 4)] * states, {"bias": False})
        case(kind, (5, 3), [(1, 4)] * states)
        case(kind, (5, 3, 3), [(2, 3, 4)] * states, {"bidirectional": True}, lengths=[3, 5, 1])
    case("RNN", (4, 2, 3), [], {"nonlinearity": "relu"})
    for kind, states in [("RNNCell", 1), ("GRUCell", 1), ("LSTMCell", 2)]:
        case(kind, (2, 3), [(2, 4)] * states)
        case(kind, (3,), [(4,)] * states, {"bias": False})
    case("GRUCell", (2, 3), [])
    case("RNNCell", (2, 3), [], {"nonlinearity": "relu"})
    text = json.dumps({"torch": torch.__version__.split("+")[0], "cases": CASES}, separators=(",", ":"))
    pathlib.Path(__file__).with_name("recurrent.json").write_text(text.replace('{"kind"', '\n{"kind"') + "\n")


if __name__ == "__main__":
    main()
