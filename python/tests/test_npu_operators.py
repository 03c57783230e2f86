"""PyTorch's own list of operators and samples: results and gradients on the device npu are the CPU's, bit for bit."""

import warnings

import npu_device  # noqa: F401  first
import pytest
import torch
from npu_device import assert_same_bits, moved, tensors

methods = pytest.importorskip("torch.testing._internal.common_methods_invocations")
SAMPLES = 4  # of each operator and dtype

# Memory that nobody wrote; a solver of LAPACK whose last bit hangs on where its memory lies; sparse tensors; one that
# wants its tensor of indices on the CPU; and a type that cannot be compared.
EXCEPT = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "linalg.lstsq",
          "to_sparse", "tensor_split", "chalf"}


def call(op, sample, device, grad):
    def where(value):
        return device if isinstance(value, (str, torch.device)) and str(value) == "cpu" else value

    input, args, kwargs = moved((sample.input, list(sample.args), dict(sample.kwargs)), device)
    args = [where(value) for value in args]
    kwargs = {key: where(value) for key, value in kwargs.items()}
    torch.manual_seed(0)
    result = op.op(input, *args, **kwargs)
    leaves = [x for x in tensors((input, args, kwargs)) if x.requires_grad]
    outputs = [x for x in tensors(result) if x.requires_grad and x.layout is torch.strided]
    sums = [(x.abs() if x.is_complex() else x).sum() for x in outputs]
    grads = torch.autograd.grad(sums, leaves, allow_unused=True) if grad and sums and leaves else ()
    return result, grads


@pytest.mark.parametrize("op", [op for op in methods.op_db if op.name not in EXCEPT],
                         ids=lambda op: op.name + (f"[{op.variant_test_name}]" if op.variant_test_name else ""))
def test_operator(op):
    torch.set_num_threads(1)
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in {torch.float32, torch.int64} & set(op.dtypes):
            grad = dtype.is_floating_point and op.supports_autograd
            for sample in list(op.sample_inputs("cpu", dtype, requires_grad=grad))[:SAMPLES]:
                if any(x.layout is not torch.strided for x in tensors((sample.input, sample.args, sample.kwargs))):
                    continue
                try:
                    want = call(op, sample, "cpu", grad)
                except Exception:  # a sample that is there to be refused
                    continue
                if any(x.layout is not torch.strided for x in tensors(want)):
                    continue
                assert_same_bits(call(op, sample, "npu", grad), want)
                compared += 1
    if not compared:
        pytest.skip("no dense samples of these dtypes")
