// Rows of any tensor type <-> f32. The scalar definition that every fast kernel is compared with.
// Out of scope: layouts of the backends, threads, choosing a type per tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "tensor/dtypes.h"

namespace tokamak {

// out[n_elems] = the row's values in f32, bit for bit as the `gguf` Python package decodes them.
//   blocks  dtype_bytes(type, n_elems) bytes, any alignment, any bit pattern (see validate_rows)
//   n_elems >= 0, a multiple of the type's block (CHECKed)
//   out     must not overlap blocks
// NVFP4: the tensor's separate `.scale` is not applied. Thread-safe.
void decode_row(DType type, const std::byte* blocks, int64_t n_elems, float* out);

// out = the row in `type`: the bytes of the `gguf` package where it encodes the type and importance is null, else the
// least weighted squared error that the type's search finds.
//   x           n_elems values; block types refuse inf and NaN
//   importance  null (all equal), or n_elems weights >= 0 of which the proportions within a block count; plain types,
//               Q8_0, Q8_1 and Q8_K ignore it
//   out         dtype_bytes(type, n_elems) bytes, must not overlap x; undefined after an error
// Errors: unsupported (no encoder; names the type), bad_tensor (a non-finite value, or one too large for the type's
// scale). Same input, same bytes. Thread-safe.
Result<void> encode_row(DType type, const float* x, int64_t n_elems, const float* importance, std::byte* out);
bool can_encode(DType type);

// Refuses bytes that would decode to inf or NaN: non-finite scales, and elements of the plain float types.
//   bytes      whole rows of row_elems elements
//   row_elems  > 0, a multiple of the type's block (CHECKed), as is the number of rows
// Errors: bad_tensor, naming the tensor and the first bad row and block. Thread-safe.
Result<void> validate_rows(DType type, std::span<const std::byte> bytes, int64_t row_elems,
                           std::string_view tensor_name);

}  // namespace tokamak
