"""The device npu: tensors, their memory, streams and events, errors."""

import copy
import ctypes
import gc
import io
import multiprocessing
import pickle
import threading

import npu_device  # noqa: F401  first
import pytest
import torch
from gradus import _library
from npu_device import assert_same_bits


def location(tensor):
    """Where the library says the memory lies: 0 the host's (pinned), 1 a device's, 2 nobody's; and the device."""
    attributes = (ctypes.c_uint32 * 7)()
    assert _library._c.aclrtPointerGetAttributes(ctypes.c_void_p(tensor.data_ptr()), attributes) == 0
    return attributes[1], attributes[0]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


# Factories and copies


@pytest.mark.parametrize("make", [
    lambda d: torch.zeros(2, 3, device=d), lambda d: torch.ones(4, dtype=torch.int32, device=d),
    lambda d: torch.full((2,), 7.5, device=d), lambda d: torch.arange(10, device=d), lambda d: torch.eye(3, device=d),
    lambda d: torch.linspace(0, 1, 7, device=d), lambda d: torch.tensor([[1.0, 2], [3, 4]], device=d),
    lambda d: torch.randn(5, 3, device=d), lambda d: torch.rand(5, dtype=torch.float64, device=d),
    lambda d: torch.randint(9, (8,), device=d), lambda d: torch.randperm(20, device=d),
    lambda d: torch.empty(3, 0, device=d), lambda d: torch.scalar_tensor(3, device=d),
    lambda d: torch.ones(2, 4, device=d).new_zeros(3), lambda d: torch.rand_like(torch.ones(3, device=d)),
    lambda d: torch.empty_strided((2, 3), (1, 2), device=d).fill_(2), lambda d: torch.tril_indices(4, 4, device=d),
    lambda d: torch.zeros(2, 3, 4, 5, device=d).to(memory_format=torch.channels_last),
    lambda d: torch.complex(torch.ones(3, device=d), torch.zeros(3, device=d)).conj(),
])
def test_factories(make):
    torch.manual_seed(3)
    cpu = make("cpu")
    torch.manual_seed(3)
    npu = make("npu")
    assert_same_bits(npu, cpu)
    assert npu.stride() == cpu.stride() and npu.device == torch.device("npu", 0)
    if npu.numel():
        assert location(npu) == (1, 0)


def test_copies_between_devices():
    cpu = torch.randn(4, 6)
    for source in (cpu, cpu.t(), cpu[:, ::2], cpu[1], cpu.to(torch.bfloat16)):
        assert_same_bits(source.npu(), source)
        assert torch.equal(source.npu().cpu(), source)
        assert_same_bits(source.to("npu", torch.float16), source.half())
    npu = torch.zeros(4, 6).npu()
    npu.copy_(cpu)
    npu[:, 1].copy_(cpu[:, 2], non_blocking=True)
    back = torch.empty(6, 4).t()
    back.copy_(npu)
    assert torch.equal(back[:, 1], cpu[:, 2]) and torch.equal(back[:, 2:], cpu[:, 2:])
    assert npu.to("npu:3").device == torch.device("npu:3") and location(npu.to("npu:3")) == (1, 3)
    assert npu.to("npu") is npu and npu.npu() is npu and npu.cpu().device.type == "cpu"
    assert npu.is_npu and not cpu.is_npu and npu.untyped_storage().is_npu
    assert torch.from_numpy(cpu.numpy()).npu().cpu().numpy().tolist() == cpu.tolist() == npu.copy_(cpu).tolist()
    with pytest.raises(TypeError, match="npu:0 device type tensor to numpy"):
        npu.numpy()


# Views, in place, out=


