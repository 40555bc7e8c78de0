#!/usr/bin/env python3
"""Fused linear layers of tlx against PyTorch: eager, Inductor, cuBLASLt's own epilogue where it has one. Needs PyTorch on a machine with a GPU.

usage: fused.py LIBTLX_BENCH_CALLS.so [--beside ANOTHER.so] [--filter RE] [--rounds 15] [--inductor RE] [--max-autotune RE] [--seconds 80] [--json FILE]

All contenders of a case work on the same bf16 tensors in one process. Each is captured into a CUDA graph of one call for each of several input sets, which together
are larger than the L2, so no launch costs the host anything and no input is found in the cache. Graphs are replayed in a new random order each round; times are
medians over rounds, by events. Before that every contender's result is compared with float64 on sampled rows. Ratios are the best peer's time / tlx's.
"""
import argparse
import ctypes
import json
import random
import re
import sys
import time

import torch
import torch.nn.functional as F

from timing import interleaved

BF = torch.bfloat16
NONE, RELU, GELU, GELU_TANH, SILU = range(5)


class Tlx:
    def __init__(self, path):
        self.calls = ctypes.CDLL(path)
        self.calls.tlx_bench_error.restype = ctypes.c_char_p
        self("open", b"gpu:0")

    def __call__(self, name, *arguments):
        kinds = {bytes: lambda x: x, float: ctypes.c_float, int: lambda x: ctypes.c_int64(x), torch.Tensor: lambda x: ctypes.c_uint64(x.data_ptr()), type(None): lambda x: ctypes.c_uint64(0)}
        if getattr(self.calls, "tlx_bench_" + name)(*[kinds[type(a)](a) for a in arguments]) != 0:
            sys.exit(f"{name}: {self.calls.tlx_bench_error().decode()}")


def stream():
    return torch.cuda.current_stream().cuda_stream


def normal(*shape, sigma=1.0):
    return (torch.randn(*shape, device="cuda") * sigma).to(BF)


def rms(x, gain=None):
    return F.rms_norm(x, (x.shape[-1],), gain, 1e-6)


class Case:
    """inputs(): tensors of one set. eager(...): the text that eager, Inductor and (in float64) the reference run. others: {name: f(...)}. tlx(call, out, ...)."""

    def __init__(self, name, shape, inputs, eager, tlx, others=None, rows_of=(0,), plain=None, call=None):
        self.name, self.shape, self.inputs, self.eager, self.tlx, self.others, self.rows_of, self.plain = name, shape, inputs, eager, tlx, others or {}, rows_of, plain
        self.call = call or name.split("_")[0]


