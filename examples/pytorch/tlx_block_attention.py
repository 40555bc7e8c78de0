"""Block attention as PyTorch operators with autograd: each block of 64, 128 or 256 tokens of jagged sequences attends inside itself. On the caller's stream,
without copies. Only the C interface is used (tlx/c.h), so nothing is compiled against this PyTorch, or any other.

  tlxc build --arch sm_90a --out KERNELS --kernels 'block_attention.*'
  python3 tlx_block_attention.py LIBTLX_C.so KERNELS      checks it: against torch in float64, on another stream, in a CUDA graph

In a program of your own:

  attention = define(Kernels("libtlx_c.so", "KERNELS"))
  o = attention(q, k, v, offsets, 64, 0.125)              # (token, head, D); offsets: batch + 1 int32 token numbers on the device
  o = attention(q, k, v, offsets, 64, 0.125, cos, sin)    # q and k are rotated on their way; float32 tables (position in the sequence, D / 2)
"""
import ctypes
import math
import os
import sys
from typing import Optional

import torch


class Value(ctypes.Structure):  # tlx_value
    _fields_ = [("address", ctypes.c_uint64), ("rank", ctypes.c_int32), ("extents", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("scalar", ctypes.c_void_p), ("scalar_bytes", ctypes.c_size_t)]


class Kernels:
    """A folder of `tlxc build`, its kernels loaded when they are first wanted, once a device."""

    def __init__(self, library, folder):
        self.tlx, self.folder, self.machines, self.loaded = ctypes.CDLL(library), folder, {}, {}
        self.tlx.tlx_last_error.restype = ctypes.c_char_p
        self.tlx.tlx_load.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]
        self.tlx.tlx_launch.argtypes = [ctypes.c_void_p, ctypes.POINTER(Value), ctypes.c_size_t, ctypes.c_uint64]

    def call(self, name, *arguments):
        if getattr(self.tlx, name)(*arguments) != 0:
            raise RuntimeError(self.tlx.tlx_last_error().decode())

    def kernel(self, device, name):
        if (device, name) not in self.loaded:
            if device not in self.machines:
                torch.cuda.init()  # the primary context of PyTorch is the one that tlx uses
                machine = ctypes.c_void_p()
                self.call("tlx_open", f"gpu:{device}".encode(), ctypes.byref(machine))
                self.machines[device] = machine
            major, minor = torch.cuda.get_device_capability(device)
            path = os.path.join(self.folder, f"{name}.sm_{major}{minor}a")
            if not os.path.exists(path + ".cubin"):
                raise ValueError(f"there is no {path}.cubin: block attention has no kernel for these extents and types, or it was not built for this GPU")
            manifest, code, kernel = open(path + ".json", "rb").read(), open(path + ".cubin", "rb").read(), ctypes.c_void_p()
            self.call("tlx_load", self.machines[device], manifest, len(manifest), code, len(code), ctypes.byref(kernel))
            self.loaded[device, name] = kernel
        return self.loaded[device, name]

    def launch(self, name, tensors, scalars):
        device = tensors[0].device.index
        values, held = (Value * (len(tensors) + len(scalars)))(), []
        for value, t in zip(values, tensors):
            if not t.is_cuda or t.device.index != device:
                raise ValueError(f"{name}: all tensors lie on one GPU")
            sizes = ctypes.c_int64 * t.dim()
            value.address, value.rank, value.extents, value.strides = t.data_ptr(), t.dim(), sizes(*t.shape), sizes(*t.stride())
        for i, x in enumerate(scalars, len(tensors)):
            held.append(ctypes.c_int32(x) if isinstance(x, int) else ctypes.c_float(x))
            values[i].scalar, values[i].scalar_bytes = ctypes.addressof(held[-1]), 4
        self.call("tlx_launch", self.kernel(device, name), values, len(values), torch.cuda.current_stream(device).cuda_stream)


def name_of(q, k, block, backward, causal, rotary, interleaved, values, applied=False):
    types = {torch.bfloat16: "bf16", torch.float16: "f16"}
    if q.dtype not in types:
        raise ValueError(f"block attention works on bfloat16 and float16, not {q.dtype}")
    turned = f"_rotary{'_interleaved' if interleaved else ''}{'_values' if values else ''}{'_applied' if applied else ''}" if rotary else ""
    return (f"block_attention_{'backward_' if backward else ''}{types[q.dtype]}{'' if block == 64 else f'_b{block}'}_d{q.shape[2]}{'_causal' if causal else ''}{turned}"
            f"{'_grouped' if k.shape[1] != q.shape[1] else ''}")


