// Any bytes: the validator says yes or a reason; after a yes every tensor lies inside the bytes, none overlaps another,
// and all of them together cover the data.
#include <algorithm>

#include "base/check.h"
#include "fuzz_target.h"
#include "safetensors/header.h"

using namespace tokamak;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  const auto bytes = std::as_bytes(std::span(data, n_bytes));
  const auto tensors = validate_safetensors(bytes, "fuzz");
  if (!tensors) {
    CHECK(!tensors.error().message().empty());
    return 0;
  }
  size_t n_covered = 0;
  const std::byte* last_end = nullptr;
  for (const SafetensorsTensor& tensor : *tensors) {
    CHECK(!tensor.name.empty() && tensor.shape.size() <= kMaxSafetensorsRank && !tensor.shape_text().empty());
    const auto n_bits = static_cast<uint64_t>(tensor.n_elements()) * number_type_row(tensor.type).n_bits;
    CHECK(tensor.data.size() * 8 == n_bits);
    if (tensor.data.empty()) continue;
    CHECK(tensor.data.data() >= bytes.data() && tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size());
    CHECK(last_end == nullptr || tensor.data.data() == last_end);
    last_end = tensor.data.data() + tensor.data.size();
    n_covered += tensor.data.size();
    float out[4];
    if (can_decode(tensor.type))
      decode_numbers(tensor.type, tensor.data.data(), 0, std::min<int64_t>(tensor.n_elements(), 4), out);
  }
  CHECK(last_end == nullptr || last_end == bytes.data() + bytes.size());
  CHECK(n_covered <= n_bytes);
  return 0;
}
