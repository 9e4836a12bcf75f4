#include "tensor/dtypes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

namespace tokamak {
namespace {

struct Hand {
  uint32_t id;
  std::string_view name;
  int block_elems, block_bytes;
};
// Typed from the GGUF description (the `gguf` package), not from the table under test.
constexpr Hand kByHand[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},
    {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
    {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18},    {42, "Q2_0", 64, 18},
};
constexpr uint32_t kRemovedByHand[] = {4, 5, 31, 32, 33, 36, 37, 38};

TEST(DTypes, BlocksAgreeWithTheHandTable) {
  ASSERT_EQ(kDTypes.size(), std::size(kByHand));
  for (const Hand& hand : kByHand) {
    const DTypeRow* row = find_dtype(hand.id);
    ASSERT_NE(row, nullptr) << hand.name;
    EXPECT_EQ(row->name, hand.name);
    EXPECT_EQ(row->block_elems, hand.block_elems) << hand.name;
    EXPECT_EQ(row->block_bytes, hand.block_bytes) << hand.name;
    EXPECT_EQ(is_quantized(row->id), hand.block_elems > 1) << hand.name;
    EXPECT_EQ(dtype_bytes(row->id, 512), static_cast<uint64_t>(512 / hand.block_elems * hand.block_bytes)) << hand.name;
  }
}

TEST(DTypes, EveryIdBelow43IsLiveOrRemoved) {
  std::set<uint32_t> removed;
  for (const RemovedDType& row : kRemovedDTypes) {
    EXPECT_TRUE(removed.insert(row.id).second) << row.id;
    EXPECT_FALSE(row.advice.empty()) << row.name;
  }
  EXPECT_THAT(removed, testing::ElementsAreArray(kRemovedByHand));
  for (uint32_t id = 0; id < 43; ++id) EXPECT_NE(find_dtype(id) != nullptr, removed.contains(id)) << id;
  for (uint32_t id : {43u, 134u, 0xF8u, 256u, 0xFFFFFFFFu}) EXPECT_EQ(find_dtype(id), nullptr) << id;
}

TEST(DTypes, CachesHaveATypeThatNoFileHas) {
  for (DType type : kCacheDTypes) EXPECT_EQ(find_cache_dtype(dtype_name(type)), &dtype_row(type));
  EXPECT_EQ(find_cache_dtype("f8_e4m3"), &kF8Row);
  EXPECT_EQ(find_row(DType::f8_e4m3), &kF8Row);
  EXPECT_EQ(find_dtype("f8_e4m3"), nullptr);
  EXPECT_EQ(find_cache_dtype("Q4_0"), nullptr);
  EXPECT_EQ(cache_bytes(DType::f8_e4m3, 3, 64), 3u * (64 + 4));
  EXPECT_EQ(cache_bytes(DType::q8_0, 3, 64), 3u * 2 * 34);
  EXPECT_EQ(cache_bytes(DType::bf16, 3, 64), 3u * 64 * 2);
}

TEST(DTypes, NamesAreFoundInAnyCase) {
  for (const DTypeRow& row : kDTypes) {
    std::string lower(row.name);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    EXPECT_EQ(find_dtype(row.name), &row);
    EXPECT_EQ(find_dtype(lower), &row);
  }
  for (std::string_view name : {"", "Q4", "Q4_K_M", "Q4_2", " F32"}) EXPECT_EQ(find_dtype(name), nullptr) << name;
}

TEST(DTypes, ActivationPartners) {
  for (const DTypeRow& row : kDTypes) {
    const DTypeRow& partner = dtype_row(row.activation);
    EXPECT_EQ(partner.activation, partner.id) << row.name << ": the partner of a partner is itself";
    EXPECT_EQ(row.block_elems % partner.block_elems, 0) << row.name << ": blocks pair up whole";
  }
  EXPECT_EQ(dtype_row(DType::q4_1).activation, DType::q8_1);
  EXPECT_EQ(dtype_row(DType::mxfp4).activation, DType::q8_0);
  EXPECT_EQ(dtype_row(DType::tq1_0).activation, DType::q8_k);
}

TEST(DTypes, BitsPerWeight) {
  EXPECT_DOUBLE_EQ(bits_per_weight(dtype_row(DType::q4_k)), 4.5);
  EXPECT_DOUBLE_EQ(bits_per_weight(dtype_row(DType::q6_k)), 6.5625);
  EXPECT_DOUBLE_EQ(bits_per_weight(dtype_row(DType::iq1_s)), 1.5625);
  EXPECT_DOUBLE_EQ(bits_per_weight(dtype_row(DType::q1_0)), 1.125);
}

}  // namespace
}  // namespace tokamak
