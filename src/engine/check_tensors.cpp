#include "engine/check_tensors.h"

#include "quant/codec.h"

namespace tokamak {

Result<void> check_tensors(const GgufFile& file, const Progress& progress) {
  uint64_t n_done = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    TRY(validate_rows(tensor.type, tensor.data, tensor.shape.row_elems(), tensor.name));
    file.forget(tensor);
    n_done += tensor.n_bytes;
    if (progress && !progress(static_cast<double>(n_done) / static_cast<double>(file.n_bytes())))
      return Error{.code = ErrorCode::cancelled, .what = "the check of the tensors was cancelled"};
  }
  return {};
}

}  // namespace tokamak
