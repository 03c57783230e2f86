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


@functools.cache
def losses(model, *arguments, launcher=(sys.executable,)):
    """Of six steps, a sequence each."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [*launcher, str(TRAIN / "train.py"), model, *arguments, "--batch", "1", "--steps", "6"]
        subprocess.run([*command, "--json", file.name], check=True, timeout=900, stdout=subprocess.DEVNULL)
        return json.load(file)["losses"]


@pytest.mark.parametrize("model", ["llama", "mamba2", "nsa"])
def test_same_curve(model):
    theirs, ours = (losses(model, "--impl", impl) for impl in ("torch", "gradus"))
    assert all(abs(a - b) <= 0.005 for a, b in zip(theirs, ours))
    assert ours[-1] < ours[0]


def test_two_ranks_share_the_vocabulary():
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    alone = losses("llama", "--impl", "gradus")
    together = losses("llama", "--impl", "gradus", "--tp", "2", launcher=torchrun)
    assert all(abs(a - b) <= 1e-3 for a, b in zip(alone, together))
