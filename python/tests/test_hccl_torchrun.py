"""HCCL started as programs under torchrun do it."""

import pathlib
import re
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
    # their lines may run into each other
    assert sorted(re.findall(r"rank \d of 3: right", done.stdout)) == [f"rank {rank} of 3: right" for rank in range(3)]
