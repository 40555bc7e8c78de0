#!/usr/bin/env python3
"""Compile times against Triton, and a plain Triton block attention as a peer. Needs PyTorch and Triton on a machine with a GPU.

usage: compare.py [--bench build/bin/bench_device] [--times 5] [--json FILE] [--no-attention]

Cold: a fresh process with an empty cache, from the first mention of the kernel to a loaded module. The process, its imports and the GPU's
context are started before the clock, for both. Triton builds a small helper module with the C compiler on the first launch ever; it is made
before the clock too, by another kernel, so the number is the kernel's own. Warm: a fresh process that finds its cache on disk.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

# Each is the text of a process of its own. The GEMM has tlx's tile, 128 x 256 x 64, and loads by pointers (no tensor maps).
COMMON = r"""
import json, sys, time
import torch, triton, triton.language as tl
torch.cuda.init(); torch.zeros(1, device="cuda"); torch.cuda.synchronize()

@triton.jit
def nothing(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), tl.arange(0, N))

@triton.jit
def gemm(a, b, c, M, N, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    pa = a + (rows % M)[:, None] * sa + ks[None, :]
    pb = b + (cols % N)[None, :] * sb + ks[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = K - k * BK
        x = tl.load(pa, mask=ks[None, :] < left, other=0.0)
        y = tl.load(pb, mask=ks[:, None] < left, other=0.0)
        acc = tl.dot(x, y, acc)
        pa += BK
        pb += BK
    pc = c + rows[:, None] * sc + cols[None, :]
    tl.store(pc, acc.to(tl.bfloat16), mask=(rows[:, None] < M) & (cols[None, :] < N))

@triton.jit
def attention(q, k, v, o, tiles, scale, H, D: tl.constexpr):
    head = tl.program_id(0)
    tile = tl.program_id(1)
    start = tl.load(tiles + 2 * tile)
    end = tl.load(tiles + 2 * tile + 1)
    rows = start + tl.arange(0, 64)
    at = (rows[:, None] * H + head) * D + tl.arange(0, D)[None, :]
    ok = (rows < end)[:, None]
    x = tl.load(q + at, mask=ok, other=0.0)
    y = tl.load(k + at, mask=ok, other=0.0)
    z = tl.load(v + at, mask=ok, other=0.0)
    s = tl.dot(x, tl.trans(y)) * scale
    s = tl.where((rows < end)[None, :], s, float("-inf"))
    p = tl.exp2(s - tl.max(s, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]
    tl.store(o + at, tl.dot(p.to(z.dtype), z).to(tl.bfloat16), mask=ok)

@triton.jit
def attention_backward(q, k, v, do, dq, dk, dv, tiles, scale, H, D: tl.constexpr):
    head = tl.program_id(0)
    tile = tl.program_id(1)
    start = tl.load(tiles + 2 * tile)
    end = tl.load(tiles + 2 * tile + 1)
    rows = start + tl.arange(0, 64)
    at = (rows[:, None] * H + head) * D + tl.arange(0, D)[None, :]
    ok = (rows < end)[:, None]
    x = tl.load(q + at, mask=ok, other=0.0)
    y = tl.load(k + at, mask=ok, other=0.0)
    z = tl.load(v + at, mask=ok, other=0.0)
    g = tl.load(do + at, mask=ok, other=0.0)
    s = tl.dot(x, tl.trans(y)) * (scale * 1.4426950408889634)
    s = tl.where((rows < end)[None, :], s, float("-inf"))
    p = tl.exp2(s - tl.max(s, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]
    tl.store(dv + at, tl.dot(tl.trans(p.to(g.dtype)), g).to(tl.bfloat16), mask=ok)
    dp = tl.dot(g, tl.trans(z))
    ds = (p * (dp - tl.sum(p * dp, 1)[:, None]) * scale).to(x.dtype)
    tl.store(dq + at, tl.dot(ds, y).to(tl.bfloat16), mask=ok)
    tl.store(dk + at, tl.dot(tl.trans(ds), x).to(tl.bfloat16), mask=ok)

out = torch.zeros(128, device="cuda", dtype=torch.int32)
nothing[(1,)](out, N=128)
torch.cuda.synchronize()
"""

COLD = {
    "gemm": r"""
a = torch.randn(256, 256, device="cuda", dtype=torch.bfloat16); b = torch.randn(256, 256, device="cuda", dtype=torch.bfloat16)
c = torch.empty(256, 256, device="cuda", dtype=torch.bfloat16)
torch.cuda.synchronize(); start = time.perf_counter()
gemm[(2, 1)](a, b, c, 256, 256, 256, 256, 256, 256, BM=128, BN=256, BK=64, num_warps=8, num_stages=4)
torch.cuda.synchronize(); ms = (time.perf_counter() - start) * 1e3
ok = bool(((c.float() - a.float() @ b.float().T).norm() / (a.float() @ b.float().T).norm()) < 5e-3)
print(json.dumps({"total_ms": ms, "ok": ok}))
""",
    "attention": r"""
q, k, v = (torch.randn(128, 2, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3)); o = torch.empty_like(q)
tiles = torch.tensor([[0, 64], [64, 128]], device="cuda", dtype=torch.int32)
torch.cuda.synchronize(); start = time.perf_counter()
attention[(2, 2)](q, k, v, o, tiles, 0.1275, 2, D=128, num_warps=4)
torch.cuda.synchronize(); ms = (time.perf_counter() - start) * 1e3
print(json.dumps({"total_ms": ms, "ok": bool(torch.isfinite(o.float()).all())}))
""",
}

# Sequence lengths have the distribution of bench_device's, not its seed: compare shares of the copy rate, not milliseconds.
SPEED = r"""
import random
g = random.Random(7); lengths = [g.randint(1, 1024) for _ in range(1152)]
tiles, at = [], 0
for n in lengths:
    tiles += [(s, min(s + 64, at + n)) for s in range(at, at + n, 64)]
    at += n
tiles = torch.tensor(tiles, device="cuda", dtype=torch.int32)
def timed(launch):
    for _ in range(5): launch()
    ms = []
    for _ in range(31):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record(); launch(); launch(); b.record(); b.synchronize(); ms.append(a.elapsed_time(b) / 2)
    return sorted(ms)[15]
out = {}
for D in (64, 128):
    q, k, v = (torch.randn(at, 4, D, device="cuda", dtype=torch.bfloat16) for _ in range(3)); o = torch.empty_like(q)
    gb = 8 * at * 4 * D / 1e6
    copy = timed(lambda: o.copy_(q))
    best = min(timed(lambda: attention[(4, len(tiles))](q, k, v, o, tiles, 1.4427 / D ** 0.5, 4, D=D, num_warps=w)) for w in (4, 8))
    out["D=%d" % D] = {"tokens": at, "ms": best, "gbs": gb / best, "copy_gbs": gb / 2 / copy, "share_of_copy": gb / best / (gb / 2 / copy)}
    g, dq, dk, dv = (torch.randn_like(q) for _ in range(4)); gb = 14 * at * 4 * D / 1e6
    best = min(timed(lambda: attention_backward[(4, len(tiles))](q, k, v, g, dq, dk, dv, tiles, 1 / D ** 0.5, 4, D=D, num_warps=w)) for w in (4, 8))
    out["backward D=%d" % D] = {"tokens": at, "ms": best, "gbs": gb / best, "copy_gbs": gb * 2 / 7 / copy, "share_of_copy": gb / best / (gb * 2 / 7 / copy)}
print(json.dumps(out))
"""


def last_json(command, env):
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def triton(text, cache):
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:  # Triton reads a kernel's source from its file
        script.write(COMMON + text)
        script.flush()
        return last_json([sys.executable, script.name], {**os.environ, "TRITON_CACHE_DIR": cache})


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--bench", default="build/bin/bench_device")
    words.add_argument("--times", type=int, default=5)
    words.add_argument("--json")
    words.add_argument("--no-attention", action="store_true", help="leave the speed of Triton's attention out")
    asked = words.parse_args()

    result = {}
    for kernel in ("gemm", "attention"):
        cold, warm, tlx_cold, tlx_warm = [], [], [], []
        for _ in range(asked.times):  # in turn, so that a noisy machine is noisy for both
            with tempfile.TemporaryDirectory() as cache:
                cold.append(triton(COLD[kernel], cache))
                warm.append(triton(COLD[kernel], cache))
            tlx_cold.append(last_json([asked.bench, "--cold", kernel], {**os.environ, "TLX_CACHE": "off"}))
            with tempfile.TemporaryDirectory() as cache:
                for _ in range(2):
                    answer = last_json([asked.bench, "--cold", kernel], {**os.environ, "TLX_CACHE": cache})
                if "cache" not in answer:
                    sys.exit("the second process did not find the first one's entry in the cache")
                tlx_warm.append(answer)
        middle = lambda runs: statistics.median(r["total_ms"] for r in runs)
        result[kernel] = {
            "triton_cold_ms": middle(cold), "tlx_cold_ms": middle(tlx_cold), "cold_ratio": middle(tlx_cold) / middle(cold),
            "triton_warm_ms": middle(warm), "tlx_warm_ms": middle(tlx_warm),
            "tlx_stages": {s: statistics.median(r[s] for r in tlx_cold) for s in tlx_cold[0] if s not in ("kernel", "total_ms")},
            "tlx_warm_stages": {s: statistics.median(r[s] for r in tlx_warm) for s in tlx_warm[0] if s not in ("kernel", "total_ms")},
            "ok": all(r["ok"] for r in cold + warm),
        }
        r = result[kernel]
        print(f"{kernel}: cold Triton {r['triton_cold_ms']:.0f} ms, tlx {r['tlx_cold_ms']:.0f} ms (ratio {r['cold_ratio']:.2f}); warm Triton {r['triton_warm_ms']:.1f} ms, tlx {r['tlx_warm_ms']:.2f} ms", flush=True)
        print("  tlx cold:", ", ".join(f"{s} {ms:.2f}" for s, ms in r["tlx_stages"].items()), flush=True)
        print("  tlx warm:", ", ".join(f"{s} {ms:.2f}" for s, ms in r["tlx_warm_stages"].items()), flush=True)
    if not asked.no_attention:
        with tempfile.TemporaryDirectory() as cache:
            result["triton_attention"] = triton(SPEED, cache)
        for d, r in result["triton_attention"].items():
            print(f"Triton attention {d}: {r['ms']:.3f} ms, {r['gbs']:.0f} GB/s, {r['share_of_copy']:.3f} of a copy ({r['copy_gbs']:.0f} GB/s)")
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
