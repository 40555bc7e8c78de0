#include "bench/device/cublas.hpp"

#include <cstdlib>

#include "bench/device/library.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::bench {

namespace {

// The few names of cublas_v2.h and cublasLt.h that are used here, with their numbers.
constexpr int op_n = 0, op_t = 1, type_bf16 = 14, type_f32 = 0, compute_f32 = 68, gemm_default = -1;
constexpr int desc_transpose_a = 3, desc_transpose_b = 4, desc_epilogue = 7, desc_bias_pointer = 8;
constexpr int type_e4m3 = 28, desc_scale_a = 17, desc_scale_b = 18, desc_fast_accumulation = 25, layout_batch = 5, layout_apart = 6;
constexpr int epilogue_bias = 4, epilogue_gelu = 32;
constexpr int preference_workspace = 1;
constexpr std::size_t workspace_bytes = std::size_t{64} << 20;

struct algorithm {
  std::uint64_t data[8];
};
struct heuristic_result {
  algorithm how;
  std::size_t workspace;
  int status;
  float waves;
  int reserved[4];
};

void check(int code, const char* call) {
  if (code != 0)
    raise(device_error({.id = "bench-cublas", .what = cat(call, " failed with code ", code), .because = "cuBLAS is the peer of the GEMM cases", .fix = {"look the code up in cuBLAS's documentation (cublasStatus_t)", "run other cases with --filter"}}));
}

std::vector<std::string> places(const std::string& folder, const std::string& name) {
  std::vector<std::string> found;
  std::vector<std::string> folders;
  if (!folder.empty()) folders = {folder + "/"};
  else {
    folders = {""};
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
      if (const char* value = std::getenv(variable)) folders.push_back(std::string(value) + "/lib64/");
    folders.insert(folders.end(), {"/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"});
  }
  for (const std::string& f : folders)
    for (const char* suffix : {".so.13", ".so.12", ".so"}) found.push_back(f + name + suffix);
  return found;
}

const float one = 1, zero = 0;

}  // namespace

struct cublas::state {
  library lt, plain;  // in this order: libcublas needs libcublasLt, which may stand in a folder that the loader does not search
  void *handle = nullptr, *lt_handle = nullptr;
  int (*create)(void**) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*get_version)(void*, int*) = nullptr;
  int (*set_stream)(void*, void*) = nullptr;
  int (*gemm_ex)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int, const void*, void*, int, int, int, int) = nullptr;
  int (*lt_create)(void**) = nullptr;
  int (*lt_destroy)(void*) = nullptr;
  int (*desc_create)(void**, int, int) = nullptr;
  int (*desc_destroy)(void*) = nullptr;
  int (*desc_set)(void*, int, const void*, std::size_t) = nullptr;
  int (*layout_create)(void**, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
  int (*layout_destroy)(void*) = nullptr;
  int (*layout_set)(void*, int, const void*, std::size_t) = nullptr;
  int (*preference_create)(void**) = nullptr;
  int (*preference_destroy)(void*) = nullptr;
  int (*preference_set)(void*, int, const void*, std::size_t) = nullptr;
  int (*heuristic)(void*, void*, void*, void*, void*, void*, void*, int, heuristic_result*, int*) = nullptr;
  int (*matmul)(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*, void*, const algorithm*, void*, std::size_t, void*) = nullptr;
  int (*allocate)(std::uint64_t*, std::size_t) = nullptr;
  int (*release)(std::uint64_t) = nullptr;
  library driver{{"libcuda.so.1"}};
  std::uint64_t workspace = 0;

  explicit state(const std::string& folder) : lt(places(folder, "libcublasLt")), plain(places(folder, "libcublas")) {}
};

cublas::cublas(const std::string& folder) : state_(std::make_unique<state>(folder)) {
  state& s = *state_;
  if (!s.plain.opened() || !s.lt.opened())
    raise(device_error({.id = "bench-cublas", .what = "cuBLAS is not here: " + (s.lt.opened() ? s.plain.why() : s.lt.why()), .because = "it is the peer of the GEMM cases",
                        .fix = {"name the folder with libcublas.so and libcublasLt.so: --cublas FOLDER", "measure without it: --cublas none"}}));
  const bool all = s.plain.find(s.create, "cublasCreate_v2") && s.plain.find(s.destroy, "cublasDestroy_v2") && s.plain.find(s.get_version, "cublasGetVersion_v2") &&
                   s.plain.find(s.set_stream, "cublasSetStream_v2") && s.plain.find(s.gemm_ex, "cublasGemmEx") && s.lt.find(s.lt_create, "cublasLtCreate") && s.lt.find(s.lt_destroy, "cublasLtDestroy") &&
                   s.lt.find(s.desc_create, "cublasLtMatmulDescCreate") && s.lt.find(s.desc_destroy, "cublasLtMatmulDescDestroy") && s.lt.find(s.desc_set, "cublasLtMatmulDescSetAttribute") &&
                   s.lt.find(s.layout_create, "cublasLtMatrixLayoutCreate") && s.lt.find(s.layout_destroy, "cublasLtMatrixLayoutDestroy") &&
                   s.lt.find(s.layout_set, "cublasLtMatrixLayoutSetAttribute") &&
                   s.lt.find(s.preference_create, "cublasLtMatmulPreferenceCreate") && s.lt.find(s.preference_destroy, "cublasLtMatmulPreferenceDestroy") &&
                   s.lt.find(s.preference_set, "cublasLtMatmulPreferenceSetAttribute") && s.lt.find(s.heuristic, "cublasLtMatmulAlgoGetHeuristic") && s.lt.find(s.matmul, "cublasLtMatmul") &&
                   s.driver.find(s.allocate, "cuMemAlloc_v2") && s.driver.find(s.release, "cuMemFree_v2");
  check(all ? 0 : -1, "looking up cuBLAS's functions");
  check(s.create(&s.handle), "cublasCreate");
  check(s.lt_create(&s.lt_handle), "cublasLtCreate");
  check(s.allocate(&s.workspace, workspace_bytes), "cuMemAlloc");
}

