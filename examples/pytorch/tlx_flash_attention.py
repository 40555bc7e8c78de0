"""Attention over any number of keys as PyTorch operators with autograd: full, causal, in a window, jagged, heads of q that share heads of k and v. On the caller's
stream, without copies. Only the C interface is used (tlx/c.h), so nothing is compiled against this PyTorch, or any other.

  tlxc build --arch sm_90a --out KERNELS --kernels 'flash_attention.*'
  python3 tlx_flash_attention.py LIBTLX_C.so KERNELS      checks it: against torch in float64, on another stream, in a CUDA graph

In a program of your own:

  attention = define(Kernels("libtlx_c.so", "KERNELS"))
  o, lse = attention(q, k, v, 0.088, right=0)             # causal; (batch, token, head, D), any strides of whole 16 bytes
  o, lse = attention(q, k, v, 0.088, q_offsets=offsets, k_offsets=offsets)  # (token, head, D), sequences one after the other
"""
import sys
from typing import Optional

import torch

from tlx_block_attention import Kernels, decibels

LOG2E = 1.4426950408889634
SECTION_BYTES = 24 << 20  # keys and values of the heads that are worked on together: half of L2


def define(kernels, namespace="tlx"):
    """The operator (o, lse) = attention(q, k, v, scale, left, right, q_offsets, k_offsets). Query i of Sq stands at key i + Sk - Sq; it sees at most `left` keys
    before that place and `right` after it, below 0 all. lse: float32 (batch, head, token), or (head, token): has no gradient."""

    def name_of(q, step, left, right, jagged):
        types = {torch.bfloat16: "bf16", torch.float16: "f16"}
        if q.dtype not in types:
            raise ValueError(f"attention works on bfloat16 and float16, not {q.dtype}")
        masks = "" if step in ("_delta", "_prepare", "_finish") else f"{'_left' if left >= 0 else ''}{'_right' if right >= 0 else ''}"
        return f"flash_attention{step}_{types[q.dtype]}_d{q.shape[-1]}{'_jagged' if jagged else ''}{masks}"

    def check(q, k, v, q_offsets, k_offsets):
        rank = 4 if q_offsets is None else 3
        if q.dim() != rank or k.dim() != rank or k.shape != v.shape or q.shape[-1] != k.shape[-1] or q.dtype != k.dtype or q.dtype != v.dtype or rank == 4 and q.shape[0] != k.shape[0]:
            raise ValueError("q, k and v are (batch, token, head, D), with offsets (token, head, D), of one type; k and v of one shape")
        if q.shape[-2] % k.shape[-2]:
            raise ValueError(f"{q.shape[-2]} heads of q for {k.shape[-2]} of k and v: each serves as many")
        if (q_offsets is None) != (k_offsets is None):
            raise ValueError("offsets of queries and of keys go together; they may be the same tensor")
        for offsets in (q_offsets, k_offsets):
            if offsets is not None and (offsets.dtype != torch.int32 or offsets.dim() != 1):
                raise ValueError("offsets are int32 token numbers, batch + 1 of them; beyond 2^31 tokens, divide the batch")
        if q.numel() and not k.numel():
            raise ValueError("no keys at all: the result is zeros")

    def rest(q, k, scale, left, right, q_offsets, k_offsets, backward):
        """What is the same at the end of all kernels' arguments: (tensors, numbers)."""
        tensors = (torch.empty(0, dtype=torch.float32, device=q.device),) + (() if q_offsets is None else (q_offsets, k_offsets))
        bound = lambda keys: min(max(keys, 0), 1 << 30)
        numbers = (scale, scale * LOG2E) + ((scale,) if backward else ()) + (bound(left), bound(right))
        if q_offsets is None:
            head_bytes = max(1, k.shape[1] * k.shape[3] * 4 // (q.shape[2] // k.shape[2]))
            heads = max(1, q.shape[0] * q.shape[2])  # of tiles of all lengths, the longest of all heads come first
            numbers += (heads if right >= 0 > left else min(max(SECTION_BYTES // head_bytes, 1), heads),)
        return tensors, numbers

    def rows(q):
        return (q.shape[0], q.shape[2], q.shape[1]) if q.dim() == 4 else (q.shape[1], q.shape[0])

    @torch.library.custom_op(f"{namespace}::flash_attention", mutates_args=(), device_types="cuda")
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, left: int = -1, right: int = -1, q_offsets: Optional[torch.Tensor] = None,
                  k_offsets: Optional[torch.Tensor] = None, any_order: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        check(q, k, v, q_offsets, k_offsets)
        o, lse = torch.empty(q.shape, dtype=q.dtype, device=q.device), torch.empty(rows(q), dtype=torch.float32, device=q.device)
        if q.numel():
            tensors, numbers = rest(q, k, scale, left, right, q_offsets, k_offsets, False)
            kernels.launch(name_of(q, "", left, right, q_offsets is not None), (q, k, v, o, lse, *tensors), numbers)
        return o, lse

    @attention.register_fake
    def _(q, k, v, scale, left=-1, right=-1, q_offsets=None, k_offsets=None, any_order=False):
        return torch.empty(q.shape, dtype=q.dtype, device=q.device), torch.empty(rows(q), dtype=torch.float32, device=q.device)

    @torch.library.custom_op(f"{namespace}::flash_attention_backward", mutates_args=(), device_types="cuda")
    def backward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, do: torch.Tensor, lse: torch.Tensor, scale: float, left: int = -1, right: int = -1,
                 q_offsets: Optional[torch.Tensor] = None, k_offsets: Optional[torch.Tensor] = None, any_order: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        dq, dk, dv = (torch.empty(t.shape, dtype=q.dtype, device=q.device) for t in (q, k, v))
        if not q.numel():
            return dq, dk.zero_(), dv.zero_()
        tensors, numbers = rest(q, k, scale, left, right, q_offsets, k_offsets, True)
        if any_order:
            if q_offsets is not None or q.shape[3] != 128:
                raise ValueError("any_order is there for D = 128 without offsets")
            padded = (*rows(q)[:2], -(-q.shape[1] // 64) * 64)
            level, delta = (torch.empty(padded, dtype=torch.float32, device=q.device) for _ in range(2))
            sums = torch.empty((*padded[:2], 128, padded[2]), dtype=torch.float32, device=q.device)
            for step in ("_prepare", "_walk", "_finish"):
                kernels.launch(name_of(q, step, left, right, False), (q, k, v, o, do, lse, level, delta, sums, dq, dk, dv, *tensors), numbers)
            return dq, dk, dv
        delta = torch.empty(rows(q), dtype=torch.float32, device=q.device)
        for step in ("_delta", "_dkdv", "_dq"):
            kernels.launch(name_of(q, step, left, right, q_offsets is not None), (q, k, v, o, do, lse, delta, dq, dk, dv, *tensors), numbers)
        return dq, dk, dv

    @backward.register_fake
    def _(q, k, v, o, do, lse, scale, left=-1, right=-1, q_offsets=None, k_offsets=None, any_order=False):
        return tuple(torch.empty(t.shape, dtype=q.dtype, device=q.device) for t in (q, k, v))

    def keep(ctx, inputs, output):
        q, k, v, ctx.scale, ctx.left, ctx.right, q_offsets, k_offsets, ctx.any_order = inputs
        ctx.save_for_backward(q, k, v, *output, q_offsets, k_offsets)
        ctx.set_materialize_grads(False)

    def gradients(ctx, do, dlse):
        if dlse is not None:
            raise RuntimeError("lse has no gradient here")
        if do is None:
            return (None,) * 9
        q, k, v, o, lse, q_offsets, k_offsets = ctx.saved_tensors
        if do.stride(-1) != 1:  # a gradient that autograd has expanded, say
            do = do.contiguous()
        return (*backward(q, k, v, o, do, lse, ctx.scale, ctx.left, ctx.right, q_offsets, k_offsets, ctx.any_order), *[None] * 6)

    attention.register_autograd(gradients, setup_context=keep)
    attention.backward = backward  # for who wants the gradients alone
    return attention


def reference(q, k, v, scale, left=-1, right=-1):
    """The same with plain operations, in the type of its inputs: (batch, token, head, D)."""
    group = q.shape[2] // k.shape[2]
    k, v = (t.repeat_interleave(group, 2) for t in (k, v))
    s = torch.einsum("bihd,bjhd->bhij", q, k) * scale
    place = torch.arange(q.shape[1], device=q.device)[:, None] + k.shape[1] - q.shape[1]
    key = torch.arange(k.shape[1], device=q.device)[None]
    seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool, device=q.device)
    if right >= 0:
        seen &= key <= place + right
    if left >= 0:
        seen &= key >= place - left
    p = torch.nan_to_num(torch.softmax(s.masked_fill(~seen, float("-inf")), 3))  # a query that sees nothing gets zeros
    return torch.einsum("bhij,bjhd->bihd", p, v)


def main(library, folder):
    if not torch.cuda.is_available():
        print("needs a GPU")
        return 77
    attention = define(Kernels(library, folder))
    results = {}

    def normal(*shape, dtype=torch.bfloat16):
        return torch.randn(*shape, device="cuda").to(dtype)

    def compare(what, inputs, do, run, plain):
        leaves = [t.detach().requires_grad_() for t in inputs]
        o = run(*leaves)
        o.backward(do)
        wide = [t.detach().double().requires_grad_() for t in inputs]
        expected = plain(*wide)
        expected.backward(do.double())
        worst = min([decibels(o.detach(), expected.detach())] + [decibels(t.grad, w.grad) for t, w in zip(leaves, wide)])
        results[f"{what}: o, dq, dk, dv, worst {worst:.1f} dB"] = worst >= 45

    for d in (64, 128):
        for right in (-1, 0):
            for queries, keys in ((300, 300), (130, 515)):
                # slices of one projection: rows are further apart than they are long
                k, v = normal(2, keys, 2, 2, d).unbind(2)
                compare(f"D {d}, {queries} queries, {keys} keys{', causal' if right == 0 else ''}, two heads of q share one of k", (normal(2, queries, 4, d), k, v), normal(2, queries, 4, d),
                        lambda q, k, v: attention(q, k, v, d**-0.5, -1, right)[0], lambda q, k, v: reference(q, k, v, d**-0.5, -1, right))
    lengths = [5, 0, 300, 128, 1]
    bounds = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    offsets = torch.tensor(bounds, device="cuda", dtype=torch.int32)
    q, k, v, do = (normal(bounds[-1], 3, 128) for _ in range(4))
    compare("sequences of several lengths, causal", (q, k, v), do, lambda q, k, v: attention(q, k, v, 0.1, -1, 0, offsets, offsets)[0],
            lambda q, k, v: torch.cat([reference(q[None, a:b], k[None, a:b], v[None, a:b], 0.1, -1, 0)[0] for a, b in zip(bounds, bounds[1:]) if b > a]))
    q, k, v = (normal(1, 200, 4, 128) for _ in range(3))
    here = attention(q, k, v, 0.1)[0]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        there = attention(q, k, v, 0.1)[0]
    torch.cuda.current_stream().wait_stream(side)
    results["another stream"] = torch.equal(here, there)
    graph, still = torch.cuda.CUDAGraph(), q.clone()
    with torch.cuda.graph(graph):
        captured = attention(still, k, v, 0.1)[0]
    still.copy_(-q)
    graph.replay()
    results["CUDA graph"] = torch.equal(captured, attention(-q, k, v, 0.1)[0])
    try:
        torch.library.opcheck(attention, (*(t.detach().requires_grad_() for t in (q, k, v)), 0.1), test_utils=("test_schema", "test_faketensor"))
        results["opcheck"] = True
    except Exception as problem:
        results[f"opcheck: {str(problem).splitlines()[0]}"] = False
    for what, right in results.items():
        print(f"{what}: {'right' if right else 'WRONG'}")
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
