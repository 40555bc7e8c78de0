#!/usr/bin/env python3
"""Attention of tlx against its peers: a plain Triton kernel, FlashAttention-2, cuDNN, FlexAttention, Inductor. Needs PyTorch and Triton on a machine with a GPU.

  tlxc build --arch sm_90a --out KERNELS --kernels '(block|flash)_attention.*'
  attention.py LIBTLX_C.so KERNELS [--filter RE] [--rounds 15] [--seconds 300] [--beside KERNELS2] [--flex RE] [--json FILE]

tlx is called through the PyTorch operators of examples/pytorch, so nothing of it is compiled here. All contenders of a case work on the same tensors in one process. Each is
captured into a CUDA graph of one call for each of several input sets, which together are larger than the L2. Graphs are replayed in a new random order each round;
times are medians over rounds, by events. Before that every contender's results are compared with float64 where they are sampled: 45 dB at least, and all finite.

jagged: 1152 sequences of 1 to 1024 tokens, 4 heads. Streaming kernels read and write the same arrays: the fastest is the roof. equal: a batch of whole blocks, for
peers that know no jagged sequences. full: every query sees every key, or those before it.
"""
import argparse
import json
import math
import os
import random
import re
import sys
import time

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch.nn.attention import SDPBackend, sdpa_kernel

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "examples", "pytorch"))
import tlx_block_attention  # noqa: E402
import tlx_flash_attention  # noqa: E402
from timing import interleaved  # noqa: E402

BF = torch.bfloat16
LOG2E = 1.4426950408889634


