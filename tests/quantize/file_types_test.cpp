#include "quantize/file_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tokamak {
namespace {
using testing::HasSubstr;

TEST(FileTypes, EveryRowIsFoundByNameAliasAndId) {
  for (const FileTypeRow& row : kFileTypes) {
    EXPECT_EQ(&file_type_row(row.id), &row);
    EXPECT_EQ(*find_file_type(row.name), &row);
    if (!row.alias.empty()) {
      EXPECT_EQ(*find_file_type(row.alias), &row);
    }
    EXPECT_EQ(*find_file_type(std::to_string(static_cast<int>(row.id))), &row);
  }
  EXPECT_EQ((*find_file_type("q4_k_m"))->id, FileType::q4_k_m);
  EXPECT_EQ((*find_file_type("Q4_K"))->id, FileType::q4_k_m);
  EXPECT_EQ((*find_file_type("15"))->id, FileType::q4_k_m);
}

TEST(FileTypes, HaveTheIdsOfOtherEngines) {
  EXPECT_EQ(file_type_id(FileType::f16), 1u);
  EXPECT_EQ(file_type_id(FileType::q8_0), 7u);
  EXPECT_EQ(file_type_id(FileType::q4_k_m), 15u);
  EXPECT_EQ(file_type_id(FileType::iq1_m), 31u);
  EXPECT_EQ(file_type_id(FileType::mxfp4_moe), 38u);
  EXPECT_EQ(file_type_id(FileType::mxfp4), 38u);
  EXPECT_EQ(file_type_id(FileType::nvfp4), 39u);
  EXPECT_EQ(file_type_id(FileType::q2_0), 41u);
}

TEST(FileTypes, UnknownNamesGetTheNearest) {
  EXPECT_THAT(find_file_type("Q4_KM").error().message(), HasSubstr("did you mean Q4_K_M?"));
  EXPECT_THAT(find_file_type("banana").error().message(), HasSubstr("--help lists them"));
  EXPECT_FALSE(find_file_type("33"));  // removed: Q4_0_4_4
  EXPECT_FALSE(find_file_type(""));
}

TEST(TargetTypes, AreTypesOfStoredWeights) {
  EXPECT_EQ(*find_target_type("q6_K", "--flag"), DType::q6_k);
  EXPECT_EQ(find_target_type("q8_k", "--flag").error().code, ErrorCode::unsupported);
  EXPECT_EQ(find_target_type("i32", "--flag").error().code, ErrorCode::unsupported);
  EXPECT_THAT(find_target_type("q9", "--flag").error().message(), HasSubstr("--flag q9: no such tensor type"));
}

}  // namespace
}  // namespace tokamak
