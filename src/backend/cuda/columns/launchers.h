// Launch functions by type: what the .cu files define and the table of columns.cpp lists.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/matvec/params.h"

namespace tokamak::cuda {

// parts: at least one; params holds the largest n_rows of them, and the up matrix of a GLU.
using LaunchColumns = cudaError_t(const MatvecParams& params, const MatvecParts& parts, cudaStream_t stream);
LaunchColumns columns_f16, columns_bf16;
LaunchColumns columns_q4_0, columns_q4_1, columns_q5_0, columns_q5_1, columns_q8_0, columns_mxfp4, columns_nvfp4,
    columns_iq4_nl, columns_iq4_xs;
LaunchColumns columns_q2_k, columns_q3_k, columns_q4_k, columns_q5_k, columns_q6_k, columns_q1_0, columns_q2_0,
    columns_tq2_0;
LaunchColumns columns_iq2_xxs, columns_iq2_xs, columns_iq2_s, columns_iq3_xxs, columns_iq3_s, columns_iq1_s,
    columns_iq1_m;

// x: f32 rows; halves: the form of halves.h.
cudaError_t run_halve(const float* x, int64_t n_cols, int64_t k, int64_t x_stride, uint8_t* halves, bool overlap,
                      cudaStream_t stream);

}  // namespace tokamak::cuda
