"""examples/train: both implementations learn the same, and ranks that share the vocabulary learn what one learns."""

import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("torch")
TRAIN = Path(__file__).resolve().parents[2] / "examples" / "train"


# Sequences a step, to save time where the model's own number shows no more. mamba2 needs its four: of one, both
# gradients are within 1 % of f64's, and AdamW's first step takes the second losses 0.14 apart.
BATCH = {"llama": ("--batch", "1")}


@functools.cache
def losses(model, *arguments, launcher=(sys.executable,)):
    """Of three steps."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [*launcher, str(TRAIN / "train.py"), model, *arguments, *BATCH.get(model, ()), "--steps", "3"]
        subprocess.run([*command, "--json", file.name], check=True, timeout=900, stdout=subprocess.DEVNULL)
        return json.load(file)["losses"]


@pytest.mark.parametrize("model, apart", [("llama", 0.02), ("mamba2", 0.1), ("nsa", 0.1)])
def test_same_curve(model, apart):
    theirs, ours = (losses(model, "--impl", impl) for impl in ("torch", "gradus"))
    # Two losses see the forward and one gradient. Then AdamW has divided by the size of its first gradients, so that a
    # last bit of those near zero is a whole step: mamba2's third loss is 0.07 (PyTorch) and 0.10 from f64's. nsa chooses
    # blocks by scores besides, and one that changes its place changes the sum.
    assert all(abs(a - b) <= 0.005 for a, b in zip(theirs[:2], ours))
    assert all(abs(a - b) <= apart for a, b in zip(theirs, ours))
    assert ours[-1] < ours[0]


def test_two_ranks_share_the_vocabulary():
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    alone = losses("llama", "--impl", "gradus")
    together = losses("llama", "--impl", "gradus", "--tp", "2", launcher=torchrun)
    assert all(abs(a - b) <= 1e-3 for a, b in zip(alone, together))
