// Launch functions by type: what the .cu files define and the table of matvec.cpp lists. Capturable: no allocation, no
// synchronization.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/matvec/packed_types.h"
#include "backend/cuda/matvec/params.h"

namespace tokamak::cuda {

struct MatvecArgs;
struct MatvecGroupArgs;
// For launches of this folder and of columns/.
MatvecParams params_of(const MatvecArgs& args);
MatvecParts parts_of(const MatvecParams& params);                          // itself as the only part
MatvecParams params_of(const MatvecGroupArgs& group, MatvecParts& parts);  // at least one and not too many
// y_q8 from y, behind a product that did not write it.
cudaError_t quantize_result(const MatvecParams& params, cudaStream_t stream);

// parts: null for a single matrix.
using LaunchMatvec = cudaError_t(const MatvecParams& params, const MatvecParts* parts, cudaStream_t stream);
LaunchMatvec launch_f32;
#define TOKAMAK_DECLARE(dtype, code) LaunchMatvec launch_##code;
TOKAMAK_PACKED_TYPES(TOKAMAK_DECLARE)
#undef TOKAMAK_DECLARE

}  // namespace tokamak::cuda
