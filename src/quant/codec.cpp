#include "quant/codec.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "base/check.h"
#include "quant/codecs.h"

namespace tokamak {

namespace {

bool all_finite(const float* x, int64_t n) {
  int32_t odd_ones = 0;  // a plain loop without an exit runs several elements at a time
  for (int64_t i = 0; i < n; ++i) odd_ones |= (std::bit_cast<int32_t>(x[i]) & 0x7FFFFFFF) >= 0x7F800000;
  return odd_ones == 0;
}

Error non_finite_element(const float* x, const DTypeRow& row) {
  int64_t i = 0;
  while (std::isfinite(x[i])) ++i;
  return Error{.code = ErrorCode::bad_tensor,
               .what = fmt::format("element {} is {} and cannot be stored as {}", i, x[i], row.name)};
}

}  // namespace

void decode_row(DType type, const std::byte* blocks, int64_t n_elems, float* out) {
  const int64_t block_elems = dtype_row(type).block_elems;
  CHECK(n_elems >= 0 && n_elems % block_elems == 0, n_elems, block_elems);
  codec_of(type).decode(blocks, n_elems / block_elems, out);
}

bool can_encode(DType type) { return codec_of(type).encode != nullptr; }

Result<void> encode_row(DType type, const float* x, int64_t n_elems, const float* importance, std::byte* out) {
  const DTypeRow& row = dtype_row(type);
  const Codec& codec = codec_of(type);
  CHECK(n_elems >= 0 && n_elems % row.block_elems == 0, n_elems, row.block_elems);
  if (!codec.encode)
    return Error{.code = ErrorCode::unsupported,
                 .what = fmt::format("no encoder for type {}", row.name),
                 .hint = "choose another type"};
  const bool holds_non_finite = row.block_elems == 1 && codec.fault;  // the plain float types
  if (holds_non_finite) {
    codec.encode(x, n_elems, importance, out);
    return {};
  }
  if (!all_finite(x, n_elems)) return non_finite_element(x, row);
  const int64_t n_blocks = n_elems / row.block_elems;
  codec.encode(x, n_blocks, importance, out);
  for (int64_t b = 0; codec.fault && b < n_blocks; ++b)
    if (codec.fault(out + b * row.block_bytes))
      return Error{.code = ErrorCode::bad_tensor,
                   .what = fmt::format("the values of block {} are too large for {}", b, row.name),
                   .hint = "store this tensor as BF16 or F32"};
  return {};
}

Result<void> validate_rows(DType type, std::span<const std::byte> bytes, int64_t row_elems,
                           std::string_view tensor_name) {
  const DTypeRow& row = dtype_row(type);
  CHECK(row_elems > 0 && row_elems % row.block_elems == 0, row_elems, row.block_elems);
  const size_t row_bytes = dtype_bytes(type, static_cast<uint64_t>(row_elems));
  CHECK(bytes.size() % row_bytes == 0, bytes.size(), row_bytes);
  const auto fault = codec_of(type).fault;
  if (!fault) return {};
  for (size_t offset = 0; offset < bytes.size(); offset += row.block_bytes)
    if (const char* what = fault(bytes.data() + offset))
      return Error{.code = ErrorCode::bad_tensor,
                   .what = what,
                   .where = fmt::format("tensor {} ({}), row {}, block {}", tensor_name, row.name, offset / row_bytes,
                                        offset % row_bytes / row.block_bytes),
                   .hint = "the file is damaged or was written by a broken converter"};
  return {};
}

}  // namespace tokamak
