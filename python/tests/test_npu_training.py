"""Modules, optimizers, autocast, loaders and whole loops on the device npu: bit for bit what they are on the CPU."""

import copy
import warnings
from unittest import mock

import npu_device  # noqa: F401  first
import pytest
import torch
import torch.nn.functional as F
from npu_device import assert_same_bits, moved
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


def on_both(run):
    """run(device) after the same seed, on both."""
    results = []
    for device in ("npu", "cpu"):
        torch.manual_seed(4)
        results.append(run(device))
    return results


MODULES = {
    "linear": (lambda: nn.Linear(7, 5), (4, 7)),
    "mlp": (lambda: nn.Sequential(nn.Linear(7, 16), nn.GELU(), nn.Dropout(0.3), nn.Linear(16, 3), nn.SiLU()), (4, 7)),
    "conv1d": (lambda: nn.Conv1d(3, 4, 3, padding=1), (2, 3, 11)),
    "conv2d": (lambda: nn.Conv2d(3, 8, 3, stride=2, groups=1), (2, 3, 9, 9)),
    "depthwise": (lambda: nn.Conv2d(4, 4, 3, groups=4, dilation=2), (2, 4, 9, 9)),
    "transposed": (lambda: nn.ConvTranspose2d(3, 4, 3), (2, 3, 5, 5)),
    "batch norm": (lambda: nn.BatchNorm2d(3), (4, 3, 5, 5)),
    "layer norm": (lambda: nn.LayerNorm(6), (4, 6)),
    "rms norm": (lambda: nn.RMSNorm(6), (4, 6)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (3, 4, 5)),
    "pooling": (lambda: nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1)), (2, 3, 12, 12)),
    "attention": (lambda: Attention(), (2, 9, 16)),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 4, 32, 0.1, batch_first=True), (2, 5, 16)),
    "gru": (lambda: nn.GRU(6, 8, 2, batch_first=True), (3, 5, 6)),
    "lstm": (lambda: nn.LSTM(6, 8, 2, batch_first=True), (3, 5, 6)),
    "rnn": (lambda: nn.RNN(6, 8), (5, 3, 6)),
    "upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 4, 4)),
    "softmax": (lambda: nn.Sequential(nn.Softmax(-1), nn.LogSoftmax(-1), nn.PReLU()), (3, 8)),
}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, 4).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    make, shape = MODULES[name]

    def run(device):
        module, x = make().to(device), torch.randn(shape).to(device).requires_grad_()
        y = module(x)
        y = y[0] if isinstance(y, tuple) else y
        y.square().sum().backward()
        buffers = [b for b in module.buffers()]
        module.eval()
        return y, x.grad, [p.grad for p in module.parameters()], buffers, module(x.detach())

    assert_same_bits(*on_both(run))


def test_packed_sequences_and_states():
    def run(device):
        module = nn.LSTM(6, 8, 2, bidirectional=True, dropout=0.2).to(device)
        sequences = [torch.randn(n, 6).to(device).requires_grad_() for n in (5, 3, 2)]
        state = tuple(torch.randn(4, 3, 8).to(device).requires_grad_() for _ in range(2))
        y, (h, c) = module(nn.utils.rnn.pack_sequence(sequences), state)
        y, lengths = nn.utils.rnn.pad_packed_sequence(y)
        (y.sum() + h.square().sum() + c.sum()).backward()
        assert lengths.tolist() == [5, 3, 2]
        with torch.no_grad():
            again, _ = module.eval()(torch.stack([s[:2] for s in sequences], 1))
        return y, h, c, [t.grad for t in (*sequences, *state, *module.parameters())], again

    assert_same_bits(*on_both(run))


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_recurrent_cells(cell):
    def run(device):
        module, x = cell(6, 8).to(device), torch.randn(3, 6).to(device).requires_grad_()
        state, last = None, x
        for _ in range(3):
            state = module(x, state)
            last = state[0] if isinstance(state, tuple) else state
        last.square().sum().backward()
        return last, x.grad, [p.grad for p in module.parameters()]

    assert_same_bits(*on_both(run))


def test_recurrent_layers_have_no_second_derivative():
    module, x = nn.GRU(4, 4).npu(), torch.randn(2, 1, 4).npu().requires_grad_()
    with pytest.raises(RuntimeError, match="a recurrent layer on the npu device has no second derivative"):
        torch.autograd.grad(module(x)[0].sum(), x, create_graph=True)