def cases():
    all_of = []

    def gelu_residual(m, n, k):
        def inputs():
            b = normal(n)
            return normal(m, k), normal(n, k, sigma=k**-0.5), b, b.float(), normal(m, n)
        eager = lambda x, w, b, _, r: F.gelu(F.linear(x, w, b), approximate="tanh") + r
        lt = lambda x, w, b, _, r: torch._addmm_activation(b, x, w.t(), use_gelu=True) + r
        all_of.append(Case(f"gelu_residual_{m}x{n}x{k}", (m, n), inputs, eager, lambda call, c, x, w, b, bf, r: call("gemm", x, w, c, m, n, k, bf, r, GELU_TANH, stream()), {"cublaslt epilogue": lt}, (0, 4), call="gemm"))

    def gated(m, n, k):
        inputs = lambda: (normal(m, k), normal(n, k, sigma=k**-0.5), normal(n, k, sigma=k**-0.5))
        all_of.append(Case(f"gated_{m}x{n}x{k}", (m, n), inputs, lambda x, g, u: F.silu(F.linear(x, g)) * F.linear(x, u), lambda call, c, x, g, u: call("gated", x, g, u, c, m, n, k, SILU, stream())))

    def mlp(m, n, k):
        inputs = lambda: (normal(m, k), normal(n, k, sigma=k**-0.5), normal(n, k, sigma=k**-0.5), normal(k, n, sigma=n**-0.5))
        all_of.append(Case(f"mlp_{m}x{n}x{k}", (m, k), inputs, lambda x, g, u, d: F.linear(F.silu(F.linear(x, g)) * F.linear(x, u), d),
                           lambda call, c, x, g, u, d: call("mlp", x, g, u, d, c, m, n, k, k, SILU, stream())))

    def normed(m, n, k, activation, name, function):
        inputs = lambda: (normal(m, k), normal(n, k, sigma=k**-0.5))
        all_of.append(Case(f"rmsnorm_{name}_{m}x{n}x{k}", (m, n), inputs, lambda x, w: function(F.linear(rms(x), w)),
                           lambda call, c, x, w: call("normed_gemm", x, w, c, m, n, k, None, activation, 1e-6, stream()),
                           plain=lambda call, c, x, w, act=NONE: call("gemm", x, w, c, m, n, k, None, None, act, stream()), call="normed_gemm"))
        all_of[-1].activation = activation

    def then_norm(m, n, k):
        def inputs():
            gain = normal(n)
            return normal(m, k), normal(n, k, sigma=k**-0.5), gain, gain.float()
        all_of.append(Case(f"linear_rmsnorm_{m}x{n}x{k}", (m, n), inputs, lambda x, w, gain, _: rms(F.linear(x, w), gain),
                           lambda call, c, x, w, gain, gf: call("gemm_normed", x, w, c, m, n, k, None, None, gf, 1e-6, stream()), call="gemm_normed"))

    def grouped(sizes, n, k):
        m, groups = sum(sizes), len(sizes)
        ends = torch.tensor(sizes).cumsum(0)

        def inputs():
            offsets = torch.cat([torch.zeros(1, dtype=torch.int64), ends]).int().cuda()
            return normal(m, k), normal(groups, n, k, sigma=k**-0.5), offsets
        loop = lambda x, w, _: torch.cat([F.linear(part, w[g]) for g, part in enumerate(x.split(sizes))])
        one = lambda x, w, offsets: torch._grouped_mm(x, w.transpose(1, 2), offs=offsets[1:])
        all_of.append(Case(f"grouped_{groups}_groups_{m}x{n}x{k}", (m, n), inputs, loop, lambda call, c, x, w, offsets: call("grouped", x, w, c, offsets, groups, m, n, k, stream()), {"torch._grouped_mm": one}, None))
        all_of[-1].inductor = False  # it would unroll the loop: a library call for each group, as eager

    gelu_residual(8192, 4096, 1024)
    gated(8192, 14336, 4096)
    gated(512, 14336, 4096)
    mlp(8192, 14336, 4096)
    mlp(512, 14336, 4096)
    for m, n, k in ((8192, 3072, 768), (65536, 512, 512)):
        normed(m, n, k, GELU, "gelu", F.gelu)
        normed(m, n, k, GELU_TANH, "gelu_tanh", lambda x: F.gelu(x, approximate="tanh"))
        normed(m, n, k, NONE, "linear", lambda x: x)
    then_norm(8192, 512, 512)
    uneven = [0, 37, 511, 2048, 128, 900, 1, 0, 1300, 640, 77, 256, 1024, 350, 512, 408]
    grouped([512] * 16, 4096, 4096)
    grouped(uneven, 4096, 4096)
    return all_of


def close(case, got, tensors):
    """Against float64 on some rows: two roundings to bf16 of what enters and leaves, and none left as they were (NaN)."""
    if case.rows_of is None:  # rows that belong together: all of them, in f32
        picked = torch.arange(case.shape[0], device="cuda")
        expected = case.eager(*[t.float() for t in tensors]).double()
    else:
        picked = torch.randperm(case.shape[0], device="cuda")[:64]
        expected = case.eager(*[(t[picked] if i in case.rows_of else t).double() for i, t in enumerate(tensors)])
    off = (got[picked].double() - expected).norm() / expected.norm()
    return bool(torch.isfinite(got).all()) and bool(off < 8e-3), float(off)


