"""gradus.torch.patch on small models of transformers with random weights."""

import copy
import io

import head_reference  # noqa: F401  sets what torch wants set before it is used
import pytest

transformers = pytest.importorskip("transformers")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from gradus.torch import patch  # noqa: E402

SIZES = {
    "vocab_size": 200,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "attn_implementation": "eager",
}
MODELS = {
    "llama": ("Llama", {}),
    "llama_bias": ("Llama", {"mlp_bias": True, "attention_bias": True}),
    "llama_tied": ("Llama", {"tie_word_embeddings": True}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {}),
    "mistral": ("Mistral", {}),
    "gemma": ("Gemma", {}),
    "gemma_silu": ("Gemma", {"hidden_act": "silu"}),
}


def model_of(name: str, dtype: torch.dtype = torch.bfloat16) -> nn.Module:
    torch.manual_seed(0)
    family, extra = MODELS[name]
    config = getattr(transformers, f"{family}Config")(**{**SIZES, "initializer_range": 0.2, **extra})
    model = getattr(transformers, f"{family}ForCausalLM")(config)
    for parameter, value in model.named_parameters():
        if parameter.endswith("bias"):  # zeros otherwise
            nn.init.normal_(value, std=0.2)
    return model.to(dtype).train()


def batch() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    ids = torch.randint(3, 200, (3, 11))
    labels = ids.clone()
    labels[0, :4] = -100
    return {"input_ids": ids, "labels": labels}


def gradients(model: nn.Module, **kwargs) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    loss = model(**{**batch(), **kwargs}).loss
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}


def joined(model: nn.Module) -> bool:
    mlps = [layer.mlp for layer in model.model.layers]
    return all(patch._joined(mlp.gate_proj.weight, mlp.up_proj.weight) is not None for mlp in mlps)


def distances(got: dict[str, torch.Tensor], exact: dict[str, torch.Tensor]) -> torch.Tensor:
    """Relative, of every parameter's gradient."""
    assert got.keys() == exact.keys()
    return torch.stack([(got[name].double() - exact[name]).norm() / exact[name].norm() for name in exact])


def not_farther(got: torch.Tensor, own: torch.Tensor) -> bool:
    """Than the model's own arithmetic is from f64: at this parameter, or as a rule, because one draw may be lucky."""
    assert own.max() < 0.1, "nothing to compare with"
    return bool((got <= 2 * torch.maximum(own, own.square().mean().sqrt())).all())


def compare(plain: nn.Module, patched: nn.Module, **kwargs) -> None:
    exact_loss, exact = gradients(copy.deepcopy(plain).double(), **kwargs)
    plain_loss, own = gradients(plain, **kwargs)
    loss, got = gradients(patched, **kwargs)
    assert abs(loss - exact_loss) <= 2 * max(float(abs(plain_loss - exact_loss)), 2.0**-9 * float(exact_loss))
    assert not_farther(distances(got, exact), distances(own, exact))


@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients(name):
    plain, patched = model_of(name), model_of(name)
    changes = patch.apply(patched)
    assert [c.kind for c in changes] == ["linear_cross_entropy", "swiglu", "swiglu"]
    assert [c.applied for c in changes] == [True] + 2 * [name != "gemma"]
    if name == "gemma":
        assert "not silu" in changes[1].note
    assert joined(patched) == (name != "gemma")
    compare(plain, patched)


@pytest.mark.parametrize("only", ["swiglu", "linear_cross_entropy"])
def test_one_of_both(only):
    plain, patched = model_of("llama"), model_of("llama")
    changes = patch.apply(patched, **{kind: kind == only for kind in ("swiglu", "linear_cross_entropy")})
    assert {c.kind for c in changes} == {only}
    compare(plain, patched)


def test_swiglu_in_f32():
    """Without 16-bit roundings in the way: three products a layer, within f32's own distance from f64."""
    plain, patched = model_of("llama_bias", torch.float32), model_of("llama_bias", torch.float32)
    patch.apply(patched, linear_cross_entropy=False)
    _, exact = gradients(copy.deepcopy(plain).double())
    own, got = (distances(gradients(model)[1], exact) for model in (plain, patched))
    assert own.max() < 2.0**-18 and not_farther(got, own)


@pytest.mark.parametrize("name", ["llama", "llama_bias", "llama_tied"])
def test_autocast(name):
    plain, patched = model_of(name, torch.float32), model_of(name, torch.float32)
    patch.apply(patched)
    exact_loss, exact = gradients(copy.deepcopy(plain).double())
    with torch.autocast("cpu", torch.bfloat16):
        _, own = gradients(plain)
        loss, got = gradients(patched)
    assert abs(loss - exact_loss) <= 2.0**-7 * exact_loss
    assert all(gradient.dtype == torch.float32 for gradient in got.values())
    assert not_farther(distances(got, exact), distances(own, exact))


def test_f32_without_autocast_says_what_to_do():
    model = model_of("llama", torch.float32)
    patch.apply(model)
    with pytest.raises(TypeError, match="input is float32.*autocast"):
        model(**batch())