def test_views_share_their_memory():
    x = torch.arange(24.0).view(2, 3, 4).npu()

    def views_of(x):
        return [x.view(6, 4), x.transpose(0, 2), x[1], x[:, 1:, ::2], x.permute(2, 0, 1), x.unsqueeze(0), x.detach(),
                x.flatten(), x.expand(2, 2, 3, 4), x.unbind(0)[1], x.split(2, 1)[0], x.chunk(2)[1], x.diagonal(), x.mT,
                x.as_strided((3,), (2,), 1), x.narrow(2, 1, 2), x.data, x.unfold(2, 2, 1), x.view(torch.int32),
                x.squeeze(), x[..., 0]]

    views = views_of(x)
    begin, bytes_ = x.data_ptr(), x.numel() * 4
    for view in views:
        assert begin <= view.data_ptr() < begin + bytes_
        assert view.untyped_storage()._cdata == x.untyped_storage()._cdata
        assert view.device == x.device
    x.mul_(2)
    views[1][0, 0, 0] = 100
    assert views[0][0, 0] == 100 and x[0, 0, 0] == 100 and views[2][0, 0] == 24
    cpu = torch.arange(24.0).view(2, 3, 4)
    cpu.mul_(2)[0, 0, 0] = 100
    assert_same_bits(views, views_of(cpu))


def test_in_place_operators_change_the_tensor_they_are_called_on():
    x = torch.randn(3, 4)
    y = x.npu()
    address = y.data_ptr()
    for tensor in (x, y):
        returned = tensor.add_(1).mul_(tensor).clamp_(0, 3).sqrt_()
        assert returned is tensor
        tensor[0] = 5
        tensor += tensor[1].clone()
        tensor.t_()
        tensor.unsqueeze_(0)
    assert_same_bits(y, x)
    assert y.shape == (1, 4, 3) and y.stride() == x.stride() and y.data_ptr() == address
    square = torch.arange(4.0, device="npu").view(2, 2)
    square.t_()  # changes nothing but strides
    assert square.tolist() == [[0, 2], [1, 3]]
    version = y._version
    y.zero_()
    assert y._version == version + 1


def test_out():
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    out = torch.empty(3, 5, device="npu")
    address = out.data_ptr()
    assert torch.mm(a.npu(), b.npu(), out=out) is out and out.data_ptr() == address
    assert_same_bits(out, a @ b)
    grown = torch.empty(0, device="npu")
    assert torch.mm(a.npu(), b.npu(), out=grown) is grown
    assert_same_bits(grown, a @ b)
    assert location(grown) == (1, 0)
    part = torch.zeros(4, 6, device="npu")
    torch.add(a.npu(), 1, out=part[1:, 2:])
    assert torch.equal(part.cpu()[1:, 2:], a + 1) and part[0].eq(0).all() and part[:, :2].eq(0).all()
    values, indices = torch.empty(0, device="npu"), torch.empty(0, dtype=torch.int64, device="npu")
    torch.max(a.npu(), 1, out=(values, indices))
    assert_same_bits((values, indices), tuple(torch.max(a, 1)))


def test_resize_and_set():
    x = torch.arange(6.0).npu()
    view = x[2:]
    x.resize_(1000)
    assert x[:6].tolist() == [0, 1, 2, 3, 4, 5] and location(x) == (1, 0) and x.untyped_storage().nbytes() == 4000
    x[3] = 50
    assert view[1] == 50  # one storage still
    y = torch.empty(0, device="npu").set_(x)
    assert y.data_ptr() == x.data_ptr() and y.shape == (1000,)
    z = torch.empty(0, device="npu").set_(x.untyped_storage(), 2, (2, 2), (2, 1))
    assert z.tolist() == [[2, 50], [4, 5]]
    z.set_()
    assert z.shape == (0,) and z.device.type == "npu"
    storage = torch.ones(4, device="npu").untyped_storage()
    storage.resize_(64)
    assert storage.nbytes() == 64 and torch.empty(0, device="npu").set_(storage, 0, (4,)).tolist() == [1] * 4


def test_overlaps_are_refused_as_on_the_cpu():
    x = torch.zeros(4, device="npu")
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        x[:1].expand(4).add_(1)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        torch.add(x[:3], 1, out=x[1:])


def test_indexing():
    cpu = torch.arange(60.0).view(5, 3, 4)
    npu = cpu.npu()
    rows, mask = torch.tensor([4, 0, -1]), cpu > 20
    columns = torch.tensor([True, False, True])
    for where in (1, slice(1, 4, 2), (Ellipsis, 2), (rows, 1), (slice(None), columns), mask, (None, 0)):
        on_npu = npu_device.moved(where)
        assert_same_bits(npu[on_npu], cpu[where])
        assert_same_bits(npu[where], cpu[where])  # indices of the CPU serve too, as on every device
        one, other = cpu.clone(), npu.clone()
        one[where], other[on_npu] = -1, -1
        assert_same_bits(other, one)
    with pytest.raises(IndexError, match="out of bounds"):
        npu[torch.tensor([7]).npu()]
    with pytest.raises(RuntimeError, match="same device"):
        cpu[rows.npu()]