def measure(case, call, beside, asked):
    with torch.inference_mode():
        first = case.inputs()
        bytes_of_a_set = sum(t.numel() * t.element_size() for t in first) + 2 * case.shape[0] * case.shape[1]
        sets = max(2, min(8, (256 << 20) // bytes_of_a_set + 1))
        inputs = [first] + [case.inputs() for _ in range(sets - 1)]
        outs = [torch.full(case.shape, float("nan"), device="cuda", dtype=BF) for _ in range(sets)]
        results = {}

        def torch_call(function):
            def run(s):
                results["last"] = function(*inputs[s])
            return run

        contenders = {"eager": torch_call(case.eager)}
        torch._dynamo.reset()
        if getattr(case, "inductor", True) and re.search(asked.inductor, case.name):
            contenders["inductor"] = torch_call(torch.compile(case.eager, dynamic=False))
        if asked.max_autotune and re.search(asked.max_autotune, case.name):
            contenders["max-autotune"] = torch_call(torch.compile(case.eager, dynamic=False, mode="max-autotune-no-cudagraphs"))
        for name, function in case.others.items():
            contenders[name] = torch_call(function)
        contenders["tlx"] = lambda s: case.tlx(call, outs[s], *inputs[s])
        if beside and hasattr(beside.calls, "tlx_bench_" + case.call):
            contenders["tlx beside"] = lambda s: case.tlx(beside, outs[s], *inputs[s])
        if case.plain:
            contenders["tlx plain gemm"] = lambda s: case.plain(call, outs[s], *inputs[s])
            contenders["matmul alone"] = torch_call(lambda x, w: F.linear(x, w))
            if case.activation:
                contenders["tlx gemm + activation"] = lambda s: case.plain(call, outs[s], *inputs[s], act=case.activation)
        wrong = []
        for name, run in contenders.items():
            if name in ("tlx plain gemm", "matmul alone", "tlx gemm + activation"):  # other results: how much the norm adds; checked where they are at home
                continue
            for o in outs:
                o.fill_(float("nan"))
            run(0)
            torch.cuda.synchronize()
            right, off = close(case, outs[0] if name.startswith("tlx") else results["last"], inputs[0])
            if not right:
                wrong.append(f"{name} ({off:.1e})")
        times, failed = interleaved(contenders, sets, asked.rounds)
    if failed:
        raise RuntimeError("; ".join(f"{name}: {why}" for name, why in failed.items()))
    return times, wrong


def main():
    words = argparse.ArgumentParser()
    words.add_argument("library")
    words.add_argument("--beside", help="the library of another build, as one more contender")
    words.add_argument("--filter", default=".")
    words.add_argument("--rounds", type=int, default=15)
    words.add_argument("--inductor", default=".", help="cases in which Inductor takes part: compiling takes seconds")
    words.add_argument("--max-autotune", default="")
    words.add_argument("--seconds", type=float, default=1e9, help="start no case after so many")
    words.add_argument("--json")
    asked = words.parse_args()
    started = time.time()
    torch.manual_seed(1)
    random.seed(1)
    torch.zeros(1, device="cuda")
    call, beside = Tlx(asked.library), Tlx(asked.beside) if asked.beside else None
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; ms", flush=True)
    result, bad = {}, 0
    for case in cases():
        if not re.search(asked.filter, case.name):
            continue
        if time.time() - started > asked.seconds:
            print(f"{case.name}: no time left")
            continue
        try:
            times, wrong = measure(case, call, beside, asked)
        except Exception as problem:  # a capture that failed leaves PyTorch's generator waiting for its end: what follows would fail too
            print(f"{case.name}: {type(problem).__name__}: {str(problem)[:300]}; the cases after it want a process of their own", flush=True)
            bad += 1
            break
        same_work = {n: t for n, t in times.items() if not n.startswith("tlx") and n != "matmul alone"}
        best = min(same_work, key=same_work.get)
        result[case.name] = {"ms": times, "best_peer": best, "ratio": same_work[best] / times["tlx"], "wrong": wrong}
        more = "" if "tlx plain gemm" not in times else f"; {times['tlx'] / times['tlx plain gemm']:.3f} of the plain GEMM's time"
        print(f"{case.name}: " + ", ".join(f"{n} {t:.4f}" for n, t in times.items()) + f"; best peer ({best}) / tlx {same_work[best] / times['tlx']:.3f}{more}" + (f"; WRONG: {', '.join(wrong)}" if wrong else ""), flush=True)
        bad += bool(wrong)
        torch.cuda.empty_cache()
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(result, file, indent=1)
    return 1 if bad or not result else 0


if __name__ == "__main__":
    sys.exit(main())