@triton.jit
def stream31(a, b, c, x, N, BLOCK: tl.constexpr, KEEP: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    ok = at < N
    policy: tl.constexpr = "evict_last" if KEEP else ""
    s = tl.load(a + at, mask=ok, eviction_policy=policy) + tl.load(b + at, mask=ok, eviction_policy=policy) + tl.load(c + at, mask=ok, eviction_policy=policy)
    tl.store(x + at, s, mask=ok)


@triton.jit
def stream43(a, b, c, d, x, y, z, N, BLOCK: tl.constexpr, KEEP: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    ok = at < N
    policy: tl.constexpr = "evict_last" if KEEP else ""
    s = tl.load(a + at, mask=ok, eviction_policy=policy) + tl.load(b + at, mask=ok, eviction_policy=policy)
    t = tl.load(c + at, mask=ok, eviction_policy=policy) + tl.load(d + at, mask=ok, eviction_policy=policy)
    tl.store(x + at, s, mask=ok)
    tl.store(y + at, t, mask=ok)
    tl.store(z + at, s + t, mask=ok)


# One program per tile of ROWS queries of a block of BLOCK tokens: tiles has the block's first token, its end, and the tile's first token.
@triton.jit
def plain_forward(q, k, v, o, tiles, scale, H, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    head = tl.program_id(0)
    tile = tl.program_id(1)
    start = tl.load(tiles + 3 * tile)
    end = tl.load(tiles + 3 * tile + 1)
    rows = tl.load(tiles + 3 * tile + 2) + tl.arange(0, ROWS)
    keys = start + tl.arange(0, BLOCK)
    d = tl.arange(0, D)[None, :]
    mine = (rows[:, None].to(tl.int64) * H + head) * D + d
    all_of = (keys[:, None].to(tl.int64) * H + head) * D + d
    ok, known = (rows < end)[:, None], (keys < end)[:, None]
    x = tl.load(q + mine, mask=ok, other=0.0)
    y = tl.load(k + all_of, mask=known, other=0.0)
    z = tl.load(v + all_of, mask=known, other=0.0)
    s = tl.dot(x, tl.trans(y)) * (scale * 1.4426950408889634)
    s = tl.where((keys < end)[None, :], s, float("-inf"))
    p = tl.exp2(s - tl.max(s, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]
    tl.store(o + mine, tl.dot(p.to(z.dtype), z).to(o.dtype.element_ty), mask=ok)


@triton.jit
def plain_backward(q, k, v, do, dq, dk, dv, tiles, scale, H, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    head = tl.program_id(0)
    tile = tl.program_id(1)
    start = tl.load(tiles + 3 * tile)
    end = tl.load(tiles + 3 * tile + 1)
    rows = start + tl.arange(0, BLOCK)
    at = (rows[:, None].to(tl.int64) * H + head) * D + tl.arange(0, D)[None, :]
    ok = (rows < end)[:, None]
    x = tl.load(q + at, mask=ok, other=0.0)
    y = tl.load(k + at, mask=ok, other=0.0)
    z = tl.load(v + at, mask=ok, other=0.0)
    g = tl.load(do + at, mask=ok, other=0.0)
    s = tl.dot(x, tl.trans(y)) * (scale * 1.4426950408889634)
    s = tl.where((rows < end)[None, :], s, float("-inf"))
    p = tl.exp2(s - tl.max(s, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]
    tl.store(dv + at, tl.dot(tl.trans(p.to(g.dtype)), g).to(dv.dtype.element_ty), mask=ok)
    dp = tl.dot(g, tl.trans(z))
    ds = (p * (dp - tl.sum(p * dp, 1)[:, None]) * scale).to(x.dtype)
    tl.store(dq + at, tl.dot(ds, y).to(dq.dtype.element_ty), mask=ok)
    tl.store(dk + at, tl.dot(tl.trans(ds), x).to(dk.dtype.element_ty), mask=ok)


# Three arrays rotated by the angles of each token's position, at the rate of memory: x0 cos + x1 sin, x1 cos - x0 sin of columns i and i + D / 2.
@triton.jit
def turn_back(a, b, c, x, y, z, positions, cos, sin, T, H, D: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)  # of (token, head)
    ok = (row < T * H)[:, None]
    d = tl.arange(0, D // 2)[None, :]
    place = tl.load(positions + row // H, mask=row < T * H, other=0)[:, None] * (D // 2) + d
    c_, s_ = tl.load(cos + place), tl.load(sin + place)
    low = row[:, None] * D + d
    a0, a1 = tl.load(a + low, mask=ok).to(tl.float32), tl.load(a + low + D // 2, mask=ok).to(tl.float32)
    b0, b1 = tl.load(b + low, mask=ok).to(tl.float32), tl.load(b + low + D // 2, mask=ok).to(tl.float32)
    c0, c1 = tl.load(c + low, mask=ok).to(tl.float32), tl.load(c + low + D // 2, mask=ok).to(tl.float32)
    tl.store(x + low, (a0 * c_ + a1 * s_).to(tl.bfloat16), mask=ok)
    tl.store(x + low + D // 2, (a1 * c_ - a0 * s_).to(tl.bfloat16), mask=ok)
    tl.store(y + low, (b0 * c_ + b1 * s_).to(tl.bfloat16), mask=ok)
    tl.store(y + low + D // 2, (b1 * c_ - b0 * s_).to(tl.bfloat16), mask=ok)
    tl.store(z + low, (c0 * c_ + c1 * s_).to(tl.bfloat16), mask=ok)
    tl.store(z + low + D // 2, (c1 * c_ - c0 * s_).to(tl.bfloat16), mask=ok)


def turned(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


def turned_back(dq, dk, dv, cos, sin):
    return tuple(turned(x, cos, -sin) for x in (dq, dk, dv))


def normal(*shape):
    return torch.randn(*shape, device="cuda").to(BF)


class Case:
    """contenders: name -> call(set), which leaves its results in out[name]; check(results): decibels. against: name -> what tlx's time is divided by, or divides."""

    sets = 2

    def __init__(self):
        self.out, self.contenders, self.unchecked = {}, {}, set()

    def add(self, name, function, checked=True):
        def call(s):
            self.out[name] = function(s)
        self.contenders[name] = call
        if not checked:
            self.unchecked.add(name)


def decibels(got, expected):
    return tlx_block_attention.decibels(got, expected)


def worst_of(got, expected):
    if not all(bool(torch.isfinite(t).all()) for t in got):
        return float("-inf")
    return min(decibels(g, e) for g, e in zip(got, expected))


def gradients_of(function, inputs, do, s):
    """For a peer with autograd: its backward pass alone, on the stream that its forward pass ran on."""
    held = {}

    def call(at):
        key = (at, torch.cuda.current_stream().cuda_stream)
        if key not in held:
            assert not torch.cuda.is_current_stream_capturing()
            leaves = [t.detach().requires_grad_() for t in inputs[at]]
            held[key] = (function(at, *leaves), leaves)
        o, leaves = held[key]
        return torch.autograd.grad(o, leaves, do[at], retain_graph=True)
    return call


def jagged_set():
    g = random.Random(7)
    lengths = [g.randint(1, 1024) for _ in range(1152)]
    bounds = [0]
    for n in lengths:
        bounds.append(bounds[-1] + n)
    return bounds


def cut(bounds, block):
    return [(a, min(a + block, high)) for low, high in zip(bounds, bounds[1:]) for a in range(low, high, block)]


def streaming(case, arrays, backward, elements):
    kernel = stream43 if backward else stream31
    for block, warps, keep in ((1024, 4, False), (2048, 8, False), (2048, 8, True), (4096, 8, True), (4096, 16, False)):
        case.add(f"stream {block}x{warps}{' keep' if keep else ''}", lambda s, block=block, warps=warps, keep=keep: kernel[(triton.cdiv(elements, block),)](*arrays[s], elements, BLOCK=block, KEEP=keep, num_warps=warps), False)


def block_case(tlx, block, d, backward, equal, asked, rotary=None):
    """rotary: None, "halves" or "interleaved"."""
    case, heads = Case(), 16 if equal else 4
    if equal:
        tokens = 8 * (8192 if d == 64 else 4096)
        bounds = list(range(0, tokens + 1, block * 4))
    else:
        bounds = jagged_set()
        tokens = bounds[-1]
    scale, blocks = d**-0.5, cut(bounds, block)
    offsets = torch.tensor(bounds, device="cuda", dtype=torch.int32)
    recut = torch.tensor([a for a, _ in blocks] + [tokens], device="cuda", dtype=torch.int32)
    inputs = [[normal(tokens, heads, d) for _ in range(3)] for _ in range(case.sets)]
    do = [normal(tokens, heads, d) for _ in range(case.sets)] if backward else None
    spare = [[torch.empty_like(inputs[0][0]) for _ in range(3 if backward else 1)] for _ in range(case.sets)]
    moved = (14 if backward else 8) * tokens * heads * d
    elements = tokens * heads * d // 2
    streaming(case, [[t.view(torch.int32) for t in (*inputs[s], *([do[s]] if backward else []), *spare[s])] for s in range(case.sets)], backward, elements)

    positions = torch.cat([torch.arange(b - a, device="cuda") for a, b in zip(bounds, bounds[1:])])
    longest = max(b - a for a, b in zip(bounds, bounds[1:]))
    angles = torch.arange(longest, device="cuda", dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(d // 2, device="cuda", dtype=torch.float64) / (d // 2))
    cos, sin = angles.cos().float(), angles.sin().float()
    how = {} if rotary is None else {"cos": cos, "sin": sin, "interleaved": rotary.startswith("interleaved"), "values": rotary.endswith("values")}
    if rotary and rotary.endswith("applied"):
        how["applied"] = True

    def tlx_call(operators, how):
        if not backward:
            return lambda s: (operators(*inputs[s], offsets, block, scale, **how),)
        return lambda s: operators.backward(*inputs[s], do[s], offsets, block, scale, **how)
    for name, operators in tlx.items():
        case.add(name, tlx_call(operators.block, how))

    if rotary:
        case.add("without rotary", tlx_call(tlx["tlx"].block, {}), False)
        if backward:
            def pair(s, turn):
                dq, dk, dv = tlx["tlx"].block.backward(*inputs[s], do[s], offsets, block, scale)
                return turn(dq, dk, dv, s)

            def roofline(dq, dk, dv, s):
                rows = 8192 // d
                turn_back[(triton.cdiv(tokens * heads, rows),)](dq, dk, dv, *spare[s], positions, cos, sin, tokens, heads, D=d, ROWS=rows, num_warps=8)
            case.add("own backward + rotary kernel", lambda s: pair(s, roofline), False)
            compiled = torch.compile(turned_back, dynamic=False)
            c, n = cos[positions][:, None], sin[positions][:, None]
            case.add("own backward + Inductor's rotary", lambda s: pair(s, lambda dq, dk, dv, s: compiled(dq, dk, dv, c, n)), False)
    else:
        for rows, warps in ((64, 4), (64, 8), (128, 8)) if block == 256 else ((block, 4), (block, 8)):
            if backward and block == 256:
                continue  # the whole block in one program is more than an SM holds
            parts = [(a, b, r) for a, b in blocks for r in range(a, b, rows)]
            tiles = torch.tensor(parts, device="cuda", dtype=torch.int32)

            def plain(s, tiles=tiles, rows=rows, warps=warps):
                if backward:
                    dq, dk, dv = (torch.empty_like(inputs[s][0]) for _ in range(3))
                    plain_backward[(heads, len(tiles))](*inputs[s], do[s], dq, dk, dv, tiles, scale, heads, D=d, ROWS=rows, BLOCK=block, num_warps=warps)
                    return dq, dk, dv
                o = torch.empty_like(inputs[s][0])
                plain_forward[(heads, len(tiles))](*inputs[s], o, tiles, scale, heads, D=d, ROWS=rows, BLOCK=block, num_warps=warps)
                return (o,)
            case.add(f"triton {rows} rows {warps} warps", plain)
        if block > 64:
            peers = {}
            try:
                from flash_attn import flash_attn_varlen_func
                peers["fa2 varlen"] = lambda s, q, k, v: flash_attn_varlen_func(q, k, v, recut, recut, block, block, softmax_scale=scale)
            except ImportError:
                from torch.nn.attention.varlen import varlen_attn
                peers["fa2 varlen"] = lambda s, q, k, v: varlen_attn(q, k, v, recut, recut, block, block)
            if equal:
                batch = lambda t: t.view(-1, block, heads, d).transpose(1, 2)
                back = lambda t: t.transpose(1, 2).reshape(tokens, heads, d)

                def sdpa(backend):
                    def run(s, q, k, v):
                        with sdpa_kernel(backend):
                            return back(F.scaled_dot_product_attention(batch(q), batch(k), batch(v)))
                    return run
                peers["cudnn"] = sdpa(SDPBackend.CUDNN_ATTENTION)
                peers["fa2"] = sdpa(SDPBackend.FLASH_ATTENTION)
                if re.search(asked.flex, "flex"):
                    from torch.nn.attention.flex_attention import flex_attention
                    torch._dynamo.reset()
                    flex = torch.compile(flex_attention, dynamic=False)
                    peers["flex"] = lambda s, q, k, v: back(flex(batch(q), batch(k), batch(v)))
            for name, function in peers.items():
                if backward:
                    case.add(name, gradients_of(function, inputs, do, name))
                else:
                    case.add(name, lambda s, function=function: (function(s, *inputs[s]),))

    def check(results):
        picked = random.sample(range(len(blocks)), min(48, len(blocks)))
        rows = torch.cat([torch.arange(*blocks[i]) for i in picked]).cuda()
        parts = []
        for i in picked:
            a, b = blocks[i]
            leaves = [t[a:b].double().requires_grad_() for t in inputs[0]]
            x, y, z = leaves
            if rotary:
                c, n = (t[positions[a:b]][:, None].double() for t in (cos, sin))
            if rotary and "applied" not in how:

                def turn(t):
                    e, f = (t[..., 0::2], t[..., 1::2]) if how["interleaved"] else t.chunk(2, -1)
                    pair = e * c - f * n, f * c + e * n
                    return torch.stack(pair, -1).flatten(-2) if how["interleaved"] else torch.cat(pair, -1)
                x, y, z = turn(x), turn(y), turn(z) if how["values"] else z
            elif rotary:  # they came rotated; what is wanted are the gradients of what they were before
                leaves = [torch.cat((t[..., : d // 2] * c + t[..., d // 2 :] * n, t[..., d // 2 :] * c - t[..., : d // 2] * n), -1).detach().requires_grad_() for t in leaves[:2]] + leaves[2:]
                x, y = (torch.cat((t[..., : d // 2] * c - t[..., d // 2 :] * n, t[..., d // 2 :] * c + t[..., : d // 2] * n), -1) for t in leaves[:2])
            p = torch.softmax(torch.einsum("ihd,jhd->hij", x, y) * scale, 2)
            o = torch.einsum("hij,jhd->ihd", p, z)
            if backward:
                o.backward(do[0][a:b].double())
                parts.append([t.grad for t in leaves])
            else:
                parts.append([o.detach()])
        expected = [torch.cat(t) for t in zip(*parts)]
        if not all(bool(torch.isfinite(t).all()) for t in results):
            return float("-inf")
        return min(decibels(r[rows], e) for r, e in zip(results, expected))
    case.check, case.moved = check, moved
    return case


def full_case(tlx, batch, heads, length, d, causal, backward):
    case, scale = Case(), d**-0.5
    inputs = [[normal(batch, length, heads, d) for _ in range(3)] for _ in range(case.sets)]
    do = [normal(batch, length, heads, d) for _ in range(case.sets)]
    right = 0 if causal else -1
    for name, operators in tlx.items():
        if backward:
            try:
                done = [operators.flash(*inputs[s], scale, -1, right) for s in range(case.sets)]
            except ValueError:  # another build may lack this kernel
                continue
            for word, any_order in ((name, False), (f"{name} any order", True)):
                case.add(word, lambda s, operators=operators, done=done, any_order=any_order: operators.flash.backward(*inputs[s], done[s][0], do[s], done[s][1], scale, -1, right, any_order=any_order))
        else:
            case.add(name, lambda s, operators=operators: (operators.flash(*inputs[s], scale, -1, right)[0],))

    def sdpa(backend):
        def run(s, q, k, v):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=causal).transpose(1, 2)
        return run
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("fa2", SDPBackend.FLASH_ATTENTION)):
        if backward:
            case.add(name, gradients_of(sdpa(backend), inputs, do, name))
        else:
            case.add(name, lambda s, function=sdpa(backend): (function(s, *inputs[s]),))

    def check(results):
        leaves = [t[:1, :, :1].double().requires_grad_() for t in inputs[0]]
        s = torch.einsum("bihd,bjhd->bhij", *leaves[:2]) * scale
        if causal:
            s = s.masked_fill(torch.ones(length, length, dtype=torch.bool, device="cuda").triu(1), float("-inf"))
        o = torch.einsum("bhij,bjhd->bihd", torch.softmax(s, 3), leaves[2])
        if backward:
            o.backward(do[0][:1, :, :1].double())
            return worst_of([t[:1, :, :1] for t in results], [t.grad for t in leaves])
        return worst_of([results[0][:1, :, :1]], [o.detach()])
    case.check = check
    case.flops = (10 if backward else 4) * batch * heads * length * length * d / (2 if causal else 1)
    return case


class Operators:
    def __init__(self, library, folder, namespace):
        kernels = tlx_block_attention.Kernels(library, folder)
        self.block, self.flash = tlx_block_attention.define(kernels, namespace), tlx_flash_attention.define(kernels, namespace)


def cases(tlx, asked):
    all_of = []
    passes = (("forward", False), ("backward", True))
    for block in (64, 128, 256):
        for d in (64, 128):
            for word, backward in passes:
                all_of.append((f"block{block}_d{d}_{word}", lambda block=block, d=d, backward=backward: block_case(tlx, block, d, backward, False, asked)))
                if block > 64:
                    all_of.append((f"equal_block{block}_d{d}_{word}", lambda block=block, d=d, backward=backward: block_case(tlx, block, d, backward, True, asked)))
    for d in (64, 128):
        for word, backward in passes:
            for rotary in ("halves", "interleaved", "interleaved_values") + (("halves_applied",) if backward else ()):
                all_of.append((f"rotary_{rotary}_d{d}_{word}", lambda d=d, backward=backward, rotary=rotary: block_case(tlx, 64, d, backward, False, asked, rotary)))
    for d, shapes in ((128, ((4, 16, 4096), (1, 16, 16384), (32, 16, 512))), (64, ((4, 32, 4096),))):
        for batch, heads, length in shapes:
            for word, backward in passes:
                for causal in (False, True):
                    all_of.append((f"{'causal' if causal else 'full'}_{length}_d{d}_{word}", lambda batch=batch, heads=heads, length=length, d=d, causal=causal, backward=backward: full_case(tlx, batch, heads, length, d, causal, backward)))
    return all_of


def main():
    words = argparse.ArgumentParser()
    words.add_argument("library")
    words.add_argument("kernels")
    words.add_argument("--beside", action="append", default=[], help="kernels of another build, as one more contender; may be repeated")
    words.add_argument("--filter", default=".")
    words.add_argument("--rounds", type=int, default=15)
    words.add_argument("--flex", default="flex", help="an expression that does not match leaves FlexAttention out: compiling takes seconds")
    words.add_argument("--seconds", type=float, default=1e9, help="start no case after so many")
    words.add_argument("--json")
    asked = words.parse_args()
    started = time.time()
    torch.manual_seed(1)
    random.seed(1)
    tlx = {"tlx": Operators(asked.library, asked.kernels, "tlx")}
    for i, folder in enumerate(asked.beside):
        tlx[f"tlx {folder}"] = Operators(asked.library, folder, f"tlx_beside_{i}")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, Triton {triton.__version__}; ms", flush=True)
    result, bad = {}, 0
    for name, make in cases(tlx, asked):
        if not re.search(asked.filter, name):
            continue
        if time.time() - started > asked.seconds:
            print(f"{name}: no time left")
            continue
        case, wrong, failed = None, {}, {}
        try:
            case = make()
            for who in list(case.contenders):
                try:
                    case.contenders[who](0)
                    torch.cuda.synchronize()
                    if who not in case.unchecked:
                        found = case.check(case.out[who])
                        if not found >= 45:
                            wrong[who] = found
                except Exception as problem:
                    if not (who.startswith("tlx ") and isinstance(problem, ValueError)):  # another build may lack this kernel
                        failed[who] = f"{type(problem).__name__}: {str(problem)[:200]}"
                    del case.contenders[who]
                case.out.pop(who, None)
            times, more = interleaved(case.contenders, case.sets, asked.rounds)
            failed.update(more)
        except Exception as problem:
            print(f"{name}: {type(problem).__name__}: {str(problem)[:300]}", flush=True)
            bad += 1
            if "CUDA error" in str(problem):
                break
            continue
        finally:
            if case is not None:
                case.out.clear()
            held = case
            case = None
        mine = times.get("tlx", math.nan)
        streams = [t for n, t in times.items() if n.startswith("stream")]
        peers = {n: t for n, t in times.items() if not n.startswith(("tlx", "stream", "without", "own"))}
        line = f"{name}: tlx {mine:.4f}"
        row = {"ms": times, "wrong": wrong, "failed": failed}
        if streams:
            row["share_of_roof"] = min(streams) / mine
            line += f", {held.moved / mine / 1e6:.0f} GB/s, {row['share_of_roof']:.3f} of streaming"
        if hasattr(held, "flops"):
            line += f", {held.flops / mine / 1e9:.0f} TFLOP/s"
        if "without rotary" in times:
            row["of_plain"] = mine / times["without rotary"]
            line += f", {row['of_plain']:.3f} of the time without rotary"
        for n in times:
            if n.startswith(("own", "tlx ")):
                line += f"; {n} {times[n]:.4f} ({times[n] / mine:.3f})"
        for kind in ("triton", "fa2", "cudnn", "flex"):
            some = [t for n, t in peers.items() if n.startswith(kind)]
            if some:
                row[kind] = min(some) / mine
                if "tlx any order" in times:
                    row[f"{kind}_any_order"] = min(some) / times["tlx any order"]
                line += f"; {kind} {min(some):.4f} ({row[kind]:.3f})"
                if f"{kind}_any_order" in row:
                    line += f" (any order {row[f'{kind}_any_order']:.3f})"
        if peers:
            row["best_peer"] = min(peers.values()) / mine
            line += f"; best peer {row['best_peer']:.3f}"
        print(line + (f"; WRONG: {wrong}" if wrong else "") + (f"; FAILED: {failed}" if failed else ""), flush=True)
        result[name] = row
        bad += bool(wrong) or "tlx" in failed
        held = None
        torch.cuda.empty_cache()
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(result, file, indent=1)
    return 1 if bad or not result else 0


if __name__ == "__main__":
    sys.exit(main())
