// Launch functions by type: what the .cu files define and the table of matvec.cpp lists. Capturable: no allocation, no
// synchronization.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/matvec/params.h"

namespace tokamak::cuda {

struct MatvecArgs;
struct MatvecGroupArgs;
// For launches of this folder and of columns/.
MatvecParams params_of(const MatvecArgs& args);
MatvecParts parts_of(const MatvecParams& params);                          // itself as the only part
MatvecParams params_of(const MatvecGroupArgs& group, MatvecParts& parts);  // at least one and not too many

// parts: null for a single matrix.
using LaunchMatvec = cudaError_t(const MatvecParams& params, const MatvecParts* parts, cudaStream_t stream);
LaunchMatvec launch_f32, launch_f16, launch_bf16;
LaunchMatvec launch_q4_0, launch_q4_1, launch_q5_0, launch_q5_1, launch_q8_0, launch_mxfp4, launch_nvfp4, launch_iq4_nl,
    launch_iq4_xs;
LaunchMatvec launch_q2_k, launch_q3_k, launch_q4_k, launch_q5_k, launch_q6_k, launch_q1_0, launch_q2_0, launch_tq2_0;
LaunchMatvec launch_iq2_xxs, launch_iq2_xs, launch_iq2_s, launch_iq3_xxs, launch_iq3_s, launch_iq1_s, launch_iq1_m;

}  // namespace tokamak::cuda