def test_labels_as_transformers_takes_them():
    plain, patched = model_of("llama"), model_of("llama")
    patch.apply(patched)
    compare(plain, patched, num_items_in_batch=torch.tensor(17))
    compare(plain, patched, num_items_in_batch=17)
    compare(plain, patched, ignore_index=int(batch()["labels"][1, 5]), labels=batch()["input_ids"])
    shifted = batch()["labels"].roll(-2, 1)
    compare(plain, patched, shift_labels=shifted)
    compare(plain, patched, attention_mask=(torch.arange(11) < 9).expand(3, 11))


def test_no_logits_in_training_alone():
    model, data = model_of("llama"), batch()
    plain = model_of("llama")
    patch.apply(model, swiglu=False)
    assert model(**data).logits is None
    as_tuple = model(**data, return_dict=False, use_cache=False)
    assert isinstance(as_tuple, tuple) and len(as_tuple) == 1
    assert len(model(**data, output_hidden_states=True).hidden_states) == 3
    last = {"input_ids": data["input_ids"], "labels": data["labels"][:, -3:]}
    for kwargs in ({"input_ids": data["input_ids"]}, {**last, "logits_to_keep": 3}):
        assert torch.equal(model(**kwargs).logits, plain(**kwargs).logits)
    model.eval(), plain.eval()
    got, wanted = model(**data), plain(**data)
    assert torch.equal(got.logits, wanted.logits) and torch.equal(got.loss, wanted.loss)
    ids = data["input_ids"][:1]
    assert torch.equal(*(m.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=0) for m in (model, plain)))


def test_what_comes_later_is_respected():
    model = model_of("llama")
    patch.apply(model)
    own = model.loss_function
    model.loss_function = lambda logits, labels, **_: logits.float().mean()
    out = model(**batch())
    assert torch.equal(out.loss, out.logits.float().mean())
    model.loss_function = own
    assert model(**batch()).logits is None
    handle = model.lm_head.register_forward_hook(lambda *_: None)
    assert model(**batch()).logits is not None
    handle.remove()
    mlp, x = model.model.layers[0].mlp, torch.randn(3, 32).bfloat16()
    called = []
    mlp.up_proj.register_forward_hook(lambda *_: called.append(True))
    mlp(x)
    assert called


def test_parameters_state_and_optimizer():
    plain, model = model_of("llama"), model_of("llama")
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.1) for m in (plain, model)]
    before = dict(model.named_parameters())
    state = {name: value.clone() for name, value in model.state_dict().items()}
    patch.apply(model)
    assert all(p is before[name] for name, p in model.named_parameters())
    after = model.state_dict()
    assert list(after) == list(state) and all(torch.equal(after[name], state[name]) for name in state)
    _, grads = gradients(model)
    for m, optimizer in zip((plain, model), optimizers):
        for name, p in m.named_parameters():
            p.grad = grads[name].clone()
        optimizer.step()
    assert joined(model)
    for (name, p), q in zip(plain.named_parameters(), model.parameters()):
        assert torch.equal(p, q) and not torch.equal(p, state[name]), name
    compare(plain, model)  # the product sees what the optimizer wrote


def test_save_and_load(tmp_path):
    model, other = model_of("llama"), model_of("llama")
    patch.apply(model)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.5)
    wanted = gradients(model)[0]
    torch.save(model.state_dict(), tmp_path / "state.pt")
    model.save_pretrained(tmp_path / "model")
    patch.apply(other)
    for assign in (False, True):
        other.load_state_dict(torch.load(tmp_path / "state.pt"), assign=assign)
        assert torch.equal(gradients(other)[0], wanted) and joined(other)
    loaded = type(model).from_pretrained(tmp_path / "model", dtype=torch.bfloat16, attn_implementation="eager").train()
    patch.apply(loaded.to(torch.bfloat16))  # also the frequencies, which from_pretrained keeps in f32
    assert torch.equal(gradients(loaded)[0], wanted)


def test_copies_and_moves():
    model = model_of("llama", torch.float32)
    patch.apply(model)
    wanted = copy.deepcopy(model).bfloat16()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    twin.bfloat16()
    assert not joined(twin)
    loss, _ = gradients(twin)
    assert joined(twin) and not joined(wanted)
    assert torch.equal(loss, gradients(wanted)[0])
    assert loss > 1 and twin.model.layers[0].mlp.gate_proj.weight.any()


