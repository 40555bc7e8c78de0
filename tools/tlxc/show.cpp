#include "show.hpp"

#include "tlx/support/text.hpp"
#include "verbs.hpp"

namespace tlxc {

namespace {

int run(const arguments& given) {
  const std::vector<std::string>& words = given.words();
  if (words[0] == "layout") return show_layout(given, {words.begin() + 1, words.end()});
  if (words[0] != "ring" && words[0] != "tmem") throw usage_error(tlx::cat("\"", words[0], "\" is none of layout, ring and tmem"));
  if (words.size() != 2) throw usage_error(tlx::cat("expected ", words[0], " KERNEL"));
  return words[0] == "ring" ? show_ring(given, words[1]) : show_tensor_memory(given, words[1]);
}

}  // namespace

verb show_verb() {
  static const std::string help = "layout: which thread and register owns which element. WORDS is the text form layout<...>, or one of\n" + layout_forms() +
                                  "ring:   rings of a kernel, who fills and drains them, barrier counts, the plan of shared memory\n"
                                  "tmem:   the columns of tensor memory";
  return {"show",
          "layout WORDS | ring KERNEL | tmem KERNEL",
          1,
          8,
          "pictures of a layout, a kernel's rings, its tensor memory; as text and SVG",
          help.c_str(),
          {{"--svg", "FILE", "draw it too"},
           {"--colour", "BY", "of a layout: warp (default), lane, register"},
           {"--rows", "N", "of a layout's text: how many rows and columns (16)"},
           {"--cols", "N", "(16)"},
           {"--target", "T", "ring: sm_90a (default); tmem: sm_100a (default)"},
           {"--from", "LIB.so", "kernels of this shared library instead of tlxc's own; may be repeated"}},
          run};
}

}  // namespace tlxc
