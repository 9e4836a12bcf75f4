// Quantization of a group by one warp, for kernels that make its values.
#pragma once

#include "backend/cuda/matvec/activations.h"

namespace tokamak::cuda {

// Elements d to d + 31 of a column of k (activations.h), one per lane; low: the low bytes too.
__device__ __forceinline__ void quantize_group(uint8_t* column, int64_t k, int64_t d, float value, int lane, bool low) {
  const uint32_t largest = __reduce_max_sync(~0u, __float_as_uint(value) & 0x7FFFFFFF);
  const Q8Scale scale = q8_scale(__uint_as_float(largest));
  const int code = scale.inverse == 0.0f ? 0 : __float2int_rn(value * scale.inverse);
  const int s0 = __reduce_add_sync(~0u, lane < 16 ? code : 0), s1 = __reduce_add_sync(~0u, lane < 16 ? 0 : code);
  column[d + lane] = static_cast<uint8_t>(code);
  if (lane == 0)
    reinterpret_cast<uint2*>(column + k)[d / 32] =
        make_uint2(__float_as_uint(scale.d), (s0 & 0xFFFF) | static_cast<uint32_t>(s1) << 16);
  if (!low) return;
  const int low_code =
      scale.inverse == 0.0f ? 0 : __float2int_rn(q8_low(value, scale.inverse, static_cast<float>(code)));
  const int l0 = __reduce_add_sync(~0u, lane < 16 ? low_code : 0),
            l1 = __reduce_add_sync(~0u, lane < 16 ? 0 : low_code);
  column += q8_low_offset(k);
  column[d + lane] = static_cast<uint8_t>(low_code);
  if (lane == 0) reinterpret_cast<uint32_t*>(column + k)[d / 32] = (l0 & 0xFFFF) | static_cast<uint32_t>(l1) << 16;
}

}  // namespace tokamak::cuda
