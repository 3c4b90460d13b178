"""Numbers that golden scripts and tests compute alike (tests/support/hashed.hpp), so that they need not be stored."""

import torch


def hashed(key, count):
    """Numbers in [-1, 1): element i depends on key and i alone."""
    h = (torch.arange(count, dtype=torch.int64) * 2654435761 + key * 40503 + 12345) % 2**32
    for shift, factor in [(15, 0x2C1B3C6D), (12, 0x297A2D39), (15, 1)]:
        h = (h ^ (h >> shift)) * factor % 2**32
    return h.double() / 2**31 - 1
