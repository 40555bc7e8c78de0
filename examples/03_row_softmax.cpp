// Step 3: reductions along a row, broadcasting of the column vector they give, and a mask for columns that do not exist.
#include <limits>

#include "common.hpp"
#include "tlx/host/launch.hpp"

using namespace tlx;
using namespace tlx::literals;

// [kernel]
struct softmax_arguments {
  TLX_ARGUMENTS(softmax_arguments, (view<float, 2>, x), (view<float, 2>, y));
};

/// Rows of at most 256 elements: a whole row lies in one tile.
void row_softmax(block& cta, const softmax_arguments& in) {
  constexpr int rows = 8, cols = 256;
  constexpr float log2e = 1.44269504f;
  cta.warps(4_warps);
  cta.tile(grid_of<rows, cols>(in.x), [&](const grid_box& t) {
    auto exists = col_index<1, cols>(cta.home()) < in.x.extent(1);
    auto x = where(exists, fetch<rows, cols>(in.x[t]) * log2e, -std::numeric_limits<float>::infinity());
    auto e = exp2(x - row_max(x));  // row_max: rows x 1, repeated along the row
    store(in.y[t], e / row_sum(e));
  });
}
// [/kernel]

int main(int argc, char** argv) {
  return examples::main(argc, argv, [](device::machine& m) {
    constexpr int rows = 21, cols = 200;
    examples::array<float> x(m, examples::random_values<float>(rows * cols, 3)), y(m, rows * cols, 0.0f);
    host::session session(m);
    host::launch<softmax_arguments>(session, "row_softmax", row_softmax, {x.view({rows, cols}), y.view({rows, cols})});
    examples::describe(*session.find("row_softmax"));
    std::printf("%d rows of %d columns, 8 rows a CTA\n", rows, cols);

    std::vector<double> expected(rows * cols);
    for (std::size_t r = 0; r < rows; ++r) {
      double largest = -1e30, sum = 0;
      for (std::size_t c = 0; c < cols; ++c) largest = std::max(largest, static_cast<double>(x.host[r * cols + c]));
      for (std::size_t c = 0; c < cols; ++c) sum += expected[r * cols + c] = std::exp(static_cast<double>(x.host[r * cols + c]) - largest);
      for (std::size_t c = 0; c < cols; ++c) expected[r * cols + c] /= sum;
    }
    return examples::same(y.fetch(), expected, 5e-6);  // exp2 of arguments up to 10 with 2^-24 relative error each, and 2 ulp of the function
  });
}
