#include "device/arguments.hpp"

#include <algorithm>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::device {

namespace {

constexpr std::int64_t extent_limit = INT32_MAX;                  // extents travel to the kernel as s32
constexpr std::int64_t map_stride_limit = std::int64_t{1} << 40;  // bytes; CUDA driver API, cuTensorMapEncodeTiled

std::string in_kernel(const std::string& name) { return "kernel \"" + name + "\""; }

std::string shape_text(const std::vector<std::int64_t>& extents) {
  std::string text = "[";
  for (size_t i = 0; i < extents.size(); ++i) text += (i ? ", " : "") + std::to_string(extents[i]);
  return text + "]";
}

std::string why_aligned(const view_rule& rule) {
  if (!rule.through_map) return cat("the kernel was built for addresses and strides that are multiples of ", rule.align_bytes, " bytes");
  return cat("the kernel reads it through a tensor map (TMA), which needs an address and strides that are multiples of ",
             rule.align_bytes, " bytes");
}

}  // namespace

void check_shapes(const std::string& kernel_name, const std::vector<parameter>& parameters, const std::vector<value>& arguments) {
  if (arguments.size() != parameters.size()) {
    std::vector<std::string> names;
    for (const parameter& p : parameters) names.push_back(p.name);
    raise(user_error({.id = "argument-count",
                      .what = cat(arguments.size(), " arguments for a kernel of ", parameters.size(), " parameters"),
                      .because = "the parameters are (" + join(names, ", ") + ")",
                      .fix = {"pass one value per parameter, in that order"},
                      .context = in_kernel(kernel_name)}));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const parameter& p = parameters[i];
    const value& v = arguments[i];
    if (p.what == parameter::kind::view) {
      if (!v.bytes.empty()) {
        raise(user_error({.id = "argument-rank",
                          .what = cat("argument ", i, " for tensor \"", p.name, "\" is a scalar of ", v.bytes.size(), " bytes"),
                          .because = cat("\"", p.name, "\" is a view of rank ", p.rank),
                          .fix = {"pass view_value(address, extents)"},
                          .context = in_kernel(kernel_name)}));
      }
      const bool strides_fit = v.strides.empty() || v.strides.size() == v.extents.size();
      if (v.extents.size() != static_cast<size_t>(p.rank) || !strides_fit) {
        raise(user_error({.id = "argument-rank",
                          .what = cat("tensor \"", p.name, "\" has ", v.extents.size(), " extents ", shape_text(v.extents), " and ", v.strides.size(),
                                      " strides, the kernel expects rank ", p.rank),
                          .because = "a view has one extent per dimension, and either no strides (dense) or one per dimension",
                          .fix = {cat("pass ", p.rank, " extents, outermost first")},
                          .context = in_kernel(kernel_name)}));
      }
    } else {
      const size_t expected = static_cast<size_t>((p.element_bits + 7) / 8);
      if (v.bytes.size() != expected) {
        raise(user_error({.id = "argument-size",
                          .what = cat("scalar \"", p.name, "\" was given ", v.bytes.size(), " bytes, ", p.element, " has ", expected),
                          .because = "scalars are passed as their bytes, without conversion",
                          .fix = {cat("pass scalar_value of a C++ type with ", expected, " bytes")},
                          .context = in_kernel(kernel_name)}));
      }
    }
  }
}

void check_extents(const std::string& kernel_name, const parameter& p, const value& v) {
  for (size_t d = 0; d < v.extents.size(); ++d) {
    if (v.extents[d] < 0) {
      raise(user_error({.id = "extent-negative",
                        .what = cat("tensor \"", p.name, "\" has extent ", v.extents[d], " in dimension ", d),
                        .because = "an extent counts elements",
                        .fix = {"pass 0 for an empty dimension"},
                        .context = in_kernel(kernel_name)}));
    }
    if (v.extents[d] > extent_limit) {
      raise(user_error({.id = "extent-too-large",
                        .what = cat("tensor \"", p.name, "\" has extent ", v.extents[d], " in dimension ", d, ", the limit is ", extent_limit),
                        .because = "kernels keep extents and coordinates in signed 32-bit integers (offsets are 64-bit)",
                        .fix = {"split the dimension in two, or launch over pieces"},
                        .context = in_kernel(kernel_name)}));
    }
  }
}

