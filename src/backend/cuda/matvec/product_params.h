// What the parameters of all kernels of products say alike.
#pragma once

#include "backend/cuda/device_attribute.h"
#include "backend/cuda/matvec/matvec.h"

namespace tokamak::cuda {

// Everything of the arguments but x and ids.
template <class Params>
void set_product(Params& p, const MatvecArgs& a) {
  p.lanes[0] = {static_cast<const uint8_t*>(a.weights), a.scale, a.bias};
  p.lanes[1] = {static_cast<const uint8_t*>(a.up), a.up_scale, a.up_bias};
  p.n_lanes = a.up ? 2 : 1;
  p.n_rows = a.n_rows;
  p.k = a.k;
  p.y = a.y;
  p.y_stride = a.y_stride;
  p.n_cols = a.n_cols;
  p.residual = a.residual;
  p.residual_stride = a.residual_stride;
  p.glu = a.glu;
  p.alpha = a.alpha;
  p.limit = a.limit;
  p.overlap = a.overlap;
  p.n_sms = device_attribute(cudaDevAttrMultiProcessorCount, 1);
}

}  // namespace tokamak::cuda
