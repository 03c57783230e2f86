"""PyTorch's own kernels, eager, by autograd and compiled, are right: gradus diff must not accuse them."""
import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
import torch

GRADUS = os.environ.get("GRADUS", str(pathlib.Path(__file__).parents[2] / "build/release/cli/gradus"))
pytestmark = pytest.mark.skipif(not os.access(GRADUS, os.X_OK), reason="no gradus command is built")
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def loaded(path, dtype):
    array = np.load(path)
    if dtype == "bf16":
        return torch.from_numpy(array.view(np.uint16).astype(np.int32).astype(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array)


def saved(tensor, path):
    tensor = tensor.detach().contiguous()
    np.save(path, tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else tensor.numpy())


class Problem:
    def __init__(self, directory, operator, *words):
        self.directory = directory
        made = self.run("run", operator, *words, "seed=9", "--case", "case")
        assert made.returncode == 0, made.stderr
        with open(directory / "case/case.json", encoding="utf-8") as file:
            self.case = json.load(file)
        self.attributes = self.case["attributes"]
        self.inputs = {name: loaded(directory / "case" / t["file"], t["dtype"]) for name, t in self.case["inputs"].items()}

    def run(self, *words):
        return subprocess.run([GRADUS, *words], cwd=self.directory, capture_output=True, text=True, timeout=300)

    def expect_right(self, **outputs):
        words = []
        for name, tensor in outputs.items():
            saved(tensor, self.directory / f"{name}.npy")
            words.append(f"{name}{':bf16' if tensor.dtype == torch.bfloat16 else ''}={name}.npy")
        done = self.run("diff", "--case", "case", *words, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        for output in json.loads(done.stdout)["outputs"]:
            assert output["verdict"] in ("equal", "kept", "rounded"), output["reason"]


def swi_glu(x):
    a, b = x.chunk(2, -1)
    return torch.nn.functional.silu(a) * b


def masked_softmax(x, mask, scale):
    return torch.softmax(torch.where(mask, -10000.0, x * scale).to(x.dtype), -1)


def exp_segsum(x):
    n = x.shape[-1]
    ones = torch.ones(n, n, dtype=torch.bool)
    sums = x[..., None].expand(*x.shape, n).masked_fill(~ones.tril(-1), 0).cumsum(-2)
    return sums.masked_fill(~ones.tril(0), -torch.inf).exp()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("compiled", [False, True])
def test_swi_glu(tmp_path, dtype, compiled):
    function = torch.compile(swi_glu) if compiled else swi_glu
    forward = Problem(tmp_path, "SwiGlu", "x=[64,512]", f"dtype={dtype}")
    forward.expect_right(out=function(forward.inputs["x"]))
    grad = Problem(tmp_path, "SwiGluGrad", "x=[64,512]", f"dtype={dtype}")
    x = grad.inputs["x"].requires_grad_()
    function(x).backward(grad.inputs["yGrad"])
    grad.expect_right(out=x.grad)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("compiled", [False, True])
def test_softmax(tmp_path, dtype, compiled):
    function = torch.compile(masked_softmax) if compiled else masked_softmax
    words = ["B=2", "H=3", "S=64", "N=200", "scale=0.25", f"dtype={dtype}"]
    problem = Problem(tmp_path, "ScaledMaskedSoftmax", *words)
    problem.expect_right(y=function(problem.inputs["x"], problem.inputs["mask"].expand(2, 3, 64, 200), 0.25))


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_backward(tmp_path, dtype):
    problem = Problem(tmp_path, "ScaledMaskedSoftmaxBackward", "B=2", "H=3", "S=64", "N=200", "scale=0.25", f"dtype={dtype}")
    g, y = problem.inputs["gradOutput"], problem.inputs["y"]
    grad = torch._softmax_backward_data(g, y, -1, y.dtype) * 0.25
    problem.expect_right(out=grad.masked_fill(problem.inputs["mask"], 0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_segsum(tmp_path, dtype):
    forward = Problem(tmp_path, "ExpSegsum", "self=[2,4,64]", f"dtype={dtype}")
    wide = forward.inputs["self"].float() if dtype != "f32" else forward.inputs["self"]
    forward.expect_right(out=exp_segsum(wide).to(DTYPES[dtype]))
    backward = Problem(tmp_path, "ExpSegsumBackward", "gradOutput=[2,4,64,64]", f"dtype={dtype}")
    p = (backward.inputs["gradOutput"].float() * backward.inputs["gradSelf"].float()).tril(-1)
    # sums over i >= k of sums over j < k
    below = torch.flip(torch.cumsum(torch.flip(p, [-2]), -2), [-2])
    n = p.shape[-1]
    got = (below * torch.ones(n, n).tril(-1)).sum(-1)
    backward.expect_right(gradInput=got.to(DTYPES[dtype]))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_head(tmp_path, dtype):
    stats = Problem(tmp_path, "FusedLinearOnlineMaxSum", "BT=48", "V=300", "H=128", f"dtype={dtype}")
    logits = (stats.inputs["input"] @ stats.inputs["weight"].T).float()  # rounded to the 16-bit type, as PyTorch does
    top = logits.max(-1).values
    stats.expect_right(logitsMaxLocalOut=top, sumExpLogitsLocalOut=torch.exp(logits - top[:, None]).sum(-1))

    grad = Problem(tmp_path, "FusedLinearCrossEntropyLossGrad", "BT=48", "V=300", "H=128", f"dtype={dtype}")
    i = grad.inputs
    logits = (i["input"] @ i["weight"].T).float()
    g = torch.exp(logits - i["logitsMaxOptional"][:, None]) / i["sumExpLogitsOptional"][:, None]
    bits = torch.from_numpy(np.unpackbits(i["targetMask"].numpy(), bitorder="little")[:48].astype(bool))
    rows = torch.nonzero(~bits)[:, 0]
    g[rows, i["maskedTarget"].long()[rows]] -= 1
    g = (g * i["grad"][:, None]).to(DTYPES[dtype])
    grad.expect_right(inputGradOut=g @ i["weight"], weightGradOut=g.T @ i["input"])


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_attention(tmp_path, dtype):
    """Full attention over all blocks: PyTorch's scaled_dot_product_attention and its gradient."""
    words = ["T1=64", "T2=64", "N1=4", "N2=4", "D=128", "Dv=128", "selectedBlockSize=16", "selectedBlockCount=4",
             "sparseMode=0", "topkIndices=all.npy", "query=auto", "key=auto", "value=auto", "scaleValue=auto",
             "attenMaskOptional=none", f"dtype={dtype}"]
    np.save(tmp_path / "all.npy", np.broadcast_to(np.arange(4, dtype=np.int32), (64, 4, 4)).copy())

    def attend(i):
        heads = [i[name].transpose(0, 1) for name in ("query", "key", "value")]
        return torch.nn.functional.scaled_dot_product_attention(*heads).transpose(0, 1)

    forward = Problem(tmp_path, "NsaSelectedAttention", *words)
    forward.expect_right(attentionOut=attend(forward.inputs))
    extra = ["attentionOutGrad=auto", "attentionOut=auto", "softmaxMax=auto", "softmaxSum=auto"]
    grad = Problem(tmp_path, "NsaSelectedAttentionGrad", *words, *extra)
    for name in ("query", "key", "value"):
        grad.inputs[name].requires_grad_()
    attend(grad.inputs).backward(grad.inputs["attentionOutGrad"])
    i = grad.inputs
    grad.expect_right(dqOut=i["query"].grad, dkOut=i["key"].grad, dvOut=i["value"].grad)