void resolve_strides(const std::string& kernel_name, const parameter& p, const value& v, std::vector<std::int64_t>& strides) {
  const size_t rank = v.extents.size();
  strides.resize(rank);
  bool overflow = false;
  if (v.strides.empty()) {
    std::int64_t next = 1;
    for (size_t d = rank; d-- > 0;) {
      strides[d] = next;
      // An empty dimension counts as one here, so that the other strides stay what they would be.
      overflow |= __builtin_mul_overflow(next, std::max<std::int64_t>(v.extents[d], 1), &next);
    }
  } else {
    std::copy(v.strides.begin(), v.strides.end(), strides.begin());
    // A dimension of at most one element never uses its stride, and frameworks put anything there.
    if (rank > 0 && strides[rank - 1] != 1 && v.extents[rank - 1] > 1) {
      raise(user_error({.id = "stride-not-dense",
                        .what = cat("tensor \"", p.name, "\" has stride ", strides[rank - 1], " in its innermost dimension ", rank - 1, " of ",
                                    v.extents[rank - 1], " elements"),
                        .because = "kernels address the innermost dimension densely: its stride must be 1",
                        .fix = {"copy the tensor to a dense one, or pass the transposed view to a kernel built for it"},
                        .context = in_kernel(kernel_name)}));
    }
  }
  // The bits between the first and the last element must fit 64 signed bits, or addresses would wrap.
  std::int64_t reach = 1;
  for (size_t d = 0; d < rank; ++d) {
    if (v.extents[d] <= 1) continue;
    std::int64_t step = 0;
    overflow |= strides[d] == INT64_MIN;
    overflow |= __builtin_mul_overflow(strides[d] < 0 && strides[d] != INT64_MIN ? -strides[d] : strides[d], v.extents[d] - 1, &step);
    overflow |= __builtin_add_overflow(reach, step, &reach);
  }
  std::int64_t bits = 0;
  overflow |= __builtin_mul_overflow(reach, static_cast<std::int64_t>(p.element_bits), &bits);
  if (overflow) {
    raise(user_error({.id = "view-too-large",
                      .what = cat("tensor \"", p.name, "\" of shape ", shape_text(v.extents), " reaches over more than 2^60 bytes"),
                      .because = "byte offsets are signed 64-bit integers",
                      .fix = {"check the strides: no machine has such a tensor"},
                      .context = in_kernel(kernel_name)}));
  }
}

void check_placement(const std::string& kernel_name, const parameter& p, const value& v, const std::vector<std::int64_t>& strides,
                     const view_rule& rule) {
  if (v.base == 0) {
    raise(user_error({.id = "pointer-null",
                      .what = cat("tensor \"", p.name, "\" of shape ", shape_text(v.extents), " has a null address"),
                      .because = "only an empty tensor may have no memory",
                      .fix = {"allocate it on the machine that runs the kernel"},
                      .context = in_kernel(kernel_name)}));
  }
  const auto align = static_cast<std::uint64_t>(rule.align_bytes);
  if (v.base % align != 0) {
    std::ostringstream hex;
    hex << "0x" << std::hex << v.base;
    raise(user_error({.id = "pointer-misaligned",
                      .what = cat("tensor \"", p.name, "\" starts at ", hex.str(), ", ", v.base % align, " bytes past a multiple of ", align),
                      .because = why_aligned(rule),
                      .fix = {"start the view at an aligned element, or copy it to its own allocation"},
                      .context = in_kernel(kernel_name)}));
  }
  const size_t rank = v.extents.size();
  for (size_t d = 0; d + 1 < rank; ++d) {
    if (v.extents[d] <= 1) continue;  // never multiplied by anything but 0
    const std::int64_t bits = strides[d] * p.element_bits;  // fits: resolve_strides
    if (bits % (8 * rule.align_bytes) != 0) {
      const std::int64_t granule = std::max<std::int64_t>(1, 8 * rule.align_bytes / p.element_bits);
      const std::int64_t padded = (strides[d] / granule + (strides[d] > 0 ? 1 : 0)) * granule;
      const std::string bytes = bits % 8 == 0 ? cat(bits / 8, " bytes") : cat(bits, " bits");
      raise(user_error({.id = "stride-misaligned",
                        .what = cat("tensor \"", p.name, "\" of shape ", shape_text(v.extents), ": dimension ", d, " has a stride of ", strides[d], " ",
                                    p.element, " elements = ", bytes, ", not a multiple of ", rule.align_bytes, " bytes"),
                        .because = why_aligned(rule),
                        .fix = {cat("pad that stride to ", padded, " elements"), "or use a variant of the kernel that reads without a tensor map"},
                        .context = in_kernel(kernel_name)}));
    }
    if (!rule.through_map) continue;
    if (strides[d] < 0) {
      raise(user_error({.id = "stride-negative",
                        .what = cat("tensor \"", p.name, "\": dimension ", d, " has a stride of ", strides[d], " elements"),
                        .because = "the kernel reads it through a tensor map (TMA), whose strides are not negative",
                        .fix = {"copy the tensor in forward order"},
                        .context = in_kernel(kernel_name)}));
    }
    if (bits / 8 >= map_stride_limit) {
      raise(user_error({.id = "stride-too-large",
                        .what = cat("tensor \"", p.name, "\": dimension ", d, " has a stride of ", bits / 8, " bytes, the limit is below ", map_stride_limit),
                        .because = "the kernel reads it through a tensor map (TMA), whose strides are below 2^40 bytes",
                        .fix = {"split the tensor along that dimension"},
                        .context = in_kernel(kernel_name)}));
    }
  }
  if (rule.inner_multiple > 1 && v.extents[rank - 1] % rule.inner_multiple != 0) {
    raise(user_error({.id = "extent-misaligned",
                      .what = cat("tensor \"", p.name, "\" has innermost extent ", v.extents[rank - 1], ", not a multiple of ", rule.inner_multiple),
                      .because = rule.stored ? "the kernel writes it by bulk copies (TMA), which write whole 16-byte pieces: what stands behind each row would be overwritten"
                                             : cat("the kernel reads it through a tensor map of packed elements, which come in groups of ", rule.inner_multiple),
                      .fix = rule.stored ? std::vector<std::string>{"pad the innermost dimension", "let the kernel move by threads: cta.move_by_threads()"} : std::vector<std::string>{"pad the innermost dimension"},
                      .context = in_kernel(kernel_name)}));
  }
}

}  // namespace tlx::device
