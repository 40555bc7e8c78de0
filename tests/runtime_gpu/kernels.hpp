// Hand-written PTX for the GPU tests.
#pragma once

namespace ptx {

/// c[i] = a[i] + b[i] for i < n.
inline const char* const add = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry add(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u32 pn)
.reqntid 128
{
  .reg .pred %out; .reg .b32 %i, %n, %t, %b; .reg .b64 %a, %c, %d, %o; .reg .f32 %x, %y;
  mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mad.lo.u32 %i, %b, 128, %t;
  ld.param.u32 %n, [pn]; setp.ge.u32 %out, %i, %n; @%out ret;
  ld.param.u64 %a, [pa]; ld.param.u64 %c, [pb]; ld.param.u64 %d, [pc];
  mul.wide.u32 %o, %i, 4; add.u64 %a, %a, %o; add.u64 %c, %c, %o; add.u64 %d, %d, %o;
  ld.global.f32 %x, [%a]; ld.global.f32 %y, [%c]; add.f32 %x, %x, %y; st.global.f32 [%d], %x;
  ret;
}
)";

/// Block (x, y) copies the 32 x 8 f32 box at (32 x, 8 y) from one map to the other, through dynamic shared memory.
inline const char* const tma_copy = R"(
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 tile[];
.visible .entry tma_copy(.param .align 128 .b8 from[128], .param .align 128 .b8 to[128])
.reqntid 32
{
  .shared .align 8 .b64 bar;
  .reg .pred %p; .reg .b32 %t, %x, %y, %s, %m; .reg .b64 %f, %o;
  mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p ret;
  mov.u32 %x, %ctaid.x; mul.lo.u32 %x, %x, 32; mov.u32 %y, %ctaid.y; mul.lo.u32 %y, %y, 8;
  mov.u32 %s, tile; mov.u32 %m, bar;
  mov.b64 %f, from; cvta.param.u64 %f, %f; mov.b64 %o, to; cvta.param.u64 %o, %o;
  mbarrier.init.shared::cta.b64 [%m], 1;
  fence.mbarrier_init.release.cluster;
  fence.proxy.async.shared::cta;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%m], 1024;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%f, {%x, %y}], [%m];
again:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [%m], 0;
  @!%p bra again;
  fence.proxy.async.shared::cta;
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%o, {%x, %y}], [%s];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}
)";

/// Three warpgroups that trade registers; thread t writes t.
inline const char* const trade = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry trade(.param .u64 out)
.reqntid 384
.minnctapersm 1
{
  .reg .pred %p; .reg .b32 %t; .reg .b64 %a, %o;
  mov.u32 %t, %tid.x; setp.ge.u32 %p, %t, 128; @%p bra consumer;
  setmaxnreg.dec.sync.aligned.u32 40;
  bra done;
consumer:
  setmaxnreg.inc.sync.aligned.u32 232;
done:
  ld.param.u64 %a, [out]; mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o; st.global.u32 [%a], %t;
  ret;
}
)";

inline const char* const trap = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry fault()
{
  trap;
}
)";

}  // namespace ptx
