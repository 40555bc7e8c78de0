// Must not compile: wgmma has no tiles of 20 columns. The message shows the extent and the step.
#include "tlx/tile/fragments.hpp"

constexpr tlx::tile::layout accumulator = tlx::tile::wgmma_accumulator(64, 20, 4);