@pytest.mark.parametrize("loss", ["cross_entropy", "nll_loss", "mse_loss", "bce", "kl_div", "smooth_l1_loss",
                                  "ctc_loss"])
def test_losses(loss):
    def run(device):
        x = torch.randn(6, 10).to(device).requires_grad_()
        labels = torch.randint(10, (6,)).to(device)
        y = torch.rand(6, 10).to(device)
        value = {
            "cross_entropy": lambda: F.cross_entropy(x, labels, label_smoothing=0.1, ignore_index=3),
            "nll_loss": lambda: F.nll_loss(x.log_softmax(-1), labels, reduction="none").sum(),
            "mse_loss": lambda: F.mse_loss(x, y),
            "bce": lambda: F.binary_cross_entropy_with_logits(x, y),
            "kl_div": lambda: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
            "smooth_l1_loss": lambda: F.smooth_l1_loss(x, y),
            "ctc_loss": lambda: F.ctc_loss(x.log_softmax(-1)[:, None], labels[None, :2] % 9 + 1, torch.tensor([6]),
                                           torch.tensor([2])),
        }[loss]()
        value.backward()
        return value, x.grad

    assert_same_bits(*on_both(run))


def test_embedding():
    def run(device):
        table = nn.Embedding(20, 6, padding_idx=0).to(device)
        bag = nn.EmbeddingBag(20, 6, mode="mean").to(device)
        tokens = torch.randint(20, (4, 5)).to(device)
        y = table(tokens).sum(1) + bag(tokens)
        y.square().mean().backward()
        return y, table.weight.grad, bag.weight.grad

    assert_same_bits(*on_both(run))


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "sgd, one by one": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=False),
    "adam": lambda p: torch.optim.Adam(p, 1e-2, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-2),
    "adamw, one by one": lambda p: torch.optim.AdamW(p, 1e-2, foreach=False),
    "adamw, fused": lambda p: torch.optim.AdamW(p, 1e-2, fused=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-2, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, 1e-2),
    "adamax": lambda p: torch.optim.Adamax(p, 1e-2),
    # the form for devices on both: its last bits are its own
    "nadam": lambda p: torch.optim.NAdam(p, 1e-2, foreach=True),
    "radam": lambda p: torch.optim.RAdam(p, 1e-2, foreach=True),
    "asgd": lambda p: torch.optim.ASGD(p, 1e-2, foreach=True),
    "lbfgs": lambda p: torch.optim.LBFGS(p, 0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    def run(device):
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
        optimizer = OPTIMIZERS[name](model.parameters())
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
        x, losses = torch.randn(12, 6).to(device), []

        def closure():
            optimizer.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            return loss

        for _ in range(6):
            losses.append(optimizer.step(closure).detach())
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            schedule.step()
        assert losses[-1] < losses[0]
        return losses, list(model.parameters())

    assert_same_bits(*on_both(run))


def loop(device, workers=0, checkpointed=False):
    """A small network with everything that a loop usually has; its losses and what it has learnt."""
    model = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 4)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    data = TensorDataset(torch.randn(64, 8), torch.randint(4, (64,)))
    loader = DataLoader(data, 16, shuffle=True, pin_memory=device == "npu", num_workers=workers)
    losses = []
    for _ in range(3):
        for x, y in loader:
            assert x.is_pinned() == (device == "npu")
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            logits = checkpoint(model, x, use_reentrant=False) if checkpointed else model(x)
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.detach())
    return losses, list(model.parameters()), [s[k] for s in optimizer.state.values() for k in ("exp_avg", "exp_avg_sq")]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop(threads, workers):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert_same_bits(*on_both(lambda device: loop(device, workers)))
    finally:
        torch.set_num_threads(before)


def test_a_loop_that_recomputes():
    assert_same_bits(*on_both(lambda device: loop(device, checkpointed=True)))


def test_moving_a_module_keeps_its_parameters():
    model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9, bias=False))
    model[1].weight = model[0].weight  # tied
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    first = model[0].weight
    model.npu()
    assert model[1].weight is model[0].weight is first and first.is_npu and isinstance(first, nn.Parameter)
    model(torch.tensor([1, 2]).npu()).sum().backward()
    before = first.detach().clone()
    optimizer.step()  # made before the move
    assert not torch.equal(before, first) and first.grad.is_npu
    assert model.cpu()[0].weight is first and not first.is_npu
    assert copy.deepcopy(model.npu())[1].weight.is_npu
    assert nn.Linear(2, 2, device="npu").weight.is_npu and nn.Linear(2, 2).to("npu:1").weight.device.index == 1