cublas::~cublas() {
  state_->release(state_->workspace);
  state_->lt_destroy(state_->lt_handle);
  state_->destroy(state_->handle);
}

int cublas::version() const {
  int v = 0;
  state_->get_version(state_->handle, &v);
  return v;
}

// Row-major c is column-major c^T = b * a^T, where cuBLAS sees b stored k x n (to be transposed) and a stored k x m.
void cublas::gemm_ex(const product& p, std::uint64_t stream) {
  state& s = *state_;
  const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  check(s.set_stream(s.handle, reinterpret_cast<void*>(stream)), "cublasSetStream");
  check(s.gemm_ex(s.handle, op_t, op_n, n, m, k, &one, reinterpret_cast<void*>(p.b), type_bf16, k, reinterpret_cast<void*>(p.a), type_bf16, k, &zero, reinterpret_cast<void*>(p.c), type_bf16, n, compute_f32, gemm_default),
        "cublasGemmEx");
}

struct cublas::plan::state {
  cublas::state* of = nullptr;
  void *desc = nullptr, *a = nullptr, *b = nullptr, *c = nullptr;
  std::vector<heuristic_result> found;
};

cublas::plan::plan(std::unique_ptr<state> s) : state_(std::move(s)) {}
cublas::plan::~plan() {
  for (void* layout : {state_->a, state_->b, state_->c})
    if (layout) state_->of->layout_destroy(layout);
  if (state_->desc) state_->of->desc_destroy(state_->desc);
}
int cublas::plan::candidates() const { return static_cast<int>(state_->found.size()); }

std::unique_ptr<cublas::plan> cublas::prepare(const product& p, int most) {
  state& s = *state_;
  auto made = std::make_unique<plan::state>();
  made->of = &s;
  check(s.desc_create(&made->desc, compute_f32, type_f32), "cublasLtMatmulDescCreate");
  const auto set = [&](int what, const auto& value) { check(s.desc_set(made->desc, what, &value, sizeof value), "cublasLtMatmulDescSetAttribute"); };
  set(desc_transpose_a, op_t);
  set(desc_transpose_b, op_n);
  if (p.bias) set(desc_bias_pointer, p.bias);
  const int epilogue = (p.bias ? epilogue_bias : 0) | (p.gelu ? epilogue_gelu : 0);
  if (epilogue) set(desc_epilogue, epilogue);
  if (p.is_e4m3()) {  // cuBLAS's first operand is our b
    set(desc_scale_a, p.scale_b);
    set(desc_scale_b, p.scale_a);
    set(desc_fast_accumulation, static_cast<std::int8_t>(!p.promoted));
  }
  const auto layout = [&](int type, std::int64_t rows, std::int64_t cols) {
    void* out = nullptr;
    check(s.layout_create(&out, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols), rows), "cublasLtMatrixLayoutCreate");
    if (p.batch == 1) return out;
    const auto count = static_cast<std::int32_t>(p.batch);
    const std::int64_t apart = rows * cols;
    check(s.layout_set(out, layout_batch, &count, sizeof count), "cublasLtMatrixLayoutSetAttribute");
    check(s.layout_set(out, layout_apart, &apart, sizeof apart), "cublasLtMatrixLayoutSetAttribute");
    return out;
  };
  const int operand = p.is_e4m3() ? type_e4m3 : type_bf16;
  made->a = layout(operand, p.k, p.n);
  made->b = layout(operand, p.k, p.m);
  made->c = layout(type_bf16, p.n, p.m);
  void* preference = nullptr;
  check(s.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  check(s.preference_set(preference, preference_workspace, &workspace_bytes, sizeof workspace_bytes), "cublasLtMatmulPreferenceSetAttribute");
  made->found.resize(static_cast<std::size_t>(most));
  int count = 0;
  const int code = s.heuristic(s.lt_handle, made->desc, made->a, made->b, made->c, made->c, preference, most, made->found.data(), &count);
  s.preference_destroy(preference);
  check(code, "cublasLtMatmulAlgoGetHeuristic");
  made->found.resize(static_cast<std::size_t>(count));
  std::erase_if(made->found, [](const heuristic_result& r) { return r.status != 0; });
  return std::unique_ptr<plan>(new plan(std::move(made)));
}

void cublas::plan::run(int candidate, const product& p, std::uint64_t stream) {
  state& s = *state_;
  check(s.of->matmul(s.of->lt_handle, s.desc, &one, reinterpret_cast<void*>(p.b), s.a, reinterpret_cast<void*>(p.a), s.b, &zero, reinterpret_cast<void*>(p.c), s.c, reinterpret_cast<void*>(p.c), s.c,
                     &s.found[static_cast<std::size_t>(candidate)].how, reinterpret_cast<void*>(s.of->workspace), workspace_bytes, reinterpret_cast<void*>(stream)),
        "cublasLtMatmul");
}

}  // namespace tlx::bench
