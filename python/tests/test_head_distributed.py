"""The vocabulary over R ranks: real processes, gloo on this machine."""

import time

import head_ranks
import pytest
from head_ranks import BIAS_ROWS, CUTS, DTYPES
from head_reference import Reference, of_sum

import torch
import torch.multiprocessing as mp

from gradus.torch import linear_cross_entropy

LIMIT = 180  # seconds for all cases of one R

if not torch.distributed.is_gloo_available():
    pytest.skip("this PyTorch has no gloo", allow_module_level=True)


@pytest.fixture(scope="module", params=[1, 2, 3])
def ranks(request, tmp_path_factory) -> list[dict]:
    """The results of every rank."""
    size, folder = request.param, tmp_path_factory.mktemp("ranks")
    context = mp.spawn(head_ranks.run, args=(size, str(folder)), nprocs=size, join=False)
    end = time.monotonic() + LIMIT
    try:
        while not context.join(timeout=1):
            assert time.monotonic() < end, f"{size} ranks did not end within {LIMIT} s"
    finally:
        for process in context.processes:
            if process.is_alive():
                process.kill()
    return [torch.load(folder / f"{rank}.pt") for rank in range(size)]


def parts_of(cuts: list[int], bias: bool) -> list[tuple[int, int]]:
    """Whose share of the gradient of input is rounded by itself: ranks, and with a bias the parts of each."""
    step = BIAS_ROWS if bias else max(cuts)
    return [(a, min(a + step, end)) for first, end in zip(cuts, cuts[1:]) for a in range(first, end, step)]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CUTS[1])
def test_as_one_process(ranks, case, dtype, bias):
    cuts = CUTS[len(ranks)][case]
    results = [rank[f"{case} {dtype} {bias}"] for rank in ranks]
    for result in results[1:]:
        for name in ("loss", "lse", "input"):
            assert torch.equal(result[name], results[0][name]), f"{name}: ranks differ"

    x, weight, b, target = head_ranks.problem(cuts[-1], DTYPES[dtype], head_ranks.targets_below(case, cuts))
    reference = Reference(x, weight, target, b if bias else None)
    reference.reduced("mean").check(results[0]["loss"], "loss")
    reference.lse.check(results[0]["lse"], "lse")
    rows = len(target)
    grad_loss = torch.full((rows,), 1 / reference.counted.sum())
    expected = reference.gradients(grad_loss, torch.full((rows,), 0.25 / rows), parts_of(cuts, bias))
    expected["input"].check(results[0]["input"], "input")
    for name in ("weight", "bias") if bias else ("weight",):
        shards = [result[name] for result in results]
        assert [len(shard) for shard in shards] == [b - a for a, b in zip(cuts, cuts[1:])]
        expected[name].check(torch.cat(shards), name)


def test_one_rank_gives_the_bits_of_none(ranks):
    if len(ranks) > 1:
        pytest.skip("of R = 1")
    x, weight, _, target = head_ranks.problem(CUTS[1]["even"][-1], torch.bfloat16)
    x.requires_grad_(), weight.requires_grad_()
    loss, lse = linear_cross_entropy(x, weight, target, return_lse=True)
    (loss + 0.25 * lse.mean()).backward()
    result = ranks[0]["even bf16 False"]
    assert torch.equal(result["loss"], loss) and torch.equal(result["input"], x.grad)
    assert torch.equal(result["weight"], weight.grad)


def test_refusals_reach_every_rank(ranks):
    nobody, everybody, shape = zip(*(rank["refusals"] for rank in ranks))
    wanted = "linear_cross_entropy: target 0 of row 0, expected one rank's vocab_range, or ignore_index"
    assert set(nobody) == {wanted}
    assert len(ranks) == 1 or set(everybody) == {wanted}
    assert all("vocab_range (0, 29), expected the 30 rows" in words for words in shape)


def test_gradients_are_summed_in_f32(ranks):
    for rank in ranks:
        assert torch.equal(rank["wide_sum"], torch.full((1000,), 255.0 + len(ranks)))


def test_compiled(ranks):
    if len(ranks) != 2:
        pytest.skip("compiled for R = 2")
    results = [rank["compiled"] for rank in ranks]
    for result in results:
        for name in ("input", "weight"):
            assert torch.equal(result[f"compiled {name}"], result[f"eager {name}"])
        # The sum over the rows, all of one sign, may be in another order.
        rtol = 2 * of_sum(head_ranks.TOKENS)
        torch.testing.assert_close(result["compiled loss"], result["eager loss"], rtol=rtol, atol=0)
    assert torch.equal(results[0]["compiled loss"], results[1]["compiled loss"])
