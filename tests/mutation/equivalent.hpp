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
    {"trip-more", "(gemm|gemm_gelu|gemm_bf16_128x256_nt|gemm_bf16_64x72_nt_cluster4_bias) sm_90a", "for in mma.epilogue, inner #0", "stores of a waiting tile leave in this loop: its products stand under i < rounds and its stores under i < pieces, so one round more does nothing"},
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
    // Clusters.
    {"drop-cta-barrier", ".*_cluster\\d.* sm_90a", "barrier.cta in cta #0", "before it only barriers are initialised: fence.init publishes that to the cluster, and the barrier of the cluster right before gathers all threads"},
    {"drop-cta-barrier", "gemm_bf16_.*_cluster\\d.* sm_10[03]a", "barrier.cta in cta #1", "the barrier of the cluster right before gathers all threads of the CTA, whose loads from tensor memory are waited for; no access follows"},
    {"keep-phase", "gemm_bf16_64x72_nt_cluster4_bias sm_10[03]a", "var.set in load, ab_parity #12", "the last wait of the role has read the cell; nobody reads it again"},
    {"keep-stage", "gemm_bf16_64x72_nt_cluster4_bias sm_10[03]a", "var.set in load, ab_stage #12", "the last wait of the role has read the cell; nobody reads it again"},
    // Attention over any number of keys, Hopper.
    {"drop-wgmma-wait", "flash_attention_bf16_d64(_jagged)? sm_90a", "wgmma.wait in attend 0 #0", "the slot of v that is released behind it is filled for the next tile at the earliest, and load waits for q's only slot before that, which is released behind a wait for all products"},
    {"wgmma-wait-more", "flash_attention_bf16_d64(_jagged)? sm_90a", "wgmma.wait in attend 0 #0", "the slot of v that is released behind it is filled for the next tile at the earliest, and load waits for q's only slot before that, which is released behind a wait for all products"},
    {"drop-wgmma-wait", "flash_attention_bf16_d64(_jagged)? sm_90a", "wgmma.wait in attend 0 #1", "the release of v right before has waited for all products, and no group was committed since"},
    {"wgmma-wait-more", "flash_attention_bf16_d64(_jagged)? sm_90a", "wgmma.wait in attend 0 #1", "the release of v right before has waited for all products, and no group was committed since"},
    {"wgmma-wait-more", "flash_attention_bf16_d64(_jagged)? sm_90a", "wgmma.wait in attend 0 of an accumulator #2", "the releases of v and q right before have waited for all products, and no group was committed since"},
    {"drop-wgmma-fence", "flash_attention_bf16_d64(_jagged)? sm_90a", "wgmma.fence in attend #2", "the result is rescaled and the exponentials are converted before the fence of the scores' products, which holds for all registers; only these products were issued since"},
    {"release-early", "flash_attention_bf16_d64(_jagged)? sm_90a", "mbarrier.arrive in attend, k empty #1", "load fills the slot of block i of k again behind the fill of block i + 1 of v, whose slot is released behind a wait for the product of block i - 1 of v, which was committed behind that of block i of k; groups end in order"},
    {"drop-proxy-fence", "flash_attention_bf16_d64_jagged sm_90a", "fence.async in attend #[14]", "threads write zeros into the slot of v only, which the fence and the barrier right behind them have handed to the asynchronous proxy; since then only products read it"},
    {"drop-warp-barrier", "flash_attention_bf16_d64_jagged sm_90a", "barrier.warp in attend #[03]", "threads write zeros into the slot of v only, in front of a barrier of all warps of the role; since then only products read it, and their wait is one of the whole warp"},
    {"drop-arrive", "flash_attention_bf16_d64_right sm_90a", "mbarrier.arrive in attend, v empty #0", "the loop over blocks on the mask's diagonal makes at most one round, since 128 rows touch at most two blocks of 192 keys and the last is looked at before it: no slot of v is held there and no product is under way"},
    {"arrive-twice", "flash_attention_bf16_d64_right sm_90a", "mbarrier.arrive in attend, v empty #0", "the loop over blocks on the mask's diagonal makes at most one round, since 128 rows touch at most two blocks of 192 keys and the last is looked at before it: no slot of v is held there and no product is under way"},
    {"wrong-barrier", "flash_attention_bf16_d64_right sm_90a", "shared.base in attend, v empty #0", "the loop over blocks on the mask's diagonal makes at most one round, since 128 rows touch at most two blocks of 192 keys and the last is looked at before it: no slot of v is held there and no product is under way"},
    {"drop-wgmma-wait", "flash_attention_bf16_d64_right sm_90a", "wgmma.wait in attend 0 of an accumulator #1", "the loop over blocks on the mask's diagonal makes at most one round, since 128 rows touch at most two blocks of 192 keys and the last is looked at before it: no slot of v is held there and no product is under way"},
    {"drop-wgmma-wait", "flash_attention_bf16_d64_right sm_90a", "wgmma.wait in attend 0 #1", "the slot of v that is released behind it is filled for the next tile at the earliest, and load waits for q's only slot before that, which is released behind a wait for all products"},
    {"drop-wgmma-wait", "flash_attention_bf16_d64_right sm_90a", "wgmma.wait in attend 0 #2", "the release of v right before has waited for all products, and no group was committed since"},
    {"wgmma-wait-more", "flash_attention_bf16_d64_right sm_90a", "wgmma.wait in attend 0 of an accumulator #1", "the loop over blocks on the mask's diagonal makes at most one round, since 128 rows touch at most two blocks of 192 keys and the last is looked at before it: no slot of v is held there and no product is under way"},
    {"wgmma-wait-more", "flash_attention_bf16_d64_right sm_90a", "wgmma.wait in attend 0 #1", "the slot of v that is released behind it is filled for the next tile at the earliest, and load waits for q's only slot before that, which is released behind a wait for all products"},
    {"wgmma-wait-more", "flash_attention_bf16_d64_right sm_90a", "wgmma.wait in attend 0 #2", "the release of v right before has waited for all products, and no group was committed since"},
    {"wgmma-wait-more", "flash_attention_bf16_d64_right sm_90a", "wgmma.wait in attend 0 of an accumulator #3", "the releases of v and q right before have waited for all products, and no group was committed since"},
    {"drop-wgmma-fence", "flash_attention_bf16_d64_right sm_90a", "wgmma.fence in attend #[24]", "the result is rescaled and the exponentials are converted before the fence of the scores' products, which holds for all registers; only these products were issued since"},
    {"release-early", "flash_attention_bf16_d64_right sm_90a", "mbarrier.arrive in attend, k empty #[12]", "load fills the slot of block i of k again behind the fill of block i + 1 of v, whose slot is released behind a wait for the product of block i - 1 of v, which was committed behind that of block i of k; groups end in order"},
    // And Blackwell.
    {"drop-wait", "flash_attention_bf16_d64(_jagged)? sm_10[03]a", "mbarrier.wait in attend, p empty #[01]", "the product that read p last adds to o, and every thread has waited for o since: to rescale it in this tile, or to read it at the end of the tile before"},
    {"drop-wait", "flash_attention_bf16_d64(_jagged)? sm_10[03]a", "mbarrier.wait in attend, p full #[01]", "every thread fences what it has written to p, and the barrier of the role's four warps stands before the product that reads it"},
    {"drop-warp-barrier", "flash_attention_bf16_d64 sm_10[03]a", "barrier.warp in attend #[01]", "every thread fences what it has written to p, and the barrier of the role's four warps stands before the product that reads it"},
    {"drop-warp-barrier", "flash_attention_bf16_d64_jagged sm_10[03]a", "barrier.warp in attend #[02]", "every thread fences what it has written to p, and the barrier of the role's four warps stands before the product that reads it"},
    {"drop-warp-barrier", "flash_attention_bf16_d64_jagged sm_10[03]a", "barrier.warp in attend #[15]", "threads write zeros into the slot of v only, in front of a barrier of all warps of the role; since then only products read it"},
    {"drop-tensor-fence", "flash_attention_bf16_d64(_jagged)? sm_10[03]a", "tmem.fence in attend (before|after) #0", "the scores that the product overwrites were loaded before the fences and the barrier of the last product of the tile before; what was loaded since is o, whose next product has fences and a barrier of its own"},
    {"drop-cta-barrier", "flash_attention_bf16_d64(_jagged)? sm_10[03]a", "barrier.cta in attend #0", "the scores that the product overwrites were loaded before the fences and the barrier of the last product of the tile before; what was loaded since is o, whose next product has fences and a barrier of its own"},
    {"drop-tensor-fence", "flash_attention_bf16_d64(_jagged)? sm_10[03]a", "tmem.fence in attend (before #2|after #4)", "o was rescaled before the fences and the barrier of this round's scores, and no thread has touched tensor memory since"},
    {"drop-cta-barrier", "flash_attention_bf16_d64 sm_10[03]a", "barrier.cta in attend #2", "o was rescaled before the barrier of this round's scores, and the wait for p full orders the writes of all four warps before the product"},
    {"drop-cta-barrier", "flash_attention_bf16_d64_jagged sm_10[03]a", "barrier.cta in attend #3", "o was rescaled and v's last rows were cleared before the barrier of this round's scores, and the wait for p full orders the writes of all four warps before the product"},
    {"drop-cta-barrier", "flash_attention_bf16_d64_jagged sm_10[03]a", "barrier.cta in attend #[14]", "the barrier of the product that reads the cleared rows comes behind this one, in every thread"},
    {"drop-proxy-fence", "flash_attention_bf16_d64_jagged sm_10[03]a", "fence.async in attend #[03]", "the same threads fence what they write to p, behind it and before the product that reads the cleared rows"},
    {"drop-proxy-fence", "flash_attention_bf16_d64_jagged sm_10[03]a", "fence.async in attend #[26]", "threads write zeros into the slot of v only, which the fence and the barrier right behind them have handed to the asynchronous proxy; since then only products read it"},
    {"drop-tensor-fence", "flash_attention_bf16_d64(_jagged)? sm_10[03]a", "tmem.fence in cta (before|after) #0", "to give tensor memory back, all accesses must be over and ordered before; the wait for the loads and the barrier do that, and no access follows"},
    {"keep-phase", "flash_attention_bf16_d64(_jagged)? sm_10[03]a", "var.set in (load, (q_parity #1|k_parity #3|v_parity #3)|attend, p_parity #4)", "the last wait of the role for this ring has read the cell; nobody reads it again"},
    {"keep-stage", "flash_attention_bf16_d64(_jagged)? sm_10[03]a", "var.set in load, [kv]_stage #3", "the last wait of the role for this ring has read the cell; nobody reads it again"},
    {"alias-tensor", "flash_attention_bf16_d64(_jagged)? sm_10[03]a", "add in attend #0", "o moves onto the scores of the tile's first block: every warp has loaded them before the barrier in front of o's first product, and o before the barrier in front of the next tile's scores"},
    {"alias-tensor", "flash_attention_bf16_d64(_jagged)? sm_10[03]a", "add in attend #1", "later scores move onto those of the tile's first block: every warp has loaded the scores before the barrier in front of the next ones"},
    {"release-early", "flash_attention_bf16_d64(_jagged)? sm_10[03]a", "tcgen05.commit in attend, [kv] empty #[01]", "it moves behind the wait for a product: the products that read the slot have been issued before, and the commit waits for all that were"},
    {"release-early", "flash_attention_bf16_d64_jagged sm_10[03]a", "mbarrier.arrive in attend, v empty #[01]", "it moves behind the wait for a product and speaks for the zeros that threads wrote, which were fenced and met a barrier of all warps before; the commit to the same barrier speaks for the product"},
};

}  // namespace tlx::mutation
