// Launch functions by type: what the .cu files define and the table of columns.cpp lists.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/matvec/packed_types.h"
#include "backend/cuda/matvec/params.h"

namespace tokamak::cuda {

// parts: at least one; params holds the largest n_rows of them, and the up matrix of a GLU.
using LaunchColumns = cudaError_t(const MatvecParams& params, const MatvecParts& parts, cudaStream_t stream);
#define TOKAMAK_DECLARE(dtype, code) LaunchColumns columns_##code;
TOKAMAK_PACKED_TYPES(TOKAMAK_DECLARE)
#undef TOKAMAK_DECLARE

// x: f32 rows; halves: the form of halves.h.
cudaError_t run_halve(const float* x, int64_t n_cols, int64_t k, int64_t x_stride, uint8_t* halves, bool overlap,
                      cudaStream_t stream);

}  // namespace tokamak::cuda