def test_pickled_whole_it_is_transformers_own():
    model = model_of("llama")
    plain_loss = gradients(model)[0]
    patch.apply(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert torch.equal(gradients(loaded)[0], plain_loss)


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing(reentrant):
    model, twin = model_of("llama"), model_of("llama")
    for m in (model, twin):
        patch.apply(m)
    twin.gradient_checkpointing_enable({"use_reentrant": reentrant})
    twin.enable_input_require_grads()
    loss, wanted = gradients(model)
    again, got = gradients(twin, use_cache=False)
    assert torch.equal(loss, again)
    assert all(torch.equal(got[name], wanted[name]) for name in wanted)


def test_undo():
    model = model_of("llama_tied")
    loss, grads = gradients(model)
    changes = patch.apply(model)
    assert patch.undo(model) == [c.module for c in changes]
    assert patch.undo(model) == []
    again, got = gradients(model)
    assert torch.equal(loss, again) and all(torch.equal(got[name], grads[name]) for name in grads)
    assert not joined(model) and all("forward" not in m.__dict__ for m in model.modules())
    for mlp in (layer.mlp for layer in model.model.layers):
        assert mlp.gate_proj.weight.untyped_storage().nbytes() == mlp.gate_proj.weight.nbytes


def test_what_is_left_alone():
    model = model_of("llama")
    layers = model.model.layers
    layers[0].mlp.gate_proj.register_forward_hook(lambda *_: None)
    layers[1].mlp.up_proj = nn.utils.parametrizations.weight_norm(nn.Linear(32, 56, bias=False))
    changes = patch.apply(model)
    assert [c.applied for c in changes] == [True, False, False]
    assert all("no plain Linear" in c.note for c in changes[1:])
    assert [c.note for c in patch.apply(model)][0] == "its forward is replaced already"
    # Same parts, other code: these heads and MLPs scale or cap something on the way.
    for family in ("Granite", "Gemma2", "FalconH1"):
        config = getattr(transformers, f"{family}Config")(**SIZES)
        other = getattr(transformers, f"{family}ForCausalLM")(config)
        head, *mlps = patch.apply(other)
        assert not head.applied and "does not compute what LlamaForCausalLM does" in head.note
        assert mlps and all(c.applied == (family == "Granite") for c in mlps)


@pytest.mark.parametrize("up_first", [False, True])
def test_weights_in_a_buffer_of_somebody_else(up_first):
    """They stay where they are, side by side or not, and the result is right."""
    model = model_of("llama", torch.float32)
    patch.apply(model)
    mlp, x = model.model.layers[0].mlp, torch.randn(5, 32)
    wanted = mlp(x)
    gate, up = mlp.gate_proj.weight, mlp.up_proj.weight
    flat = torch.cat([t.detach().flatten() for t in ((up, gate) if up_first else (gate, torch.zeros(7), up))])
    first, last = flat[: gate.numel()].view_as(gate), flat[-gate.numel() :].view_as(gate)
    gate.data, up.data = (last, first) if up_first else (first, last)
    assert torch.equal(mlp(x), wanted)
    assert gate.untyped_storage().data_ptr() == up.untyped_storage().data_ptr() == flat.data_ptr()


class Calls(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def test_nothing_is_copied_together():
    model = model_of("llama")
    patch.apply(model)
    mlp = model.model.layers[0].mlp
    x = torch.randn(3, 32).bfloat16().requires_grad_()
    with Calls() as calls:
        mlp(x).sum().backward()
    assert calls.names.count("gradus::joined_linear") == 2  # forward, and for x
    assert not {"aten::cat", "aten::copy_", "aten::clone", "aten::_to_copy"} & set(calls.names), calls.names
    gate, up = mlp.gate_proj.weight.grad, mlp.up_proj.weight.grad
    assert gate.untyped_storage().data_ptr() == up.untyped_storage().data_ptr()


def test_frozen_weights_and_second_order():
    """Gradients of the product alone, in f64: with respect to what is asked for, and twice."""
    torch.manual_seed(0)
    x, gate, up = torch.randn(5, 7), torch.randn(4, 7), torch.randn(4, 7)
    leaves = [t.double().requires_grad_() for t in (x, gate, up, torch.randn(8))]
    torch.autograd.gradcheck(lambda *a: torch.ops.gradus.joined_linear(*a, False), leaves)
    torch.autograd.gradgradcheck(lambda *a: torch.ops.gradus.joined_linear(*a, False), leaves)
    torch.library.opcheck(torch.ops.gradus.joined_linear.default, (*leaves, False))
    model = model_of("llama")
    patch.apply(model)
    model.model.layers[0].mlp.gate_proj.weight.requires_grad_(False)
    model(**batch()).loss.backward()
    assert model.model.layers[0].mlp.gate_proj.weight.grad is None
    assert model.model.layers[0].mlp.up_proj.weight.grad is not None


@pytest.mark.parametrize("together", [True, False])
def test_compiled(together):
    """Compiled code looks at where the weights lie when it runs."""
    torch._dynamo.reset()
    model = model_of("llama_bias")
    patch.apply(model)
    mlp = model.model.layers[0].mlp
    if not together:
        mlp.up_proj.weight.data = mlp.up_proj.weight.data.clone()
    x = torch.randn(3, 32).bfloat16()
    compiled = torch.compile(mlp, fullgraph=True)
    y = compiled(x)
    got = torch.autograd.grad(y.float().square().sum(), list(mlp.parameters()))
    assert joined(model) == together
    eager = mlp(x)
    wanted = torch.autograd.grad(eager.float().square().sum(), list(mlp.parameters()))
    for a, b in zip((y, *got), (eager, *wanted)):
        torch.testing.assert_close(a.float(), b.float(), rtol=2**-6, atol=2**-6 * float(b.detach().abs().max()))
