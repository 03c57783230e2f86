"""Any thread, either pool of threads, options of a thread, forked processes."""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import gradus
import gradus.torch as F
import pytest
import torch


@pytest.fixture(params=[False, True], ids=["own threads", "torch's threads"])
def pool(request):
    F.use_torch_threads(request.param)
    yield request.param
    F.use_torch_threads(False)


def step(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Forward and backward of work that is large enough for several threads."""
    x = torch.randn(512, 1024, generator=torch.Generator().manual_seed(seed), requires_grad=True)
    y = F.swiglu(x)
    y.square().sum().backward()
    return y.detach(), x.grad


def same(a, b) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b))


def test_threads_at_once(pool):
    want = [step(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(3):
            assert all(same(*pair) for pair in zip(threads.map(step, range(8)), want))


def test_number_of_threads_changes_no_bit(pool):
    want, before = step(0), torch.get_num_threads()
    try:
        for number in (1, 2, 5):
            torch.set_num_threads(number)
            assert same(step(0), want)
            with gradus.options(num_threads=number):
                assert same(step(0), want)
    finally:
        torch.set_num_threads(before)


def run(code: str, **variables: str) -> str:
    """The output of a Python process of its own."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    return done.stdout


WORKERS = """
    import os, torch, gradus.torch as F
    torch.set_num_threads(2)
    def workers():
        names = (open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task"))
        return sum(name.startswith("gradus-worker") for name in names)
"""


def test_lent_threads_are_pytorch_s():
    out = run(WORKERS + """
    x = torch.randn(2048, 2048)
    F.use_torch_threads(True); a = F.swiglu(x); lent = workers()
    F.use_torch_threads(False); b = F.swiglu(x)
    print(lent, workers(), torch.equal(a, b))
    """, GRADUS_NUM_THREADS="2")
    assert out.split() == ["0", "1", "True"]


def test_options_hold_for_their_thread(pool):
    x = torch.randn(4, 8)
    with ThreadPoolExecutor(1) as other, gradus.options(limits="on"):
        with pytest.raises(RuntimeError, match="contiguous"):
            F.swiglu(x.t(), 0)
        assert other.submit(F.swiglu, x.t(), 0).result().shape == (4, 4)
    assert F.swiglu(x.t(), 0).shape == (4, 4)


@pytest.mark.parametrize("lend", [False, True])
def test_forked_child(lend):
    """libgomp's threads do not survive a fork, nor do the library's own: the child works alone.

    PyTorch's own operators hang there, so bytes are compared without them.
    """
    out = run(f"""
    import os, torch, gradus.torch as F
    torch.set_num_threads(2)
    F.use_torch_threads({lend})
    x = torch.randn(2048, 2048)
    want = F.swiglu(x)
    torch.relu(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if F.swiglu(x).numpy().tobytes() == want.numpy().tobytes() else 1)
    print(os.waitpid(child, 0)[1], torch.equal(F.swiglu(x), want))
    """, GRADUS_NUM_THREADS="2")
    assert out.split() == ["0", "True"]


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return torch.stack(step(i)[:1])


def test_data_loader(pool):
    step(0)
    loader = torch.utils.data.DataLoader(Rows(), num_workers=2, multiprocessing_context="fork", timeout=120)
    for i, row in enumerate(loader):
        assert torch.equal(row[0, 0], step(i)[0])