def check(q, k, v, offsets, cos, sin):
    if q.dim() != 3 or k.dim() != 3 or k.shape != v.shape or q.shape[0] != k.shape[0] or q.shape[2] != k.shape[2] or q.dtype != k.dtype or q.dtype != v.dtype:
        raise ValueError("q, k and v are (token, head, D) of one type, k and v of one shape; q may have a multiple of their heads")
    if q.shape[1] % k.shape[1]:
        raise ValueError(f"{q.shape[1]} heads of q for {k.shape[1]} of k and v: each serves as many")
    if offsets.dtype != torch.int32 or offsets.dim() != 1:
        raise ValueError("offsets are int32 token numbers, batch + 1 of them; beyond 2^31 tokens, divide the batch")
    for table in (cos, sin):
        if (cos is None) != (sin is None) or table is not None and (table.dtype != torch.float32 or table.dim() != 2 or table.shape[1] * 2 != q.shape[2]):
            raise ValueError("cos and sin are both there or not, float32 (position in the sequence, D / 2)")


def define(kernels, namespace="tlx"):
    """The operator o = attention(q, k, v, offsets, block, scale); its gradients come from one kernel that reads q, k, v and do only. With tables, pairs of columns are
    turned: i and i + D / 2, or 2i and 2i + 1 (interleaved), of q and k, and of v too (values); gradients are those of what came in. applied, attention.backward only: q and k
    come as they were after the rotation, gradients are those of what they were before."""
    log2e = 1.4426950408889634

    @torch.library.custom_op(f"{namespace}::block_attention", mutates_args=(), device_types="cuda")
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, offsets: torch.Tensor, block: int, scale: float, cos: Optional[torch.Tensor] = None,
                  sin: Optional[torch.Tensor] = None, interleaved: bool = False, values: bool = False, causal: bool = False) -> torch.Tensor:
        check(q, k, v, offsets, cos, sin)
        o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        if q.numel() and offsets.numel() > 1:
            tables = () if cos is None else (cos, sin)
            kernels.launch(name_of(q, k, block, False, causal, tables, interleaved, values), (q, k, v, o, offsets, *tables), (scale * log2e,))
        return o

    @attention.register_fake
    def _(q, k, v, offsets, block, scale, cos=None, sin=None, interleaved=False, values=False, causal=False):
        return torch.empty(q.shape, dtype=q.dtype, device=q.device)

    @torch.library.custom_op(f"{namespace}::block_attention_backward", mutates_args=(), device_types="cuda")
    def backward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, offsets: torch.Tensor, block: int, scale: float, cos: Optional[torch.Tensor] = None,
                 sin: Optional[torch.Tensor] = None, interleaved: bool = False, values: bool = False, causal: bool = False,
                 applied: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        dq, dk, dv = (torch.empty(t.shape, dtype=q.dtype, device=q.device) for t in (q, k, v))
        if q.numel() and offsets.numel() > 1:
            tables = () if cos is None else (cos, sin)
            kernels.launch(name_of(q, k, block, True, causal, tables, interleaved, values, applied), (q, k, v, do, dq, dk, dv, offsets, *tables), (scale, scale * log2e))
        return dq, dk, dv

    @backward.register_fake
    def _(q, k, v, do, offsets, block, scale, cos=None, sin=None, interleaved=False, values=False, causal=False, applied=False):
        return tuple(torch.empty(t.shape, dtype=q.dtype, device=q.device) for t in (q, k, v))

    def keep(ctx, inputs, output):
        q, k, v, offsets, ctx.block, ctx.scale, cos, sin, *ctx.how = inputs
        ctx.save_for_backward(q, k, v, offsets, cos, sin)  # neither o nor a row statistic

    def gradients(ctx, do):
        q, k, v, offsets, cos, sin = ctx.saved_tensors
        if do.stride(2) != 1:  # a gradient that autograd has expanded, say
            do = do.contiguous()
        return (*backward(q, k, v, do, offsets, ctx.block, ctx.scale, cos, sin, *ctx.how), *[None] * 8)

    attention.register_autograd(gradients, setup_context=keep)
    attention.backward = backward  # for who wants the gradients alone
    return attention


def turned(x, offsets, cos, sin, interleaved):
    """x with its pairs of columns turned by the angles of each token's position in its sequence."""
    bounds = offsets.tolist()
    positions = torch.cat([torch.arange(high - low, device=x.device) for low, high in zip(bounds, bounds[1:])])
    c, s = (table.to(x.dtype)[positions][:, None] for table in (cos, sin))
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    parts = a * c - b * s, b * c + a * s
    return torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)


