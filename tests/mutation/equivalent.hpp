// Mutants that are no faults, each with the reason. A row fits a mutant by operator, kernel and site (regular expressions over the whole text).
#pragma once

namespace tlx::mutation {

struct equivalent {
  const char* name;    // of the operator
  const char* kernel;  // "NAME TARGET"
  const char* site;
  const char* proof;
};

inline constexpr equivalent equivalents[] = {
    {"drop-init-fence", ".*", ".*", "the fence shows initialisations to other CTAs of a cluster; these kernels have none, and inside a CTA the barrier that follows is enough"},
    {"drop-relinquish", ".*", ".*", "the permit is given back at the latest when the CTA ends; the CTA allocates once, so that it changes when others may allocate, never what they get"},
    {"drop-warp-barrier", ".* sm_90a", "barrier.warp in load #0", "the role ends here: behind it the lanes of the warp only leave the kernel"},
    {"drop-warp-barrier", ".* sm_10[03]a", "barrier.warp in (load|mma) #0", "the role ends here: behind it the lanes only come to the barrier of the CTA, which counts each of them"},
    {"wgmma-wait-more", "gemm.* sm_90a", "wgmma.wait in mma.epilogue 0 of an accumulator #0", "the wait for all groups right after the loop has come before, and no group was committed since"},
    {"trip-more", "(gemm|gemm_gelu|gemm_bf16_128x256_nt) sm_90a", "for in mma.epilogue, inner #0", "stores of a waiting tile leave in this loop: its products stand under i < rounds and its stores under i < pieces, so one round more does nothing"},
    {"drop-tensor-fence", "gemm.* sm_10[03]a", "tmem.fence in cta (before|after) #0", "to give tensor memory back, all accesses must be over and ordered before; the wait for the loads and the barrier do that, and no access follows"},
    {"drop-tensor-fence", ".*attention.* sm_10[03]a", "tmem.fence in cta (before #1|after #3)", "to give tensor memory back, all accesses must be over and ordered before; the wait for the loads and the barrier do that, and no access follows"},
    {"drop-tensor-fence", "product sm_10[03]a", "tmem.fence in cta (before #0|after #1)", "to give tensor memory back, all accesses must be over and ordered before; the wait for the loads and the barrier do that, and no access follows"},
    {"keep-phase", "gemm(?!.*128x128).* sm_10[03]a", "var.set in load, ab_parity #4", "the last wait of the role has read the cell; nobody reads it again"},
    {"keep-stage", "gemm(?!.*128x128).* sm_10[03]a", "var.set in load, ab_stage #4", "the last wait of the role has read the cell; nobody reads it again"},
    {"keep-phase", "gemm.*128x128(?!.*threads).* sm_10[03]a", "var.set in load, ab_parity #5", "the last wait of the role has read the cell; nobody reads it again"},
    {"keep-stage", "gemm.*128x128(?!.*threads).* sm_10[03]a", "var.set in load, ab_stage #5", "the last wait of the role has read the cell; nobody reads it again"},
    {"keep-phase", "gemm.*threads sm_10[03]a", "var.set in load, ab_parity #3", "the last wait of the role has read the cell; nobody reads it again"},
    {"keep-stage", "gemm.*threads sm_10[03]a", "var.set in load, ab_stage #3", "the last wait of the role has read the cell; nobody reads it again"},
    {"keep-phase", "(.*attention.*|product) sm_10[03]a", "var.set in cta, acc_parity #[01]", "the accumulator is read once, by the wait before; nobody reads the cell again"},
    {"drop-store-wait", "(.*attention.*|product|scale) .*", "tma.wait in cta 0 #0", "it frees the staging buffer for the first store, and no store came before"},
    {"store-wait-more", "(.*attention.*|product|scale) .*", "tma.wait in cta 0 #0", "it frees the staging buffer for the first store, and no store came before"},
    {"drop-warp-barrier", "(.*attention.*|product|scale) .*", "barrier.warp in cta #0", "it hands on the wait for the staging buffer before the first store, and no store came before"},
    {"drop-proxy-fence", ".*attention.* sm_90a", "fence.async in cta #0", "the fence behind the zeroing of the next slot, by the same threads and before the first product, covers this zeroing too"},
    {"drop-proxy-fence", ".*attention.* sm_10[03]a", "fence.async in cta #[02]", "the fence behind the next write, by the same threads and before the product that reads, covers this zeroing too"},
    {"drop-cta-barrier", ".*attention.* sm_90a", "barrier.cta in cta #1", "the barrier behind the zeroing of the next slot comes before the first product, and the same branch leads to both"},
    {"drop-cta-barrier", ".*attention.* sm_10[03]a", "barrier.cta in cta #[13]", "the barrier behind the next write comes before the product that reads this slot"},
    {"drop-cta-barrier", ".*attention.* sm_10[03]a", "barrier.cta in cta #[57]", "every warp has itself waited for the products that read the dead slot before it stages its rows there"},
    {"drop-store-wait", "(block_attention.*d128|product) .*", "tma.wait in cta 1 #[01]", "each of the two stores has a staging buffer of its own, used once"},
    {"store-wait-more", "(block_attention.*d128|product) .*", "tma.wait in cta 1 #[01]", "each of the two stores has a staging buffer of its own, used once"},
    {"drop-warp-barrier", "(block_attention.*d128|product) .*", "barrier.warp in cta #2", "it hands on the wait for the second staging buffer, which is used once"},
    {"drop-store-commit", "(block_attention.*d128|product) .*", "tma.commit in cta #0", "the next commit takes the first store into its group, and the only wait that matters is the last, for all groups"},
    {"wrong-slot", "(block_attention.*d128|product) .*", "shared.base in cta, [qa] slots #1", "the second staging buffer moves from the dead slot of one operand into that of the other, which the same product was the last to read"},
    {"drop-cta-barrier", "(attention|block_attention.*d64) sm_10[03]a", "barrier.cta in cta #8", "the barrier before the staging of the result comes after every load from tensor memory already"},
    {"drop-cta-barrier", "product sm_10[03]a", "barrier.cta in cta #1", "every warp has itself waited for the product that read the dead slot before it stages its rows there"},
    {"drop-cta-barrier", "(copy|axpy|row_softmax) .*", "barrier.cta in cta #0", "the kernel has neither shared memory nor barriers, so there is nothing to order"},
    {"drop-proxy-fence", "stages .*", "fence.async in (clip #1|store #0)", "threads fill this ring and threads drain it: no asynchronous access to its slots is there to be fenced from"},
    {"alias-staging", ".*attention.* sm_10[03]a", "shared.base in cta, staging #2", "the staged operand moves into the slot of q, which the first product, complete by then, was the last to read"},
    {"drop-wgmma-commit", "block_attention_b?f16_b256_d\\d+ sm_90a", "wgmma.commit in work #[02]", "the next commit takes these products into its group, and nothing touches their registers before the wait for all groups"},
};

}  // namespace tlx::mutation
