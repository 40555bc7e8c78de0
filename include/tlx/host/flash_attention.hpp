// Attention of any number of queries to any number of keys in one call: full, causal, in a window; sequences of one length or of any.
#pragma once
#include <cstdint>

#include "tlx/host/session.hpp"
#include "tlx/tile/element.hpp"

namespace tlx::host {

/// (batch, token, head, dimension) at `data`; strides in elements, 0: dense, in that order. The innermost stride is 1. Sequences one after the other: (token,
/// head, dimension), and no batch stride.
struct attended {
  device::address data = 0;
  std::int64_t batch_stride = 0, token_stride = 0, head_stride = 0;
};

struct flash_attention_problem {
  tile::element type = tile::element::bf16;  // bf16 or f16
  std::int64_t batch = 1;
  std::int64_t heads = 1;       // of q and o
  std::int64_t key_heads = 0;   // of k and v, a divisor of heads; 0: as many
  std::int64_t queries = 0;     // of each sequence; with offsets: of all together
  std::int64_t keys = 0;
  int dimension = 128;          // 64, 128
  device::address query_offsets = 0, key_offsets = 0;  // batch + 1 ascending int32 token numbers on the machine, for sequences of any lengths; 0: all are the same
  // Query i of Sq stands at key i + Sk - Sq of Sk. What it sees: at most `left` keys before that place and `right` after it; below 0: all of them.
  std::int64_t left = -1, right = -1;
  float scale = 0;              // of the scores, above 0; 0: 1 / sqrt(dimension)
  float soft_cap = 0;           // scores x become soft_cap * tanh(x / soft_cap); 0: they stay
  device::address slopes = 0;   // float32, one for each head: scores are lowered by slope * |distance| (ALiBi); 0: they are not
  bool sums_in_any_order = false;  // any_order()
  std::uint64_t stream = 0;

  /// The backward pass may add up dq in an order that changes from run to run, and with it the last bits: faster. For D = 128 without offsets. The forward pass does not change.
  flash_attention_problem& any_order() {
    sums_in_any_order = true;
    return *this;
  }
  /// Every query sees the keys up to its own place.
  flash_attention_problem& causal() {
    right = 0;
    return *this;
  }
};

/// o = softmax(scale * q k^T) v. lse: float32 (batch, head, query), with offsets (head, query): the natural logarithm of the sum of each row's exponentials,
/// for the backward pass; 0: it is not wanted. A query that sees no key gets zeros, and minus infinity.
/// Raises user_error: flash-attention-shape, flash-attention-type, flash-attention-heads, flash-attention-scores, flash-attention-offsets, and what bind raises.
void flash_attention(session& with, const attended& q, const attended& k, const attended& v, const attended& o, device::address lse, const flash_attention_problem& what);

/// dq, dk, dv of flash_attention() for the gradient d_o of its result o; lse as the forward pass gave it. Three kernels: sums of d_o * o, then dk and dv, then dq;
/// the same bits every time. Raises what flash_attention() raises, and flash-attention-lse.
void flash_attention_backward(session& with, const attended& q, const attended& k, const attended& v, const attended& o, const attended& d_o, device::address lse, const attended& dq,
                              const attended& dk, const attended& dv, const flash_attention_problem& what);

}  // namespace tlx::host
