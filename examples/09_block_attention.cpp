// Step 9: sequences of different lengths, and a product whose operand is the result of another. Each block of 64 tokens attends inside itself.
#include <limits>

#include "common.hpp"
#include "tlx/host/launch.hpp"

using namespace tlx;
using namespace tlx::literals;

constexpr int width = 64;  // of a head

// [kernel]
struct attention_arguments {  // q k v o: (token, head, width); offsets: where each sequence begins, and where the last one ends
  TLX_ARGUMENTS(attention_arguments, (view<bf16, 3>, q), (view<bf16, 3>, k), (view<bf16, 3>, v), (view<bf16, 3>, o), (view<std::int32_t, 1>, offsets), (scalar<float>, scale_log2));
};

void attention(block& cta, const attention_arguments& in) {
  cta.warps(4_warps);
  auto q = cta.ring<1>("q", shared<bf16, 64, width>), k = cta.ring<1>("k", shared<bf16, 64, width>), v = cta.ring<1>("v", shared<bf16, 64, width>);
  cta.tile(jagged<64>(in.offsets, in.q), [&](const jagged_box& t) {  // t.rows of the 64 tokens exist
    load(q.fill(), in.q[t]);
    load(k.fill(), in.k[t]);
    load(v.fill(), in.v[t]);
    auto s = mma(q.drain(), transpose(k.drain()));
    auto x = where(t.key_mask<64>(), read(s) * in.scale_log2, -std::numeric_limits<float>::infinity());
    auto e = exp2(x - row_max(x));
    auto o = mma(cast<bf16>(e * rcp(row_sum(e))), v.drain());  // a register tile as the A operand
    store(in.o[t], cast<bf16>(read(o)));                        // rows beyond t.rows belong to somebody else and stay as they are
  });
}
// [/kernel]

std::vector<double> reference(const std::vector<bf16>& q, const std::vector<bf16>& k, const std::vector<bf16>& v, const std::vector<std::int32_t>& offsets, int heads, double scale) {
  std::vector<double> o(q.size());
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
    for (int first = offsets[s]; first < offsets[s + 1]; first += 64)
      for (int h = 0; h < heads; ++h) {
        const int last = std::min(first + 64, offsets[s + 1]);
        const auto at = [&](int token, int d) { return static_cast<std::size_t>((token * heads + h) * width + d); };
        const auto value = [](bf16 b) { return static_cast<double>(static_cast<float>(b)); };
        for (int i = first; i < last; ++i) {
          std::vector<double> p;
          double sum = 0;
          for (int j = first; j < last; ++j) {
            double dot = 0;
            for (int d = 0; d < width; ++d) dot += value(q[at(i, d)]) * value(k[at(j, d)]);
            p.push_back(std::exp(dot * scale));
            sum += p.back();
          }
          for (int j = first; j < last; ++j)
            for (int d = 0; d < width; ++d) o[at(i, d)] += p[static_cast<std::size_t>(j - first)] / sum * value(v[at(j, d)]);
        }
      }
  return o;
}

int main(int argc, char** argv) {
  return examples::main(argc, argv, [](device::machine& m) {
    const std::vector<int> lengths{0, 1, 63, 64, 65, 130};
    constexpr int heads = 2;
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    std::vector<std::int32_t> offsets{0};
    for (int l : lengths) offsets.push_back(offsets.back() + l);
    const std::int64_t tokens = offsets.back();
    const std::size_t count = static_cast<std::size_t>(tokens) * heads * width;
    examples::array<bf16> q(m, examples::random_values<bf16>(count, 1)), k(m, examples::random_values<bf16>(count, 2)), v(m, examples::random_values<bf16>(count, 3)), o(m, count, bf16(9.0f));
    examples::array<std::int32_t> where(m, offsets);
    host::session session(m);
    const std::vector<std::int64_t> shape{tokens, heads, width};
    host::launch<attention_arguments>(session, "attention", attention,
                                      {q.view(shape), k.view(shape), v.view(shape), o.view(shape), where.view({static_cast<std::int64_t>(offsets.size())}),
                                       device::scalar_value(static_cast<float>(scale * 1.4426950408889634))});
    examples::describe(*session.find("attention"));
    std::printf("%lld tokens in %zu sequences, %d heads of width %d\n", static_cast<long long>(tokens), lengths.size(), heads, width);
    // probabilities are rounded to bf16 (2^-9 each, weights sum to 1), then the result is
    return examples::same(o.fetch(), reference(q.host, k.host, v.host, offsets, heads, scale), 0x1p-8, 0x1p-8);
  });
}
