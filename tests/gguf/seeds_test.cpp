// Seeds of the fuzz target: small files with every value type and tensor type, and the known hostile kinds. They are
// generated here; the committed copies in fuzz/corpus/gguf must be equal. TOKAMAK_UPDATE_GOLDEN=1 writes them anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "gguf/raw_gguf_helpers.h"
#include "gguf/writer.h"

namespace tokamak {
namespace {

using testing::RawGguf;

using Bytes = std::vector<std::byte>;

template <class T>
void add_number(GgufWriter& writer, const std::string& name, T value) {
  writer.add(name, value);
  writer.add_array<T>(name + "s", std::vector<T>{value, T{}, T{1}});
}

Bytes every_value_type(uint32_t version) {
  GgufWriter writer;
  add_number<uint8_t>(writer, "u8", 250);
  add_number<int8_t>(writer, "i8", -5);
  add_number<uint16_t>(writer, "u16", 65000);
  add_number<int16_t>(writer, "i16", -300);
  add_number<uint32_t>(writer, "u32", 4000000000);
  add_number<int32_t>(writer, "i32", -70000);
  add_number<uint64_t>(writer, "u64", uint64_t{1} << 63);
  add_number<int64_t>(writer, "i64", -(int64_t{1} << 40));
  add_number<float>(writer, "f32", 1.5f);
  add_number<double>(writer, "f64", -1e300);
  writer.add("bool", true);
  writer.add("string", "caf\xc3\xa9");
  writer.add_array("strings", std::span<const std::string>(std::vector<std::string>{"a", "", "\xf0\x9f\x8c\x8a"}));
  return *writer.to_bytes({.version = version});
}

Bytes every_tensor_type() {
  GgufWriter writer;
  writer.add("general.alignment", uint32_t{8});
  for (const DTypeRow& row : kDTypes)
    writer.add_tensor(row.name, row.id, {row.block_elems}, [&row](const GgufWriter::Sink& sink) {
      return sink(Bytes(row.block_bytes, static_cast<std::byte>(row.block_elems)));
    });
  return *writer.to_bytes();
}

Bytes tiny_model() {
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  writer.add("llama.block_count", uint32_t{1});
  writer.add("split.no", uint16_t{0});
  writer.add("split.count", uint16_t{1});
  writer.add("split.tensors.count", int32_t{2});
  const Bytes zeros(4 * 4 * 8);
  writer.add_tensor("token_embd.weight", DType::f32, {4, 8}, zeros);
  writer.add_tensor("rank0", DType::f64, {}, std::span(zeros).first(8));
  return *writer.to_bytes();
}

std::map<std::string, Bytes> seeds() {
  return {
      {"values_v3", every_value_type(3)},
      {"values_v2", every_value_type(2)},
      {"tensors", every_tensor_type()},
      {"model", tiny_model()},
      {"empty_model", RawGguf::header(0, 0).bytes()},
      {"zero_dim", RawGguf::header(1, 0).tensor("w", {8, 0}, 0, 0).bytes()},
      {"huge_array", RawGguf::header(0, 1).string("a").number(9).number(0).number(uint64_t{1} << 63).bytes()},
      {"huge_string", RawGguf::header(0, 1).string("s").number(8).number(uint64_t{1} << 63).bytes()},
      {"huge_counts", RawGguf::header(uint64_t{1} << 63, uint64_t{1} << 63).bytes()},
      {"nested_array", RawGguf::header(0, 1).string("n").number(9).number(9).number(uint64_t{1}).number(9).bytes()},
      {"alignment", RawGguf::header(0, 1).entry("general.alignment", GgufType::u32, 0x80000000u).bytes()},
      {"duplicate_key",
       RawGguf::header(0, 2).entry("k", GgufType::u8, uint8_t{1}).entry("k", GgufType::u32, 2u).bytes()},
  };
}

TEST(GgufSeeds, CommittedCorpusIsWhatTheGeneratorWrites) {
  const std::filesystem::path folder =
      std::filesystem::path(TOKAMAK_TEST_DATA).parent_path().parent_path() / "fuzz/corpus/gguf";
  const bool update = std::getenv("TOKAMAK_UPDATE_GOLDEN") != nullptr;
  for (const auto& [name, bytes] : seeds()) {
    if (update) testing::write_file(folder / name, bytes);
    EXPECT_EQ(testing::read_file(folder / name), bytes) << name << ": run with TOKAMAK_UPDATE_GOLDEN=1";
  }
}

}  // namespace
}  // namespace tokamak
