// A kernel in text that has one of everything the text form knows.
#pragma once
#include <string>

inline const std::string& sample() {
  static const std::string text = R"IR(tlx.ir 1
kernel @sample target("sm_90a") warps(4) cluster(2, 1, 1) blocks(1) shared(1024) grid("(ceil_div x.0 64)", "1", "1") @"sample.cpp":3 [
  map {parameter = 0, box = [64, 8], swizzle = 128, promotion = 256}
  place {ring = "a \"b\"", part = "full", offset = 1000, bytes = 8, stages = 2} @"sample.cpp":4
  (%x.0 : view<bf16 2>)
  (%scale.1 : f32)
  %2 = ring.make {name = "ab"} : ring<4: shared<bf16 128x64 sw128>, acc<f32 128x256>> @"sample.cpp":4
  %3 = const {value = 0} : s32
  %4 = const {value = 1.5} : f32 @"a \"quoted\" file.cpp":5
  %5 = const {value = -inf} : f32
  %6 = extent %x.0 {axis = 0} : s32
  %cell.7 = var.new %3 : var<s32>
  %8 = const {value = 1} : s32
  for %3, %6, %8 {tiles = 1} [
    (%i.9 : s32)
    %10, %11 = ring.fill %2 : shared<bf16 128x64 sw128>, acc<f32 128x256>
    tile.load %10, %x.0, %i.9, %3 {tile_axes = [0, 1], jagged = 0, hint = 0} @"sample.cpp":9
    ring.close %10
    %12 = cmp %i.9, %3 {is = "gt"} : bool
    if %12 [
      var.set %cell.7, %i.9
    ] [
    ]
  ]
  while [
    %13 = var.get %cell.7 : s32
    %14 = cmp %13, %3 {is = "lt"} : bool
    yield %14
  ] [
  ]
  %15 = iota {axis = 1} : tile<s32 4x64>
  %16 = iota {axis = 0} : tile<s32 8x64 layout<8x64 reg[(0,1),(1,0),(2,0),(4,0)] lane[(0,2),(0,4),(0,8),(0,16),(0,32)]>>
]
)IR";
  return text;
}
