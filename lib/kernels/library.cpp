#include "tlx/kernels/library.hpp"

#include "tlx/dsl/activation.hpp"
#include "tlx/kernels/attention.hpp"
#include "tlx/kernels/gemm.hpp"

namespace tlx::kernels {

namespace {

// The tiles that host::gemm chooses from: wide for large products, narrow where there would be too few tiles; n and t: as stored, transposed.
struct wide_nt : gemm_plan<128, 256, 64, 4, false, true> { static constexpr const char* name = "128x256_nt"; };
struct wide_nn : gemm_plan<128, 256, 64, 4, false, false> { static constexpr const char* name = "128x256_nn"; };
struct narrow_nt : gemm_plan<128, 128, 64, 5, false, true> { static constexpr const char* name = "128x128_nt"; };

struct chosen {
  bool bias, residual;
  finish activate;
  const char* suffix;

  template <class Tile, class Arguments>
  auto operator()(const Tile& acc, const Arguments& in, const grid_box& t) const {
    const Tile scaled = acc * in.alpha;
    const Tile biased = bias ? scaled + fetch<1, Tile::cols>(in.bias.at(t.col)) : scaled;
    const Tile active = activated(biased);
    return residual ? active + cast<float>(fetch<Tile::rows, Tile::cols>(in.residual[t])) : active;
  }
  template <class Tile>
  Tile activated(const Tile& x) const {
    switch (activate) {
      case finish::relu: return relu(x);
      case finish::gelu: return gelu(x);
      case finish::gelu_tanh: return gelu_tanh(x);
      case finish::silu: return silu(x);
      case finish::none: break;
    }
    return x;
  }
};

constexpr chosen epilogues[] = {{false, false, finish::none, ""},
                                {true, false, finish::none, "_bias"},
                                {true, false, finish::gelu_tanh, "_bias_gelu_tanh"},
                                {true, false, finish::silu, "_bias_silu"},
                                {true, true, finish::none, "_bias_residual"}};

template <class T>
void add_gemms(std::vector<library_kernel>& list) {
  for (const chosen& epilogue : epilogues) {
    const std::string name = "gemm_" + std::string(tile::name(tile::element_of<T>)) + epilogue.suffix;
    const size_t first = dsl::registered_kernels().size();
    register_kernel<gemm_arguments<T>>(name, configurations<wide_nt, wide_nn, narrow_nt>{},
                                       [epilogue](block& cta, const gemm_arguments<T>& in, auto plan) { gemm<T, decltype(plan)>(cta, in, epilogue); });
    for (size_t i = first; i < dsl::registered_kernels().size(); ++i) {
      const dsl::registered& made = dsl::registered_kernels()[i];
      list.push_back({.what = library_kernel::kind::gemm, .name = made.full_name(), .type = tile::element_of<T>, .b_transposed = made.configuration.back() == 't',
                      .bias = epilogue.bias, .residual = epilogue.residual, .activate = epilogue.activate});
    }
  }
}

// Names as host::block_attention gives them.
template <class T, int Block, int D>
void add_attention(std::vector<library_kernel>& list) {
  const std::string what = std::string(tile::name(tile::element_of<T>)) + (Block == 64 ? "" : "_b" + std::to_string(Block)) + "_d" + std::to_string(D);
  register_kernel<attention_arguments<T>>("block_attention_" + what, [](block& cta, const attention_arguments<T>& in) { block_attention<T, Block, D>(cta, in); });
  register_kernel<attention_backward_arguments<T>>("block_attention_backward_" + what,
                                                   [](block& cta, const attention_backward_arguments<T>& in) { block_attention_backward<T, Block, D>(cta, in); });
  for (const bool backward : {false, true})
    list.push_back({.what = library_kernel::kind::attention, .name = (backward ? "block_attention_backward_" : "block_attention_") + what, .type = tile::element_of<T>, .dimension = D,
                    .tokens = Block, .backward = backward});
}

template <class T, int D>
void add_attention_256(std::vector<library_kernel>& list) {
  const std::string what = std::string(tile::name(tile::element_of<T>)) + "_b256_d" + std::to_string(D);
  register_kernel<attention_arguments<T>>("block_attention_" + what, [](block& cta, const attention_arguments<T>& in) { block_attention_by_rows<T, 256, 64, D>(cta, in); });
  register_kernel<attention_backward_arguments<T>>("block_attention_backward_" + what,
                                                   [](block& cta, const attention_backward_arguments<T>& in) { block_attention_backward_by_parts<T, 256, 64, D>(cta, in); });
  for (const bool backward : {false, true})
    list.push_back({.what = library_kernel::kind::attention, .name = (backward ? "block_attention_backward_" : "block_attention_") + what, .type = tile::element_of<T>, .dimension = D,
                    .tokens = 256, .backward = backward});
}

}  // namespace

const std::vector<library_kernel>& register_library() {
  static const std::vector<library_kernel> list = [] {
    std::vector<library_kernel> made;
    add_gemms<bf16>(made);
    add_gemms<f16>(made);
    add_attention<bf16, 64, 64>(made);
    add_attention<bf16, 64, 96>(made);
    add_attention<bf16, 64, 128>(made);
    add_attention<bf16, 64, 256>(made);
    add_attention<bf16, 128, 64>(made);
    add_attention<bf16, 128, 96>(made);
    add_attention<bf16, 128, 128>(made);
    add_attention_256<bf16, 64>(made);
    add_attention_256<bf16, 128>(made);
    add_attention<f16, 64, 64>(made);
    add_attention<f16, 64, 128>(made);
    return made;
  }();
  return list;
}

}  // namespace tlx::kernels
