// Block attention in one call, forward and backward.
#pragma once
#include <cstdint>

#include "tlx/host/session.hpp"
#include "tlx/tile/element.hpp"

namespace tlx::host {

/// (token, head, dimension) at `data`; strides in elements, 0: dense. The innermost stride is 1.
struct tokens {
  device::address data = 0;
  std::int64_t token_stride = 0, head_stride = 0;
};

/// Angles of a rotary embedding: each pair of columns x0, x1 becomes x0 cos - x1 sin, x1 cos + x0 sin. float32, (rows, D / 2), dense.
struct rotary {
  device::address cos = 0, sin = 0;
  std::int64_t rows = 0;     // positions in a sequence, or tokens
  bool by_token = false;     // a row for each token; otherwise for each position in its sequence
  bool interleaved = false;  // pairs are columns 2i and 2i + 1; otherwise i and i + D / 2
  bool values = false;       // v is rotated too
  bool applied = false;      // backward: q, k (and v) come rotated; otherwise as the forward pass takes them
};

struct attention_problem {
  tile::element type = tile::element::bf16;  // bf16 or f16
  std::int64_t token_count = 0;
  std::int64_t heads = 0;           // of q and o
  std::int64_t key_heads = 0;       // of k and v, a divisor of heads; 0: as many
  int dimension = 64;               // 64, 96, 128; 256 with blocks of 64; docs/block-attention.md
  int block = 64;                   // tokens: 64, 128; 256 forward
  bool causal = false;              // a token attends to those of its block that do not come after it
  device::address offsets = 0;      // batch + 1 ascending int32 token numbers on the machine, offsets[0] = 0, the last at most token_count
  std::int64_t batch = 0;
  float scale = 0;                  // 0: 1 / sqrt(dimension)
  host::rotary rotary = {};         // with tables: q and k are rotated on their way to the products; their gradients are those before the rotation
  std::uint64_t stream = 0;
};

/// o = softmax(scale * q k^T) v inside blocks of tokens counted from each sequence's start; lengths from 0 up.
/// Raises user_error: attention-shape, attention-type, attention-heads, attention-rotary, and what bind raises.
void block_attention(session& with, const tokens& q, const tokens& k, const tokens& v, const tokens& o, const attention_problem& what);

/// dq, dk, dv of block_attention() for the gradient d_o of its result, in one kernel: o is not needed, nor anything else from the forward pass. The same
/// bits every time. Raises what block_attention() raises.
void block_attention_backward(session& with, const tokens& q, const tokens& k, const tokens& v, const tokens& d_o, const tokens& dq, const tokens& dk, const tokens& dv,
                              const attention_problem& what);

}  // namespace tlx::host
