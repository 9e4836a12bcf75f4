#include "backend/cuda/tables/packed_rows.h"

#include "backend/cuda/ops/launch.h"
#include "backend/cuda/tables/element.h"

namespace tokamak::cuda {

namespace {
constexpr int kThreads = 128;

// A thread per element: those of a unit lie in one warp, which loads it once.
template <class P>
__global__ void packed_rows_kernel(PackedRowsArgs a, Geometry g) {
  start_after_previous_kernel();
  const int64_t n = a.n_rows * a.row_elems;
  for (int64_t i = first_item(); i < n; i += item_step()) {
    const int64_t r = i / a.row_elems, col = i % a.row_elems;
    const int64_t row = a.ids[r / a.n_per_token * a.ids_stride + r % a.n_per_token];
    a.y[r * a.y_stride + col] = packed_element<P>(static_cast<const uint8_t*>(a.table), g, row, col);
  }
}
}  // namespace

cudaError_t launch_packed_rows(const PackedRowsArgs& args, cudaStream_t stream) {
  cudaError_t status = cudaErrorInvalidValue;
  with_packed_type(args.dtype, [&]<class P>(P) {
    status = launch_overlapped(packed_rows_kernel<P>, grid_for(args.n_rows * args.row_elems, kThreads), kThreads, 0,
                               stream, args, geometry_of<P>(args.n_table_rows, args.row_elems));
  });
  return status;
}

}  // namespace tokamak::cuda
