"""Writes recurrent.json: outputs, states and gradients of PyTorch's recurrent layers and cells in f64. Sequences of several lengths are
packed: pack_padded_sequence with enforce_sorted=False, and pad_packed_sequence.

Run with torch installed:  python tests/golden/make_recurrent.py
The weights, the inputs and the states are values of a hash, which the tests compute too.
"""

import json
import pathlib

import torch
from hashed import hashed
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

CASES = []


def plain(tensor):
    # Ten digits: the largest tolerance of the test in f64 is 1e-8.
    return {"shape": list(tensor.shape), "values": [float(f"{v:.10g}") for v in tensor.detach().flatten().tolist()]}


def flat(result):
    """The tensors of a result, without the tuples of an LSTM."""
    return [result] if isinstance(result, torch.Tensor) else [t for part in result for t in flat(part)]


def call(layer, leaves, lengths, batch_first):
    """The outputs and the last states. Outputs of packed sequences are as long as the padded input, whatever the longest length is."""
    given = leaves[1:] if len(leaves) < 3 else [tuple(leaves[1:])]
    if not lengths:
        return flat(layer(leaves[0], *given))
    packed, states = layer(pack_padded_sequence(leaves[0], lengths, batch_first, enforce_sorted=False), *given)
    steps = leaves[0].shape[1 if batch_first else 0]
    return flat((pad_packed_sequence(packed, batch_first, total_length=steps)[0], states))


def case(kind, inputs, states, options=None, lengths=None):
    """One call. `states` has the shapes of the states that are passed (none: PyTorch's default of zeros)."""
    options = options or {}
    layer = getattr(torch.nn, kind)(3, 4, dtype=torch.float64, **options)
    for key, (_, p) in enumerate(sorted(layer.named_parameters())):
        p.data = 0.5 * hashed(key, p.numel()).reshape(p.shape)
    leaves = [(2 * hashed(100 + i, torch.Size(s).numel())).reshape(s).requires_grad_() for i, s in enumerate([inputs, *states])]
    results = call(layer, leaves, lengths, options.get("batch_first", False))
    sum((r * torch.cos(torch.arange(r.numel(), dtype=torch.float64)).reshape(r.shape)).sum() for r in results).backward()
    CASES.append({"kind": kind, "options": options, "lengths": lengths, "inputs": [inputs, *states],
                  "results": [plain(r) for r in results], "gradients": [plain(t.grad) for t in leaves],
                  "weight_gradients": {n: plain(p.grad) for n, p in layer.named_parameters()}})


def main():
    for kind, states in [("RNN", 1), ("GRU", 1), ("LSTM", 2)]:
        case(kind, (5, 2, 3), [])
        case(kind, (5, 2, 3), [(2, 2, 4)] * states, {"num_layers": 2})
        case(kind, (2, 5, 3), [(4, 2, 4)] * states, {"num_layers": 2, "bidirectional": True, "batch_first": True})
        case(kind, (1, 1, 3), [(1, 1, 4)] * states, {"bias": False})
        case(kind, (5, 3), [(1, 4)] * states)
        case(kind, (4, 3, 3), [], lengths=[2, 4, 1])
        case(kind, (5, 3, 3), [(2, 3, 4)] * states, {"bidirectional": True}, lengths=[3, 5, 1])
        case(kind, (3, 5, 3), [(2, 3, 4)] * states, {"num_layers": 2, "batch_first": True}, lengths=[1, 4, 2])
        case(kind, (3, 4, 3), [(4, 3, 4)] * states, {"num_layers": 2, "bidirectional": True, "batch_first": True}, lengths=[2, 1, 4])
    case("RNN", (4, 2, 3), [], {"nonlinearity": "relu"})
    case("RNN", (4, 2, 3), [], {"nonlinearity": "relu"}, lengths=[1, 4])
    for kind, states in [("RNNCell", 1), ("GRUCell", 1), ("LSTMCell", 2)]:
        case(kind, (2, 3), [(2, 4)] * states)
        case(kind, (3,), [(4,)] * states, {"bias": False})
    case("GRUCell", (2, 3), [])
    case("RNNCell", (2, 3), [], {"nonlinearity": "relu"})
    text = json.dumps({"torch": torch.__version__.split("+")[0], "cases": CASES}, separators=(",", ":"))
    pathlib.Path(__file__).with_name("recurrent.json").write_text(text.replace('{"kind"', '\n{"kind"') + "\n")


if __name__ == "__main__":
    main()
