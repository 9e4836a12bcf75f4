// Any bytes: the validator says yes or a reason; after a yes, everything reachable through GgufFile stays inside the
// bytes, and writing the content again gives a file that reads back equal.
#include <algorithm>

#include "base/check.h"
#include "fuzz_target.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"

using namespace tokamak;

namespace {

bool lies_inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void convert_everything(const GgufFile& file) {
  for (const GgufValue& value : file.values()) {
    CHECK(file.find(value.key()) == &value);
    const std::string_view key = value.key();
    size_t n = 0;
    if (const auto ints = file.get_ints(key)) n += ints->size();
    if (const auto floats = file.get_floats(key)) n += floats->size();
    if (const auto strings = file.get_strings(key))
      for (const std::string_view text : *strings) n += text.size();
    const bool converts[] = {file.get_u64(key).has_value(), file.get_i64(key).has_value(),
                             file.get_f64(key).has_value(), file.get_bool(key).has_value(),
                             file.get_string(key).has_value()};
    CHECK(value.is_array() ? std::ranges::count(converts, true) == 0 : n < SIZE_MAX);
    CHECK(!value.to_display().empty() && !value.where().empty());
  }
}

void write_again(const GgufFile& file) {
  GgufWriter writer;
  for (const GgufValue& value : file.values()) writer.add(value);
  for (const GgufTensor& tensor : file.tensors())
    writer.add_tensor(tensor.name, tensor.type, tensor.shape, tensor.data);
  const auto bytes = writer.to_bytes({.version = file.version()});
  CHECK(bytes.has_value());
  const auto again = GgufFile::parse(*bytes);
  CHECK(again.has_value());
  CHECK(again->values().size() == file.values().size() && again->tensors().size() == file.tensors().size());
  for (size_t i = 0; i < file.values().size(); ++i) {
    const GgufValue &a = file.values()[i], &b = again->values()[i];
    CHECK(a.key() == b.key() && a.type_name() == b.type_name() && std::ranges::equal(a.raw(), b.raw()));
  }
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const GgufTensor &a = file.tensors()[i], &b = again->tensors()[i];
    CHECK(a.name == b.name && a.type == b.type && a.shape == b.shape && std::ranges::equal(a.data, b.data));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  const auto bytes = std::as_bytes(std::span(data, n_bytes));
  const auto file = GgufFile::parse(bytes);
  if (!file) {
    CHECK(!file.error().message().empty());
    return 0;
  }
  for (const GgufTensor& tensor : file->tensors()) {
    CHECK(file->find_tensor(tensor.name) == &tensor);
    CHECK(lies_inside(tensor.data, bytes) && tensor.data.size() == tensor.n_bytes);
    CHECK(tensor.n_bytes == dtype_bytes(tensor.type, static_cast<uint64_t>(tensor.shape.n_elements())));
  }
  for (const GgufValue& value : file->values()) CHECK(lies_inside(value.raw(), bytes));
  convert_everything(*file);
  write_again(*file);
  return 0;
}
