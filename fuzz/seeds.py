#!/usr/bin/env python3
"""Writes the seeds of the corpus that chance would not find: files of NumPy, words of the tool, options, JSON.
   seeds.py [FOLDER]        fuzz/corpus unless given; what is there already stays"""
import io
import pathlib
import random
import sys

import numpy

CORPUS = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus")


def write(target, name, content):
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    (CORPUS / target / name).write_bytes(content)


def npy(array, version=None):
    file = io.BytesIO()
    numpy.lib.format.write_array(file, numpy.asarray(array), version=version)
    return file.getvalue()


def npz(save=numpy.savez, **arrays):
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def files():
    """The bytes in front: archive, keep f64, dtype, slice."""
    plain = {dtype: numpy.arange(6).reshape(2, 3).astype(dtype)
             for dtype in ("f4", "f2", "f8", "i4", "i8", "u1", "u2", "i2", "?", ">f4", "c8", "V2", "S3")}
    for dtype, array in plain.items():
        write("npy", f"plain_{dtype.replace('>', 'big_').replace('?', 'bool')}", bytes([0, 1, 0, 0]) + npy(array))
    write("npy", "as_bf16", bytes([0, 0, 2, 0]) + npy(plain["u2"]))
    write("npy", "as_int32", bytes([0, 1, 4, 0]) + npy(plain["f8"]))
    write("npy", "fortran", bytes([0, 0, 0, 0]) + npy(numpy.asfortranarray(plain["f4"])))
    text = b"{'descr': '<f4', 'fortran_order': True, 'shape': (%d, %d, 0), }\n" % (2**62, 2**62)  # no integer holds the product
    write("npy", "shape_overflows_of_nothing", bytes(4) + b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    write("npy", "sliced", bytes([0, 0, 0, 1, 4, 0, 10, 2, 13, 0]) + npy(plain["f4"]))
    write("npy", "scalar", bytes(4) + npy(numpy.float32(1)))
    write("npy", "empty", bytes(4) + npy(numpy.zeros((3, 0, 5), "f4")))
    for version in ((1, 0), (2, 0), (3, 0)):
        write("npy", f"version_{version[0]}", bytes(4) + npy(plain["f4"], version))
    write("npy", "archive", bytes([1, 0, 0, 0]) + npz(x=plain["f4"]))
    write("npy", "archive_of_two", bytes([1, 0, 0, 0]) + npz(x=plain["f4"], y=plain["i8"]))
    write("npy", "archive_packed", bytes([1, 0, 0, 0]) + npz(numpy.savez_compressed, x=numpy.zeros(100, "f4")))
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }\n"
    for name, shape in (("huge", b"9223372036854775807, 9223372036854775807, 0"), ("deep", b"1," * 30),
                        ("negative", b"-1, 2"), ("text", b"2, x")):
        text = header % shape
        write("npy", f"shape_{name}", bytes(4) + b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)


TEXTS = {
    0: ["limits=off", "precision=golden", "precision=fat", "num_threads=3", "num_threads=-1", "num_threads=9999999999999",
        "max_isa=avx2", "memory=any", "mistake=none", "mistake=without delta", "limit=on", "=", "limits"],
    1: ["{}", "[]", '{"a": [1, 2.5e-3, true, null, "\\u00e9\\n"]}', "[1,]", '"a', "01", "-", "[" * 99 + "]" * 99, "nul",
        '{"a" 1}', "1e+", "\u00e9", '"\ud7ff"'],
    2: ["x=[4,8]:bf16", "x=randn[4,8]:bf16,seed=7", "x:f32=uniform[2,2],low=-1,high=1", "2*N+ceil(T1/8)", "[128,256]",
        "1/sqrt(D)", "log2(N)*min(2,3)", "(((N)))", "-" * 70 + "1", "x=a.bin:bf16[4][0:2]", "max(1,", "inf", "9" * 30,
        "x=[1e400]", "name=", "=x", "x=full[2],value=nan"],
    3: ["SwiGlu x=[4,8]", "SwiGluGrad x=[2,6] dim=0 dtype=bf16", "aclnnSwiGlu x=[2]:f16", "SwiGlu x=[3]",
        "ScaledMaskedSoftmax B=1 H=2 S=3 N=5 mask=[1,1,3,5] scale=0.5", "ExpSegsum self=[1,2,5]",
        "ExpSegsumBackward gradOutput=[1,1,4,4]", "FusedLinearOnlineMaxSum BT=3 V=9 H=5", "SwiGlo x=[4]",
        "FusedCrossEntropyLossWithMaxSum BT=3 V=7 softMaxOutOptional=none vocabParallelLogitsOptional=none",
        "SwiGlu x=[4,8] seed=1 x=[4,8]", "SwiGlu dim=7 x=[4,8]", "SwiGlu x=topk[4,8]", "SwiGlu x=[99999999999999999999]"],
    4: ["SwiGlu x dim out", "SwiGlu", "Nothing", "SwiGlu out x x", "NsaSelectedAttention query inputLayout"],
    5: ["list", "list --names", "list --names SwiGlu", "describe SwiGlu", "describe nothing", "run SwiGlu x=[2,4] --json",
        "run SwiGlu x=[2,4] --precision golden --threads=2", "run SwiGlu --seed", "--help", "--version", "lst",
        "check SwiGlu x=[2,4]", "run SwiGlu x=[2,4] --isa scalar --limits off", "run --precisiom fast"],
}


def texts():
    for reader, lines in TEXTS.items():
        for i, line in enumerate(lines):
            write("words", f"{reader}_{i}", bytes([reader]) + line.encode("utf-8", "surrogatepass"))


def chance():
    """Long enough for a whole program or call: an engine grows short ones slowly."""
    for target, size in (("call", 80), ("runtime", 300), ("views", 60), ("gemm", 24)):
        for i in range(24):
            write(target, f"chance_{i}", random.Random(f"{target} {i}").randbytes(size))


files()
texts()
chance()
