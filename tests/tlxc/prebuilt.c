/* The end of the prebuild path: files of `tlxc build`, loaded and launched by the C interface in a program without a compiler.
 * Usage: prebuilt MACHINE MANIFEST CODE, or prebuilt MACHINE BUNDLE NAME CONFIGURATION SHA256: y += alpha * x for a 37 x 101 part of wider rows; 0 when every element is right and nothing else changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tlx/c.h"

enum { rows = 37, cols = 101, pitch = 110 };

static char* whole_file(const char* path, size_t* bytes) {
  FILE* file = fopen(path, "rb");
  char* text;
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  *bytes = (size_t)ftell(file);
  rewind(file);
  text = malloc(*bytes + 1);
  if (text && fread(text, 1, *bytes, file) != *bytes) *bytes = 0;
  fclose(file);
  return text;
}

static void need(int status, const char* what) {
  if (status == TLX_OK) return;
  printf("%s: %s\n", what, tlx_last_error());
  exit(1);
}

/* As a file and from memory: both must give the kernel, and the bundle may be closed before the kernel is used. */
static void load_from_bundle(tlx_machine* machine, char** argv, tlx_kernel** kernel) {
  size_t bytes = 0;
  char* memory = whole_file(argv[2], &bytes);
  tlx_bundle* bundle = NULL;
  tlx_bundle_info info;
  tlx_bundle_entry entry;
  need(memory ? TLX_OK : TLX_USER_ERROR, argv[2]);
  need(tlx_bundle_open_memory(memory, bytes, argv[5], &bundle), "open from memory");
  need(tlx_load_from(machine, bundle, argv[3], argv[4], kernel), "load from memory");
  tlx_release(*kernel);
  tlx_bundle_close(bundle);
  free(memory);
  need(tlx_bundle_open(argv[2], argv[5], &bundle), "open");
  need(tlx_bundle_describe(bundle, &info), "describe");
  need(tlx_bundle_entry_at(bundle, info.entry_count - 1, &entry), "entry");
  printf("%s %s, %d entries, last %s %s %s\n", info.package, info.package_version, (int)info.entry_count, entry.name, entry.configuration, entry.target);
  if (tlx_bundle_entry_at(bundle, info.entry_count, &entry) != TLX_USER_ERROR || strcmp(tlx_last_error_id(), "bundle-entry-index") != 0) exit(1);
  need(tlx_load_from(machine, bundle, argv[3], *argv[4] ? argv[4] : NULL, kernel), "load");
  tlx_bundle_close(bundle);
}

int main(int argc, char** argv) {
  static float x[rows * pitch], y[rows * pitch];
  const int64_t extents[2] = {rows, cols}, strides[2] = {pitch, 1};
  const float alpha = 2.5f;
  tlx_machine* machine = NULL;
  tlx_kernel* kernel = NULL;
  tlx_value values[3];
  size_t manifest_bytes = 0, code_bytes = 0;
  uint64_t at_x = 0, at_y = 0;
  int i, wrong = 0;
  char *manifest = NULL, *code = NULL;
  if (argc != 4 && argc != 6) return 2;
  if (argc == 4) {
    manifest = whole_file(argv[2], &manifest_bytes);
    code = whole_file(argv[3], &code_bytes);
    if (!manifest || !code) return 2;
  }
  for (i = 0; i < rows * pitch; ++i) {
    x[i] = (float)(i % 251) - 100.0f;
    y[i] = (float)(i % 13);
  }
  need(tlx_open(argv[1], &machine), "open");
  if (argc == 6) load_from_bundle(machine, argv, &kernel);
  else need(tlx_load(machine, manifest, manifest_bytes, code, code_bytes, &kernel), "load");
  need(tlx_allocate(machine, sizeof x, &at_x), "allocate");
  need(tlx_allocate(machine, sizeof y, &at_y), "allocate");
  need(tlx_write(machine, at_x, x, sizeof x), "write");
  need(tlx_write(machine, at_y, y, sizeof y), "write");
  memset(values, 0, sizeof values);
  for (i = 0; i < 2; ++i) {
    values[i].address = i == 0 ? at_x : at_y;
    values[i].rank = 2;
    values[i].extents = extents;
    values[i].strides = strides;
  }
  values[2].scalar = &alpha;
  values[2].scalar_bytes = sizeof alpha;
  need(tlx_launch(kernel, values, 3, 0), "launch");
  need(tlx_wait(machine), "wait");
  need(tlx_read(machine, y, at_y, sizeof y), "read");
  for (i = 0; i < rows * pitch; ++i) {
    const float before = (float)(i % 13), expected = i % pitch < cols ? before + alpha * x[i] : before;
    wrong += y[i] != expected; /* halves and small integers: every sum is exact */
  }
  printf("%s: %d of %d wrong\n", tlx_kernel_name(kernel), wrong, rows * pitch);
  tlx_release(kernel);
  tlx_close(machine);
  free(manifest);
  free(code);
  return wrong ? 1 : 0;
}
