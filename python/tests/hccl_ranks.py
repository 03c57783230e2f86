"""What every process of test_hccl_torchrun.py runs: HCCL's root info goes through torchrun's store."""

from __future__ import annotations

import ctypes

import torch
from torch.distributed import rendezvous

from gradus import _library

FP32, SUM, COUNT = 4, 0, 100_003


def main() -> None:
    store, rank, ranks = next(rendezvous("env://"))
    c = _library._c

    def must(code: int) -> None:
        if code != 0:
            raise SystemExit(f"rank {rank}: {code} {c.aclGetRecentErrMsg().decode()}")

    must(c.aclInit(None))
    must(c.aclrtSetDevice(rank))
    info = ctypes.create_string_buffer(4108)
    if rank == 0:
        must(c.HcclGetRootInfo(info))
        store.set("hccl", info.raw)
    info.raw = store.get("hccl")
    comm, stream, data = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    must(c.HcclCommInitRootInfo(ctypes.c_uint32(ranks), info, ctypes.c_uint32(rank), ctypes.byref(comm)))
    must(c.aclrtCreateStream(ctypes.byref(stream)))
    must(c.aclrtMalloc(ctypes.byref(data), ctypes.c_size_t(4 * COUNT), 0))
    values = torch.frombuffer((ctypes.c_float * COUNT).from_address(data.value or 0), dtype=torch.float32)
    values.copy_(torch.arange(COUNT) % 11 + rank)
    must(c.HcclAllReduce(data, data, ctypes.c_uint64(COUNT), FP32, SUM, comm, stream))
    must(c.aclrtSynchronizeStream(stream))
    wanted = (torch.arange(COUNT) % 11 * ranks + ranks * (ranks - 1) // 2).to(torch.float32)
    if not torch.equal(values, wanted):
        raise SystemExit(f"rank {rank}: {values} where {wanted} is right")
    must(c.HcclCommDestroy(comm))
    must(c.aclrtFree(data))
    must(c.aclrtDestroyStream(stream))
    must(c.aclrtResetDevice(rank))
    must(c.aclFinalize())
    print(f"rank {rank} of {ranks}: right", flush=True)


if __name__ == "__main__":
    main()
