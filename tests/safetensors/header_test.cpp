// Every way a header can be wrong, by the smallest file that is.
#include "safetensors/header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/e4m3.h"
#include "safetensors/raw_safetensors_helpers.h"

namespace tokamak::test {
namespace {

using testing::HasSubstr;

Result<std::vector<SafetensorsTensor>> validate(const std::string& file) {
  return validate_safetensors(std::as_bytes(std::span(file)), "x.safetensors");
}

void expect_refusal(const std::string& file, ErrorCode code, const std::string& part) {
  const auto result = validate(file);
  ASSERT_FALSE(result.has_value()) << part;
  EXPECT_EQ(result.error().code, code) << result.error().message();
  EXPECT_THAT(result.error().message(), HasSubstr(part));
  EXPECT_THAT(result.error().message(), HasSubstr("x.safetensors"));
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets,
                const std::string& data = std::string(8, 'x')) {
  return raw_safetensors(
      R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}", data);
}

TEST(Header, TensorsComeInFileOrderWithTheirBytes) {
  const std::string file = safetensors_file({{"b", "F32", {2, 1}, bytes_of<float>({1.5f, -2})},
                                             {"a", "BF16", {}, std::string("\x80\x3F", 2)},
                                             {"none", "I64", {0, 4}, ""}});
  const auto tensors = validate(file);
  ASSERT_TRUE(tensors.has_value()) << tensors.error().message();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[0].name, "b");
  EXPECT_EQ((*tensors)[0].shape_text(), "[2, 1]");
  EXPECT_EQ((*tensors)[0].data.size(), 8u);
  EXPECT_EQ((*tensors)[1].n_elements(), 1);
  EXPECT_EQ((*tensors)[2].n_elements(), 0);
  float out[2] = {};
  decode_numbers(NumberType::f32, (*tensors)[0].data.data(), 0, 2, out);
  EXPECT_EQ(out[0], 1.5f);
  EXPECT_EQ(out[1], -2.0f);
  decode_numbers(NumberType::bf16, (*tensors)[1].data.data(), 0, 1, out);
  EXPECT_EQ(out[0], 1.0f);
}

TEST(Header, EveryDtypeOfTheTableIsRead) {
  for (const NumberTypeRow& row : kNumberTypes) {
    const auto tensors = validate(one(std::string(row.name), "[2]", "[0," + std::to_string(row.n_bits / 4) + "]",
                                      std::string(row.n_bits / 4, '\0')));
    ASSERT_TRUE(tensors.has_value()) << row.name << tensors.error().message();
    EXPECT_EQ(tensors->front().type, row.id);
  }
}

TEST(Header, TruncatedFiles) {
  const std::string whole = safetensors_file({{"a", "F32", {2}, bytes_of<float>({1, 2})}});
  ASSERT_TRUE(validate(whole).has_value());
  for (size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(validate(whole.substr(0, n)).has_value()) << n;
  expect_refusal(whole.substr(0, 7), ErrorCode::bad_file, "7 bytes");
  expect_refusal(whole.substr(0, 40), ErrorCode::bad_file, "the file only 40");
  expect_refusal(whole.substr(0, whole.size() - 1), ErrorCode::bad_file, "tensor 'a': its data ends at byte 8 of 7");
  expect_refusal(whole + "z", ErrorCode::bad_file, "1 bytes behind");
}

TEST(Header, Lengths) {
  std::string file = raw_safetensors("{}", "");
  EXPECT_TRUE(validate(file).has_value());
  file[4] = 1;  // 2^32 more
  expect_refusal(file, ErrorCode::bad_file, "allowed are at most");
  expect_refusal(std::string(8, '\xFF'), ErrorCode::bad_file, "18446744073709551615");
}

TEST(Header, MalformedJson) {
  for (const char* header : {"",
                             "{",
                             "[]",
                             "5",
                             "{\"a\":5}",
                             "{\"a\":[1]}",
                             "{\"a\":{\"b\":{}}}",
                             "{\"a\":{\"dtype\":5}}",
                             "{\"a\":{\"dtype\":null}}",
                             "{\"a\":{\"x\":true}}",
                             "{\"a\":{\"shape\":[1.5]}}",
                             "{\"a\":{\"shape\":[-1]}}",
                             "{\"a\":{\"shape\":[[1]]}}",
                             "{\"a\":{\"shape\":[1,1,1,1,1,1,1,1,1]}}",
                             "{\"a\":{\"data_offsets\":[1]}}",
                             "{\"__metadata__\":{\"a\":1}}",
                             "{\"__metadata__\":{\"a\":{}}}",
                             "{\"\":{}}",
                             "{}{}",
                             "{\"a\":{\"shape\":1e400}}"})
    expect_refusal(raw_safetensors(header, ""), ErrorCode::bad_file, "");
  expect_refusal(raw_safetensors("{\"\xFF\":{}}", ""), ErrorCode::bad_file, "not UTF-8");
  expect_refusal(raw_safetensors(std::string(100'000, '['), ""), ErrorCode::bad_file, "array");
  expect_refusal(raw_safetensors(R"({"a":{"dtype":"F32","shape":[]}})", ""), ErrorCode::bad_file, "no 'data_offsets'");
}

TEST(Header, ImpossibleTensors) {
  expect_refusal(one("F12", "[2]", "[0,8]"), ErrorCode::unsupported, "tensor 'a': unknown dtype 'F12'");
  expect_refusal(one("F32", "[3]", "[0,8]"), ErrorCode::bad_tensor, "8 bytes of data do not fit dtype F32");
  expect_refusal(one("F32", "[2]", "[8,0]"), ErrorCode::bad_tensor, "run backwards");
  expect_refusal(one("F4", "[3]", "[0,1]"), ErrorCode::bad_tensor, "do not fit");
  expect_refusal(one("F32", "[4294967296,4294967296]", "[0,8]"), ErrorCode::bad_tensor, "not possible");
  expect_refusal(one("F32", "[18446744073709551615]", "[0,8]"), ErrorCode::bad_tensor, "not possible");
  expect_refusal(one("F32", "[2]", "[18446744073709551608,18446744073709551616]"), ErrorCode::bad_file, "");
  expect_refusal(one("F32", "[2]", "[18446744073709551607,18446744073709551615]"), ErrorCode::bad_file, "cut short");
}

TEST(Header, OverlapsGapsAndRepeats) {
  const auto two = [](const char* first, const char* second, const char* name = "b") {
    return raw_safetensors(std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + first + R"(},")" + name +
                               R"(":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}",
                           "12345678");
  };
  EXPECT_TRUE(validate(two("[4,8]", "[0,4]")).has_value());
  expect_refusal(two("[0,4]", "[2,6]"), ErrorCode::bad_tensor, "tensor 'b': its data overlaps");
  expect_refusal(two("[0,4]", "[0,4]"), ErrorCode::bad_tensor, "overlaps");
  expect_refusal(one("U8", "[4]", "[4,8]"), ErrorCode::bad_tensor, "gap of 4 bytes");
  expect_refusal(two("[0,4]", "[4,8]", "a"), ErrorCode::bad_tensor, "appears twice");
}

TEST(NumberTypes, Fp8CodesByTheirDefinition) {
  EXPECT_EQ(f8_e4m3_to_f32(0x7E), 448.0f);
  EXPECT_EQ(f8_e4m3_to_f32(0x01), 0x1p-9f);
  EXPECT_EQ(f8_e4m3_to_f32(0x08), 0x1p-6f);
  EXPECT_EQ(f8_e4m3_to_f32(0xB8), -1.0f);
  EXPECT_TRUE(std::isnan(f8_e4m3_to_f32(0x7F)) && std::isnan(f8_e4m3_to_f32(0xFF)));
  EXPECT_EQ(f8_e5m2_to_f32(0x7B), 57344.0f);
  EXPECT_EQ(f8_e5m2_to_f32(0x01), 0x1p-16f);
  EXPECT_TRUE(std::isinf(f8_e5m2_to_f32(0x7C)) && std::isnan(f8_e5m2_to_f32(0x7D)));
  EXPECT_EQ(f8_e8m0_to_f32(127), 1.0f);
  EXPECT_EQ(f8_e8m0_to_f32(0), 0x1p-127f);
  EXPECT_TRUE(std::isnan(f8_e8m0_to_f32(255)));
}

}  // namespace
}  // namespace tokamak::test