# Errors


def test_devices_do_not_mix():
    npu, cpu = torch.ones(2, 3, device="npu"), torch.ones(2, 3)
    for call in (lambda: npu + cpu, lambda: cpu + npu, lambda: npu @ cpu.T, lambda: torch.cat([npu, cpu]),
                 lambda: npu.add_(cpu), lambda: torch.where(npu > 0, npu, cpu),
                 lambda: torch.add(npu, npu, out=cpu),
                 lambda: torch.nn.functional.linear(cpu, npu), lambda: torch._foreach_add([npu], [cpu])):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, but found at least two "
                           r"devices, npu:0 and cpu! \(when checking argument \w+ in method aten::"):
            call()
    with pytest.raises(RuntimeError, match="npu:0 and npu:1"):
        npu + npu.to("npu:1")
    assert (npu + torch.tensor(2.0)).tolist() == [[3] * 3] * 2  # a number may come from anywhere
    assert (torch.tensor(2.0) * npu).device.type == "npu"


def test_what_is_not_there_says_so():
    with pytest.raises(RuntimeError, match="npu:99: no such device, there are"):
        torch.empty(1, device="npu:99")
    with pytest.raises(NotImplementedError, match="the npu device has dense tensors only"):
        torch.eye(3, device="npu").to_sparse()
    with pytest.raises(RuntimeError, match="expected m1 and m2|mat1 and mat2 shapes cannot be multiplied"):
        torch.ones(2, 3, device="npu") @ torch.ones(2, 3, device="npu")
    with pytest.raises(torch.OutOfMemoryError, match="NPU out of memory. Tried to allocate"):
        torch.empty(1 << 50, dtype=torch.uint8, device="npu")
    assert torch.ones(3, device="npu").sum() == 3  # and all is well afterwards


# Memory


