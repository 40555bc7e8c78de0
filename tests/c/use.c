/* The C interface from C. Usage: use MACHINE [--no-results]. Exit code 77: the machine is not there. */
#include <stdio.h>
#include <string.h>

#include "tlx/c.h"

static int failures = 0;

#define CHECK(condition)                                                                              \
  do {                                                                                                \
    if (!(condition)) {                                                                               \
      printf("%s:%d: not true: %s\n  last error: %s\n", __FILE__, __LINE__, #condition, tlx_last_error()); \
      ++failures;                                                                                     \
    }                                                                                                 \
  } while (0)

static int failed_with(tlx_status got, tlx_status expected, const char* id) {
  return got == expected && strcmp(tlx_last_error_id(), id) == 0 && strstr(tlx_last_error(), id) != NULL;
}

static const char manifest[] =
    "{\"format\": \"tlx-kernel\", \"version\": 1, \"name\": \"scaled sum\", \"entry\": \"scaled_sum\", \"target\": \"sm_90a\","
    " \"parameters\": ["
    "  {\"name\": \"a\", \"kind\": \"view\", \"element\": \"f32\", \"element_bits\": 32, \"rank\": 1, \"align_bytes\": 4},"
    "  {\"name\": \"b\", \"kind\": \"view\", \"element\": \"f32\", \"element_bits\": 32, \"rank\": 1, \"align_bytes\": 4},"
    "  {\"name\": \"scale\", \"kind\": \"scalar\", \"element\": \"f32\", \"element_bits\": 32}],"
    " \"maps\": [], \"grid\": [\"(ceil_div b.0 128)\", \"1\", \"1\"], \"block\": [128, 1, 1], \"cluster\": [1, 1, 1],"
    " \"dynamic_shared_bytes\": 0, \"blocks_per_processor\": 1,"
    " \"used\": {\"registers\": -1, \"spill_bytes\": -1, \"stack_bytes\": -1, \"static_shared_bytes\": -1, \"advisories\": [], \"assembler\": \"\"}}";

/* b[i] += scale * a[i] for i < the extent of b */
static const char ptx[] =
    ".version 8.0\n.target sm_90a\n.address_size 64\n"
    ".visible .entry scaled_sum(.param .u64 a, .param .u32 a0, .param .u64 b, .param .u32 b0, .param .f32 scale)\n"
    ".reqntid 128\n{\n"
    ".reg .pred %out; .reg .b32 %i, %n, %t, %c; .reg .b64 %p, %q, %o; .reg .f32 %x, %y, %s;\n"
    "mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mad.lo.u32 %i, %c, 128, %t;\n"
    "ld.param.u32 %n, [b0]; setp.ge.u32 %out, %i, %n; @%out ret;\n"
    "ld.param.u64 %p, [a]; ld.param.u64 %q, [b]; ld.param.f32 %s, [scale];\n"
    "mul.wide.u32 %o, %i, 4; add.u64 %p, %p, %o; add.u64 %q, %q, %o;\n"
    "ld.global.f32 %x, [%p]; ld.global.f32 %y, [%q]; fma.rn.f32 %y, %x, %s, %y; st.global.f32 [%q], %y;\n"
    "ret;\n}\n";

static void errors_without_a_machine(void) {
  tlx_machine* machine = (tlx_machine*)&failures;
  CHECK(strlen(tlx_version()) >= 5);
  CHECK(strcmp(tlx_last_error(), "") == 0);
  CHECK(failed_with(tlx_open("toaster:1", &machine), TLX_USER_ERROR, "machine-unknown"));
  CHECK(machine == NULL);
  CHECK(failed_with(tlx_open(NULL, &machine), TLX_USER_ERROR, "null-argument"));
  CHECK(failed_with(tlx_open("gpu:0", NULL), TLX_USER_ERROR, "null-argument"));
  CHECK(failed_with(tlx_wait(NULL), TLX_USER_ERROR, "null-argument"));
  CHECK(failed_with(tlx_launch(NULL, NULL, 0, 0), TLX_USER_ERROR, "null-argument"));
  tlx_close(NULL);
  tlx_release(NULL);
  CHECK(tlx_parameter_count(NULL) == 0);
}

static void load_errors(tlx_machine* machine) {
  tlx_kernel* kernel = NULL;
  CHECK(failed_with(tlx_load(machine, "{", 1, ptx, sizeof ptx - 1, &kernel), TLX_USER_ERROR, "manifest-malformed"));
  CHECK(kernel == NULL);
  CHECK(failed_with(tlx_load(machine, manifest, 40, ptx, sizeof ptx - 1, &kernel), TLX_USER_ERROR, "manifest-malformed"));
  CHECK(failed_with(tlx_load(machine, manifest, sizeof manifest - 1, NULL, 0, &kernel), TLX_USER_ERROR, "null-argument"));
}

static void launches(tlx_machine* machine, int results) {
  enum { n = 300 };
  static float a[n], b[n];
  const int64_t extents[1] = {n};
  const int64_t none[1] = {0};
  const float scale = 0.5f;
  tlx_kernel* kernel = NULL;
  tlx_parameter_info info;
  uint64_t at_a = 0, at_b = 0;
  int i;
  tlx_value arguments[3];
  for (i = 0; i < n; ++i) {
    a[i] = (float)i;
    b[i] = 1.0f;
  }
  if (tlx_load(machine, manifest, sizeof manifest - 1, ptx, sizeof ptx - 1, &kernel) != TLX_OK) {
    CHECK(!"the kernel loads");
    return;
  }
  CHECK(strcmp(tlx_kernel_name(kernel), "scaled sum") == 0);
  CHECK(tlx_parameter_count(kernel) == 3);
  CHECK(tlx_parameter(kernel, 1, &info) == TLX_OK && strcmp(info.name, "b") == 0 && info.is_view && info.rank == 1 && info.element_bits == 32);
  CHECK(tlx_parameter(kernel, 2, &info) == TLX_OK && strcmp(info.element, "f32") == 0 && !info.is_view);
  CHECK(failed_with(tlx_parameter(kernel, 3, &info), TLX_USER_ERROR, "parameter-index"));

  CHECK(tlx_allocate(machine, sizeof a, &at_a) == TLX_OK && tlx_allocate(machine, sizeof b, &at_b) == TLX_OK);
  CHECK(tlx_write(machine, at_a, a, sizeof a) == TLX_OK && tlx_write(machine, at_b, b, sizeof b) == TLX_OK);
  memset(arguments, 0, sizeof arguments);
  arguments[0].address = at_a;
  arguments[1].address = at_b;
  arguments[0].rank = arguments[1].rank = 1;
  arguments[0].extents = arguments[1].extents = extents;
  arguments[2].scalar = &scale;
  arguments[2].scalar_bytes = sizeof scale;
  CHECK(tlx_launch(kernel, arguments, 3, 0) == TLX_OK);
  CHECK(tlx_launch(kernel, arguments, 3, 0) == TLX_OK);
  CHECK(tlx_wait(machine) == TLX_OK);
  CHECK(tlx_read(machine, b, at_b, sizeof b) == TLX_OK);
  for (i = 0; i < n && results; ++i) CHECK(b[i] == 1.0f + (float)i);

  CHECK(failed_with(tlx_launch(kernel, arguments, 2, 0), TLX_USER_ERROR, "argument-count"));
  arguments[1].address = at_b + 2;
  CHECK(failed_with(tlx_launch(kernel, arguments, 3, 0), TLX_USER_ERROR, "pointer-misaligned"));
  arguments[1].address = 0;
  CHECK(failed_with(tlx_launch(kernel, arguments, 3, 0), TLX_USER_ERROR, "pointer-null"));
  arguments[1].extents = none;
  CHECK(tlx_launch(kernel, arguments, 3, 0) == TLX_OK); /* an empty view: no blocks */
  arguments[1].extents = NULL;
  CHECK(failed_with(tlx_launch(kernel, arguments, 3, 0), TLX_USER_ERROR, "null-argument"));
  arguments[2].scalar_bytes = 2;
  arguments[1].extents = none;
  CHECK(failed_with(tlx_launch(kernel, arguments, 3, 0), TLX_USER_ERROR, "argument-size"));
  CHECK(tlx_free(machine, at_a) == TLX_OK && tlx_free(machine, at_b) == TLX_OK);
  CHECK(tlx_wait(machine) == TLX_OK);
  tlx_close(machine); /* before its kernel: the kernel keeps what it needs */
  tlx_release(kernel);
}

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "none";
  const int results = !(argc > 2 && strcmp(argv[2], "--no-results") == 0);
  tlx_machine* machine = NULL;
  tlx_machine_info about;
  errors_without_a_machine();
  if (strcmp(name, "none") != 0) {
    if (tlx_open(name, &machine) != TLX_OK) {
      const int absent = strcmp(tlx_last_error_id(), "driver-missing") == 0 || strcmp(tlx_last_error_id(), "machine-unknown") == 0;
      printf("%s: %s\n", absent ? "skipped" : "failed", tlx_last_error());
      return failures ? 1 : absent ? 77 : 1;
    }
    CHECK(tlx_describe(machine, &about) == TLX_OK && strcmp(about.target, "sm_90a") == 0 && about.processor_count > 0);
    load_errors(machine);
    launches(machine, results);
  }
  printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
