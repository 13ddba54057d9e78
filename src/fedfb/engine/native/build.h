/* The whole kernel for one REAL and one instruction set: a source file of its own for each. */
#include "job.h"
#ifdef AVX2
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#endif
#include "vectors.h"
#include "later_layers.h"
#include "first_layer.h"
#include "block.h"
#include "clip.h"
#include "passes.h"
#include "sparse.h"
#include "curvature.h"

const Kernel KERNEL = {
    INSTRUCTIONS, VECTOR_BYTES, scratch_bytes, train_epoch,   add_gradient,
    add_losses,   logits,       count_nonzero, compress, train_private,
    add_curvature,
};

#if defined(AVX2) && defined(__clang__)
#pragma clang attribute pop
#endif
