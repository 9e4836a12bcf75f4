#include "backend/cuda/matvec/kernel.cuh"
#include "backend/cuda/matvec/launchers.h"
#include "backend/cuda/matvec/types_grid.h"

namespace tokamak::cuda {

cudaError_t launch_iq2_xxs(const MatvecParams& p, cudaStream_t stream) { return launch<IQ2_XXS>(p, stream); }
cudaError_t launch_iq2_xs(const MatvecParams& p, cudaStream_t stream) { return launch<IQ2_XS>(p, stream); }
cudaError_t launch_iq2_s(const MatvecParams& p, cudaStream_t stream) { return launch<IQ2_S>(p, stream); }
cudaError_t launch_iq3_xxs(const MatvecParams& p, cudaStream_t stream) { return launch<IQ3_XXS>(p, stream); }
cudaError_t launch_iq3_s(const MatvecParams& p, cudaStream_t stream) { return launch<IQ3_S>(p, stream); }
cudaError_t launch_iq1_s(const MatvecParams& p, cudaStream_t stream) { return launch<IQ1_S>(p, stream); }
cudaError_t launch_iq1_m(const MatvecParams& p, cudaStream_t stream) { return launch<IQ1_M>(p, stream); }

}  // namespace tokamak::cuda
