"""HCCL started as programs under torchrun do it."""

import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).with_name("hccl_ranks.py")


def test_root_info_through_the_store() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3", str(SCRIPT)],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(line for line in done.stdout.splitlines() if "right" in line) == [
        f"rank {rank} of 3: right" for rank in range(3)
    ]
