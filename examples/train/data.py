"""Text that every Debian has, as numbers: words, marks and white space, by how often they occur."""

import collections
import re
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

VOCABULARY = 32768
LICENSES = Path("/usr/share/common-licenses")
PROJECT = Path(__file__).resolve().parents[2]


def corpus() -> Tensor:
    files = [*sorted(LICENSES.glob("*")), *sorted(PROJECT.glob("*.md")), *sorted(PROJECT.glob("docs/*.md"))]
    text = "\n".join(path.read_text(errors="replace") for path in files if path.is_file())
    words = re.findall(r"\w+|[^\w\s]|\s+", text)
    ranked = sorted(collections.Counter(words).items(), key=lambda entry: (-entry[1], entry[0]))
    number = {word: i for i, (word, _) in enumerate(ranked[: VOCABULARY - 1])}
    return torch.tensor([number.get(word, VOCABULARY - 1) for word in words])


def batches(batch: int, length: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """(tokens, the tokens that follow them), each [batch, length], for ever and the same for the same seed."""
    text, generator = corpus(), torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(len(text) - length - 1, (batch,), generator=generator)
        rows = torch.stack([text[s : s + length + 1] for s in starts])
        yield rows[:, :-1], rows[:, 1:]