# Autocast


def test_autocast_casts_what_devices_cast():
    x, w = torch.randn(4, 8).npu(), torch.randn(8, 8).npu().requires_grad_()
    with torch.autocast("npu", dtype=torch.bfloat16):
        assert torch.is_autocast_enabled("npu") and torch.get_autocast_dtype("npu") is torch.bfloat16
        y = x @ w
        assert y.dtype is torch.bfloat16 and F.linear(x, w).dtype is torch.bfloat16
        assert y.softmax(-1).dtype is torch.float32 and F.layer_norm(y, (8,)).dtype is torch.float32
        assert F.cross_entropy(y, torch.zeros(4, dtype=torch.int64).npu()).dtype is torch.float32
        assert (y + x).dtype is torch.float32 and y.exp().dtype is torch.float32 and y.relu().dtype is torch.bfloat16
        with torch.autocast("npu", enabled=False):
            assert (x @ w).dtype is torch.float32
        with pytest.raises(RuntimeError, match="binary_cross_entropy is unsafe under autocast"):
            F.binary_cross_entropy(y.float().sigmoid(), torch.rand(4, 8).npu())
        y.sum().backward()
    assert (x @ w).dtype is torch.float32 and w.grad.dtype is torch.float32
    cpu_x, cpu_w = x.cpu(), w.detach().cpu().requires_grad_()
    want = cpu_x.bfloat16() @ cpu_w.bfloat16()
    want.sum().backward()
    assert_same_bits((y, w.grad), (want, cpu_w.grad))
    with torch.npu.amp.autocast():
        assert (x @ w).dtype is torch.float16
    with torch.autocast("cpu", dtype=torch.bfloat16):  # is the CPU's
        assert (x @ w).dtype is torch.float32 and (cpu_x @ cpu_w).dtype is torch.bfloat16


@pytest.mark.parametrize("make", [lambda: torch.npu.amp.GradScaler(init_scale=2.0**20, growth_interval=2),
                                  lambda: torch.amp.GradScaler("npu", init_scale=2.0**20, growth_interval=2)])
def test_grad_scaler(make):
    model, scaler = nn.Linear(8, 1).npu(), make()
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    x, scales = torch.randn(16, 8).npu() * 8, []
    before = model.weight.detach().clone()
    for _ in range(12):
        with torch.autocast("npu", dtype=torch.float16):
            loss = model(x).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales[0] < 2.0**20  # the first gradients overflow f16: the step is left out and the scale halved
    assert max(scales[1:]) <= 2.0**20 and not torch.equal(before, model.weight) and model.weight.isfinite().all()


# torch.compile


@pytest.mark.parametrize("fullgraph", [False, True])
def test_compile_runs_eagerly_with_a_word(fullgraph):
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).npu()
    compiled = torch.compile(model, fullgraph=fullgraph)
    x = torch.randn(3, 6).npu()
    with pytest.warns(UserWarning, match="torch.compile makes no code for the device npu; it runs eagerly"):
        y = compiled(x)
    assert torch.equal(y, model(x))
    y.sum().backward()
    assert model[0].weight.grad.is_npu


def test_compile_of_other_devices_is_left_alone():
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        seen = []
        inductor = lambda graph, *_, **__: seen.append(1) or graph.forward  # noqa: E731
        with mock.patch("torch._inductor.compile_fx.compile_fx", inductor):
            torch.compile(lambda x: x + 1)(torch.ones(3))
    assert seen == [1]


def test_gradients_of_functions():
    x = moved(torch.randn(3, 4).requires_grad_())
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.allclose(second, 6 * x.detach())
    x64 = torch.randn(3, 4, dtype=torch.float64).npu().requires_grad_()
    assert torch.autograd.gradcheck(lambda t: (t.sigmoid() @ t.T).sum(0), x64)
    hooked = []
    x.register_hook(lambda g: hooked.append(g.device.type))
    x.sum().backward()
    assert hooked == ["npu"]
    assert torch.equal(torch.func.vmap(lambda t: t * 2)(x.detach()), x.detach() * 2)
