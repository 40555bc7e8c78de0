/* The runtime on aarch64, under an emulator: it opens the bundle that is linked in, reads all of it, and says that there is no driver. */
#include <stdio.h>
#include <string.h>

#include "tlx/c.h"

extern const unsigned char kernels_bundle[], kernels_bundle_end[];

int main(void) {
  tlx_bundle* bundle = NULL;
  tlx_bundle_info info;
  tlx_bundle_entry entry;
  tlx_machine* machine = NULL;
  if (tlx_bundle_open_memory(kernels_bundle, (size_t)(kernels_bundle_end - kernels_bundle), NULL, &bundle) != TLX_OK) return puts(tlx_last_error()), 1;
  if (tlx_bundle_describe(bundle, &info) != TLX_OK || tlx_bundle_entry_at(bundle, 0, &entry) != TLX_OK) return puts(tlx_last_error()), 1;
  printf("%d entries, first %s for %s\n", (int)info.entry_count, entry.name, entry.target);
  tlx_bundle_close(bundle);
  if (tlx_open("gpu:0", &machine) != TLX_DEVICE_ERROR || strcmp(tlx_last_error_id(), "driver-missing") != 0) return puts(tlx_last_error()), 1;
  puts("and no driver");
  return 0;
}
