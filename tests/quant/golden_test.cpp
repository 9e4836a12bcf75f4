// Every row of kCodecs against tests/golden/quant (tools/quant_oracle.py), bit for bit, the sign of zero included.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

#include "quant/codec.h"
#include "quant/codecs.h"

namespace tokamak {

static void PrintTo(const DTypeRow& row, std::ostream* out) { *out << row.name; }

namespace {

using testing::AnyOf, testing::Not;

struct Golden {
  std::vector<std::byte> blocks, encoded;
  std::vector<float> values, rows;
};

template <class T>
std::vector<T> take_front(const std::string& file, size_t& offset, size_t n) {
  EXPECT_LE(offset + n * sizeof(T), file.size()) << "golden file too short";
  std::vector<T> out(n);
  if (n > 0 && offset + n * sizeof(T) <= file.size()) std::memcpy(out.data(), file.data() + offset, n * sizeof(T));
  offset += n * sizeof(T);
  return out;
}

Golden read_golden(const DTypeRow& row) {
  const std::string path = std::string(TOKAMAK_GOLDEN "/quant/") + std::string(row.name) + ".bin";
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  size_t offset = 0;
  const auto counts = take_front<uint32_t>(file, offset, 2);
  Golden golden;
  golden.blocks = take_front<std::byte>(file, offset, size_t{counts[0]} * row.block_bytes);
  golden.values = take_front<float>(file, offset, size_t{counts[0]} * row.block_elems);
  golden.rows = take_front<float>(file, offset, size_t{counts[1]} * row.block_elems);
  golden.encoded = take_front<std::byte>(file, offset, size_t{counts[1]} * row.block_bytes);
  EXPECT_EQ(offset, file.size()) << "left-over bytes in " << path;
  return golden;
}

class GoldenTest : public testing::TestWithParam<DTypeRow> {};

TEST_P(GoldenTest, DecodesBitForBit) {
  const Golden golden = read_golden(GetParam());
  ASSERT_GT(golden.values.size(), 0u);
  std::vector<float> got(golden.values.size());
  decode_row(GetParam().id, golden.blocks.data(), static_cast<int64_t>(got.size()), got.data());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(golden.values[i]))
        << "element " << i << " (block " << i / GetParam().block_elems << "): " << got[i] << " != " << golden.values[i];
}

TEST_P(GoldenTest, DecodesFromAnyAddress) {
  const Golden golden = read_golden(GetParam());
  std::vector<std::byte> shifted(golden.blocks.size() + 1);
  std::memcpy(shifted.data() + 1, golden.blocks.data(), golden.blocks.size());
  std::vector<float> got(golden.values.size());
  decode_row(GetParam().id, shifted.data() + 1, static_cast<int64_t>(got.size()), got.data());
  EXPECT_EQ(std::memcmp(got.data(), golden.values.data(), got.size() * sizeof(float)), 0);
}

TEST_P(GoldenTest, GoldenBlocksAreValid) {
  const Golden golden = read_golden(GetParam());
  const auto verdict = validate_rows(GetParam().id, golden.blocks, GetParam().block_elems, "t");
  EXPECT_TRUE(verdict) << verdict.error().message();
}

TEST_P(GoldenTest, EncodesBitForBit) {
  const Golden golden = read_golden(GetParam());
  if (golden.rows.empty()) {  // encoders of our own: encode_test.cpp bounds their error
    EXPECT_THAT(GetParam().id, Not(AnyOf(DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::q8_1,
                                         DType::tq1_0, DType::tq2_0, DType::mxfp4, DType::q1_0)));
    EXPECT_GT(GetParam().block_elems, 1);
    return;
  }
  std::vector<std::byte> got(golden.encoded.size());
  const auto done =
      encode_row(GetParam().id, golden.rows.data(), static_cast<int64_t>(golden.rows.size()), nullptr, got.data());
  ASSERT_TRUE(done) << done.error().message();
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], golden.encoded[i]) << "block " << i / GetParam().block_bytes << ", byte "
                                         << i % GetParam().block_bytes;
}

INSTANTIATE_TEST_SUITE_P(AllTypes, GoldenTest, testing::ValuesIn(kDTypes),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace tokamak
