// Step 2: arithmetic on tiles, a scalar argument, and tails: outside of the tensors a fetch reads 0 and a store writes nothing.
#include "common.hpp"
#include "tlx/host/launch.hpp"

using namespace tlx;
using namespace tlx::literals;

// [kernel]
struct axpy_arguments {
  TLX_ARGUMENTS(axpy_arguments, (view<float, 2>, x), (view<float, 2>, y), (scalar<float>, alpha));
};

void axpy(block& cta, const axpy_arguments& in) {
  constexpr int rows = 16, cols = 64;
  cta.warps(4_warps);
  cta.tile(grid_of<rows, cols>(in.y), [&](const grid_box& t) {
    auto x = fetch<rows, cols>(in.x[t]);
    auto y = fetch<rows, cols>(in.y[t]);
    store(in.y[t], x * in.alpha + y);
  });
}
// [/kernel]

int main(int argc, char** argv) {
  return examples::main(argc, argv, [](device::machine& m) {
    constexpr int rows = 37, cols = 101, pitch = 110;  // neither extent is a multiple of the tile's; rows lie 110 elements apart
    constexpr float alpha = 2.5f, untouched = 7;
    examples::array<float> x(m, examples::random_values<float>(rows * pitch, 1)), y(m, rows * pitch, untouched);
    host::session session(m);
    const auto part = [&](const examples::array<float>& a) { return device::view_value(a.where(), {rows, cols}, {pitch, 1}); };
    host::launch<axpy_arguments>(session, "axpy", axpy, {part(x), part(y), device::scalar_value(alpha)});
    examples::describe(*session.find("axpy"));
    std::printf("%d x %d in tiles of 16 x 64; the %d elements after each row must stay %g\n", rows, cols, pitch - cols, static_cast<double>(untouched));

    std::vector<double> expected;
    for (int i = 0; i < rows * pitch; ++i) expected.push_back(i % pitch < cols ? static_cast<double>(x.host[static_cast<std::size_t>(i)]) * alpha + untouched : untouched);
    return examples::same(y.fetch(), expected, 3e-7, 1e-6);  // two roundings
  });
}