def reference(q, k, v, offsets, block, scale):
    """The same with plain operations, in the type of its inputs, for as many heads of k and v as of q."""
    o = torch.zeros_like(q)
    bounds = offsets.tolist()
    for low, high in zip(bounds, bounds[1:]):
        for a in range(low, high, block):
            b = min(a + block, high)
            x, y, z = (t[a:b].transpose(0, 1) for t in (q, k, v))
            o[a:b] = (torch.softmax(x @ y.transpose(1, 2) * scale, 2) @ z).transpose(0, 1)
    return o


def decibels(got, expected):
    return -10 * math.log10(float(((got.double() - expected) ** 2).sum() / (expected**2).sum()))


def main(library, folder):
    if not torch.cuda.is_available():
        print("needs a GPU")
        return 77
    attention = define(Kernels(library, folder))
    results = {}
    lengths = [0, 1, 63, 64, 65, 200, 0, 129]
    offsets = torch.tensor([0] + [sum(lengths[: i + 1]) for i in range(len(lengths))], device="cuda", dtype=torch.int32)
    tokens = sum(lengths)
    for dtype, block, d in ((torch.bfloat16, 64, 64), (torch.bfloat16, 64, 128), (torch.float16, 64, 64), (torch.bfloat16, 128, 128), (torch.bfloat16, 64, 96), (torch.bfloat16, 256, 64)):
        scale = d**-0.5
        # slices of one projection: (token, 3, head, D), so rows are further apart than they are long
        q, k, v = torch.randn(tokens, 3, 4, d, device="cuda").to(dtype).unbind(1)
        inputs = [t.detach().requires_grad_() for t in (q, k, v)]
        do = torch.randn(tokens, 4, d, device="cuda").to(dtype)
        o = attention(*inputs, offsets, block, scale)
        o.backward(do)
        wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
        expected = reference(*wide, offsets, block, scale)
        expected.backward(do.double())
        worst = min([decibels(o.detach(), expected.detach())] + [decibels(t.grad, w.grad) for t, w in zip(inputs, wide)])
        results[f"{dtype} blocks of {block}, D {d}: o, dq, dk, dv, worst {worst:.1f} dB"] = worst >= 45
    angles = torch.arange(max(lengths), device="cuda")[:, None] * 10000.0 ** (-torch.arange(32, device="cuda") / 32)
    cos, sin = angles.cos(), angles.sin()
    for interleaved, values in ((False, False), (True, False), (True, True)):
        q, k, v, do = (torch.randn(tokens, 4, 64, device="cuda").bfloat16() for _ in range(4))
        inputs = [t.detach().requires_grad_() for t in (q, k, v)]
        o = attention(*inputs, offsets, 64, 0.125, cos, sin, interleaved, values)
        o.backward(do)
        wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
        x, y = (turned(t, offsets, cos, sin, interleaved) for t in wide[:2])
        expected = reference(x, y, turned(wide[2], offsets, cos, sin, interleaved) if values else wide[2], offsets, 64, 0.125)
        expected.backward(do.double())
        worst = min([decibels(o.detach(), expected.detach())] + [decibels(t.grad, w.grad) for t, w in zip(inputs, wide)])
        results[f"rotary{', neighbours' if interleaved else ', halves'}{', v too' if values else ''}: o, dq, dk, dv, worst {worst:.1f} dB"] = worst >= 45
    q, k, v = (torch.randn(tokens, 4, 64, device="cuda").bfloat16() for _ in range(3))
    here = attention(q, k, v, offsets, 64, 0.125)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        there = attention(q, k, v, offsets, 64, 0.125)
    torch.cuda.current_stream().wait_stream(side)
    results["another stream"] = torch.equal(here, there)
    graph, still = torch.cuda.CUDAGraph(), q.clone()
    with torch.cuda.graph(graph):
        captured = attention(still, k, v, offsets, 64, 0.125)
    still.copy_(-q)
    graph.replay()
    results["CUDA graph"] = torch.equal(captured, attention(-q, k, v, offsets, 64, 0.125))
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    leaves = [t.detach().requires_grad_() for t in (q, k, v)]
    o = attention(*leaves, offsets, 64, 0.125)
    o.backward(here)
    # o, dq, dk, dv; no row statistics, no copies
    results["memory: the results and nothing else"] = torch.cuda.max_memory_allocated() - before <= 4 * q.numel() * 2 + 4 * 512
    try:
        torch.library.opcheck(attention, (*(t.detach().requires_grad_() for t in (q, k, v)), offsets, 64, 0.125), test_utils=("test_schema", "test_faketensor"))
        results["opcheck"] = True
    except Exception as problem:
        results[f"opcheck: {str(problem).splitlines()[0]}"] = False
    for what, right in results.items():
        print(f"{what}: {'right' if right else 'WRONG'}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
