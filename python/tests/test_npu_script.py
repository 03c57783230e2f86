"""Whole programs: an Ascend script that nobody has changed, and what is said where gradus.torch_npu cannot be used."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import npu_device  # noqa: F401  first
import pytest
import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "train" / "ascend_style.py"


def run(*arguments, cwd=None, **environment):
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=cwd, env={**os.environ, **environment},
                          capture_output=True, text=True, timeout=300)


def losses(result):
    assert result.returncode == 0, result.stderr
    return re.findall(r"^step (\d+) loss (\S+) norm (\S+)$", result.stdout, re.M)


def test_the_script_knows_nothing_of_us():
    assert "gradus" not in EXAMPLE.read_text()
    assert "No module named 'torch_npu'" in run(EXAMPLE).stderr


def test_an_ascend_script_runs_unchanged(tmp_path):
    whole = losses(run("-m", "gradus.torch_npu", EXAMPLE, "--steps", 24, "--save", tmp_path / "24.pt"))
    assert [int(step) for step, *_ in whole] == list(range(1, 25))
    assert float(whole[-1][1]) < float(whole[0][1]) / 4  # it learns
    assert losses(run("-m", "gradus.torch_npu", EXAMPLE, "--steps", 24)) == whole  # the same again
    resumed = run("-m", "gradus.torch_npu", EXAMPLE, "--steps", 28, "--resume", tmp_path / "24.pt")
    assert [int(step) for step, *_ in losses(resumed)] == [25, 26, 27, 28]
    assert float(losses(resumed)[0][1]) < float(whole[4][1])
    assert re.search(r"^\d+ ms, [1-9][0-9.]* MiB, device npu:0$", resumed.stdout, re.M)
    state = torch.load(tmp_path / "24.pt", map_location="cpu")
    assert state["step"] == 24 and state["model"]["embed.weight"].device.type == "cpu"


def test_first_line_of_a_script(tmp_path):
    script = tmp_path / "first.py"
    script.write_text("import gradus.torch_npu.install\nimport torch, torch_npu\n"
                      "print(torch_npu.npu_swiglu(torch.ones(2).npu()))\n")
    assert run(script).stdout.strip() == "tensor([0.7311], device='npu:0')"


def test_arguments_modules_and_spawned_processes(tmp_path):
    (tmp_path / "helper.py").write_text("WORD = 'beside'\n")
    script = tmp_path / "program.py"
    script.write_text("""
import sys
import torch, torch_npu
import torch.multiprocessing as mp
import helper

def work(rank):
    print("rank", rank, torch_npu.npu_swiglu(torch.ones(2, 4).npu()).device, flush=True)

if __name__ == "__main__":
    print(sys.argv[1:], helper.WORD, __file__.endswith("program.py"), flush=True)
    mp.spawn(work, nprocs=2)
""")
    for how in ([script], ["-m", "program"]):
        result = run("-m", "gradus.torch_npu", *how, "--a", "b", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        lines = result.stdout.splitlines()
        assert lines[0] == "['--a', 'b'] beside True" and sorted(lines[1:]) == ["rank 0 npu:0", "rank 1 npu:0"]


def test_usage_and_failures(tmp_path):
    assert "usage: python -m gradus.torch_npu script.py" in run("-m", "gradus.torch_npu").stderr
    assert run("-m", "gradus.torch_npu").returncode == 1
    script = tmp_path / "fails.py"
    script.write_text("import sys, torch_npu\nsys.exit(7)\n")
    assert run("-m", "gradus.torch_npu", script).returncode == 7


def test_beside_the_real_one_it_refuses(tmp_path):
    package = tmp_path / "torch_npu"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('the real one must not be imported')\n")
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    result = run("-m", "gradus.torch_npu", EXAMPLE, PYTHONPATH=paths)
    assert result.returncode == 1
    assert re.search(r"ImportError: gradus.torch_npu: the real torch_npu is installed \(.*torch_npu/__init__.py\) and "
                     "both cannot be in one process; run the script without gradus.torch_npu", result.stderr)


@pytest.mark.parametrize("code, words", [
    ("import torch; torch.__version__ = '2.99.1'", "built for torch 2.13, this is torch 2.99.1; install torch 2.13"),
    ("import torch; torch.utils.rename_privateuse1_backend('fpga')", "another device, 'fpga', has taken PyTorch's"),
])
def test_in_another_pytorch_it_refuses(code, words):
    result = run("-c", f"{code}\nimport gradus.torch_npu.install")
    assert result.returncode == 1 and words in result.stderr


def test_blocks_need_not_be_kept():
    code = ("import gradus.torch_npu.install, torch\nx = torch.ones(1 << 20, device='npu')\ny = x + x\ndel x, y\n"
            "print(torch.npu.memory_reserved())")
    assert run("-c", code, PYTORCH_NO_NPU_MEMORY_CACHING="1").stdout.strip() == "0"
    assert int(run("-c", code).stdout) >= 8 << 20


def test_number_of_devices():
    code = "import gradus.torch_npu.install, torch\nprint(torch.npu.device_count())"
    assert run("-c", code, GRADUS_DEVICES="3").stdout.strip() == "3"


def test_overhead_of_an_operator():
    """The goal is 10 microseconds over the CPU's time; other work on the machine must not fail the test."""
    def microseconds(call, count=2000):
        best = float("inf")
        for _ in range(7):
            start = time.perf_counter()
            for _ in range(count):
                call()
            best = min(best, time.perf_counter() - start)
        return best / count * 1e6

    for name in ("add", "matmul"):
        x = torch.ones(8, 8)
        y = x.npu()
        cpu = microseconds(lambda: getattr(x, name)(x))
        npu = microseconds(lambda: getattr(y, name)(y))
        assert npu - cpu < 20, f"{name}: {npu:.1f} us on npu, {cpu:.1f} on cpu"