def test_memory_is_counted():
    gc.collect()
    torch.npu.empty_cache()
    before, reserved = torch.npu.memory_allocated(), torch.npu.memory_reserved()
    x = torch.empty(3 << 20, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_allocated() == before + (3 << 20) and torch.npu.memory_reserved() >= reserved + (3 << 20)
    torch.npu.reset_peak_memory_stats()
    y = x + x  # its memory is the device's as well
    assert torch.npu.memory_allocated() == before + (6 << 20) == torch.npu.max_memory_allocated()
    assert torch.npu.memory_allocated("npu:1") == torch.npu.memory_allocated(1) == 0
    address = y.data_ptr()
    del y
    assert torch.npu.memory_allocated() == before + (3 << 20) and torch.npu.max_memory_allocated() == before + (6 << 20)
    y = torch.empty(3 << 20, dtype=torch.uint8, device="npu")
    assert y.data_ptr() == address  # kept for the next of its size
    del x, y
    assert torch.npu.memory_reserved() > reserved
    torch.npu.empty_cache()
    assert torch.npu.memory_allocated() == before and torch.npu.memory_reserved() <= reserved
    free, total = torch.npu.mem_get_info()
    assert 0 < free <= total
    stats = torch.npu.memory_stats()
    assert stats["allocated_bytes.all.current"] == before and stats["num_ooms"] >= 0


def test_memory_of_the_cpu_stays_the_cpus():
    torch.ones(4, device="npu").sort()
    npu = torch.ones(100, device="npu")
    for tensor in (torch.ones(100), npu.cpu(), npu.to("cpu", torch.float64)):
        assert location(tensor)[0] == 2 and tensor.device.type == "cpu"


def test_results_of_all_kinds_are_in_device_memory():
    x = torch.randn(6, 6, device="npu")
    for result in (x + 1, x @ x, x.sort(), x.topk(2), x.svd(), torch.linalg.qr(x), x.nonzero(), x.unique(), x.float(),
                   x.half(), x.cumsum(0), torch.fft.rfft(x), x.std(0), torch.stack([x, x]), x.repeat(2, 1),
                   x.contiguous(), x.clone(), x.max(0), torch.histc(x),
                   torch.nn.functional.conv2d(x[None, None], x[None, None, :3, :3])):
        for tensor in npu_device.tensors(result):
            assert location(tensor) == (1, 0)


def test_nothing_passes_through_memory_of_the_cpu():
    x = torch.randn(64, 64, device="npu")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        (x @ x).relu_().sum(0).sort()
        torch.add(x, x, out=torch.empty(0, device="npu"))
        x.t().contiguous().view(-1).half()
    assert sum(abs(event.cpu_memory_usage) for event in profile.events()) == 0
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        x.cpu()  # which does, and is seen
    assert sum(abs(event.cpu_memory_usage) for event in profile.events()) >= 64 * 64 * 4


def test_pinned_memory():
    x = torch.arange(10.0).pin_memory()
    assert x.is_pinned() and not torch.arange(10.0).is_pinned() and location(x)[0] == 0
    assert torch.empty(5, pin_memory=True).is_pinned()
    assert_same_bits(x.npu(non_blocking=True), torch.arange(10.0))


# Random numbers


def test_random_numbers_are_the_cpus():
    def draw(d):
        return [torch.randn(7, device=d), torch.empty(9, device=d).uniform_(), torch.randperm(11, device=d),
                torch.bernoulli(torch.full((20,), 0.3, device=d)), torch.multinomial(torch.ones(5, device=d), 3),
                torch.nn.functional.dropout(torch.ones(50, device=d), 0.4), torch.empty(4, device=d).exponential_(),
                torch.normal(torch.zeros(3, device=d), 2.0), torch.randint_like(torch.ones(4, device=d), 100)]

    for seed in (torch.manual_seed, torch.npu.manual_seed, torch.npu.manual_seed_all):
        torch.manual_seed(5)
        want = draw("cpu")
        seed(5)
        assert_same_bits(draw("npu"), want)
    state = torch.npu.get_rng_state()
    first = torch.rand(3, device="npu")
    torch.npu.set_rng_state(state)
    assert torch.equal(first, torch.rand(3, device="npu"))
    generator, other = torch.Generator("npu").manual_seed(9), torch.Generator().manual_seed(9)
    assert generator.device.type == "npu" and generator.initial_seed() == 9
    assert_same_bits(torch.randn(6, device="npu", generator=generator), torch.randn(6, generator=other))
    twin = generator.clone_state()
    assert torch.equal(torch.rand(4, device="npu", generator=twin), torch.rand(4, device="npu", generator=generator))


# Devices, streams, events


def test_devices():
    assert torch.npu.is_available() and torch.npu.device_count() == 8 and torch.npu.current_device() == 0
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    with torch.npu.device(2):
        assert torch.npu.current_device() == 2 and torch.ones(2, device="npu").device.index == 2
        with torch.npu.device("npu:5"):
            assert torch.ones(2).npu().device.index == 5
    torch.npu.set_device("npu:1")
    assert torch.empty(1, device="npu").device.index == 1
    torch.npu.set_device(0)
    assert torch.npu.current_device() == 0
    with pytest.raises(RuntimeError, match="no such device"):
        torch.npu.set_device(64)
    with pytest.raises(ValueError, match="expected an npu device, got cpu"):
        torch.npu.set_device("cpu")
    torch.npu.synchronize()
    torch.npu.synchronize("npu:1")
    assert torch.npu.get_device_name() == "Ascend910B1"
    x = torch.ones(3, device="npu:3")
    assert (x + 1).device.index == 3 and location(x + 1) == (1, 3)


def test_what_scripts_import_and_set():
    import torch_npu.npu.amp as amp
    from torch.npu.amp import GradScaler, autocast
    from torch_npu.npu import set_device

    assert amp is torch.npu.amp and set_device is torch.npu.set_device
    assert (GradScaler, autocast) == (amp.GradScaler, amp.autocast)
    torch.npu.set_compile_mode(jit_compile=False)
    torch.npu.config.allow_internal_format = False
    properties = torch.npu.get_device_properties(0)
    assert properties.name == torch.npu.get_device_name() and properties.total_memory == torch.npu.mem_get_info()[1] > 0


def test_streams_and_events():
    stream, other = torch.npu.Stream(), torch.npu.Stream(device="npu:0")
    assert stream != other and isinstance(stream, torch.Stream) and stream.device == torch.device("npu:0")
    default = torch.npu.current_stream()
    assert default == torch.npu.default_stream() and default.stream_id == 0
    began, ended = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    assert isinstance(began, torch.npu.Event)
    with torch.npu.stream(stream):
        assert torch.npu.current_stream() == stream
        began.record()
        torch.randn(200, 200, device="npu").matmul(torch.randn(200, 200, device="npu"))
        ended.record()
    assert torch.npu.current_stream() == default
    other.wait_event(ended)
    other.wait_stream(stream)
    stream.synchronize()
    ended.synchronize()
    assert ended.query() and stream.query() and other.record_event().query()
    assert 0 < began.elapsed_time(ended) < 60e3
    torch.ones(2, device="npu").record_stream(stream)
    with torch.npu.stream(None):
        assert torch.npu.current_stream() == default
    with pytest.raises(ValueError, match="must be recorded"):
        torch.npu.Event(enable_timing=True).elapsed_time(torch.npu.Event(enable_timing=True))


def test_threads():
    results = {}

    def work(i):
        torch.npu.set_device(i % 2)
        x = torch.full((64, 64), float(i), device="npu")
        for _ in range(50):
            x = (x @ torch.eye(64, device="npu")).add_(1)
        results[i] = (x.device.index, x.sum().item())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert results == {i: (i % 2, (i + 50) * 64 * 64) for i in range(6)}
    assert torch.npu.current_device() == 0


def _child(queue):
    x = torch.arange(1000.0, device="npu")
    queue.put((x * 2).sum().item())


def test_a_child_of_fork_works():
    torch.ones(10, device="npu").sum()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == 999000
    child.join(60)
    assert child.exitcode == 0


# Objects


def test_save_load_pickle_deepcopy():
    x = torch.randn(4, 5, device="npu")
    made = {"x": x, "row": x[1], "turned": x.t(), "parameter": torch.nn.Parameter(x.clone()), "half": x.bfloat16()}
    assert_same_bits(list(pickle.loads(pickle.dumps(made)).values()), [t.cpu() for t in made.values()])
    for again in (copy.deepcopy(made), _saved(made), _saved(made, "npu:0"), _saved(made, "npu"),
                  _saved(made, torch.device("npu", 0))):
        assert_same_bits(list(again.values()), [t.cpu() for t in made.values()])
        assert again["row"].untyped_storage()._cdata == again["x"].untyped_storage()._cdata
        assert location(again["x"]) == (1, 0) and isinstance(again["parameter"], torch.nn.Parameter)
        again["x"].zero_()
        assert again["row"].eq(0).all() and x.ne(0).all()
    on_cpu = _saved(made, "cpu")
    assert all(t.device.type == "cpu" for t in on_cpu.values()) and torch.equal(on_cpu["turned"], x.cpu().t())
    assert _saved({"x": x.cpu()}, "npu:2")["x"].device == torch.device("npu:2")
    assert _saved(x, lambda storage, place: storage).device.type == "cpu"


def _saved(made, where=None):
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    return torch.load(file, map_location=where)


def test_printing():
    assert repr(torch.tensor([1.0, 2.5], device="npu")) == "tensor([1.0000, 2.5000], device='npu:0')"
    assert repr(torch.ones(1, device="npu").sum()) == "tensor(1., device='npu:0')"


def test_numbers_out_of_tensors():
    x = torch.tensor([3.0, 0.0], device="npu")
    assert x[0].item() == 3 and float(x[0]) == 3 and bool(x[0]) and x.tolist() == [3, 0] and int(x.long()[0]) == 3
    assert torch.equal(x, x.clone()) and torch.allclose(x, x) and not x.isnan().any()
    assert [v.item() for v in x] == [3, 0] and len(x) == 2 and 3 in x


def test_new_names_of_devices():
    assert torch.device("npu:0").type == "npu" and str(torch.device("npu", 1)) == "npu:1"
    with torch.device("npu"):
        assert torch.ones(2).device.type == "npu"
        assert torch.nn.Linear(2, 2).weight.device.type == "npu"
    torch.set_default_device("npu:0")
    try:
        assert torch.zeros(3).is_npu
    finally:
        torch.set_default_device(None)
