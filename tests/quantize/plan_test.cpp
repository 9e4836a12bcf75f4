#include "quantize/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace tokamak {
namespace {
using testing::HasSubstr;

GgufTensor tensor(std::string name, Shape shape, DType type = DType::f16) {
  return {.name = std::move(name), .type = type, .shape = shape};
}

std::vector<GgufTensor> small_model(int64_t n_layer = 2, DType type = DType::f16) {
  std::vector<GgufTensor> out = {tensor("token_embd.weight", {96, 256}, type)};
  for (int64_t i = 0; i < n_layer; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    out.push_back(tensor(layer + "attn_norm.weight", {256}, DType::f32));
    out.push_back(tensor(layer + "attn_q.weight", {256, 256}, type));
    out.push_back(tensor(layer + "attn_q.bias", {256}, DType::f32));
    out.push_back(tensor(layer + "ffn_down.weight", {256, 512}, type));
  }
  out.push_back(tensor("output.weight", {96, 256}, type));
  return out;
}

const MixModel kModel = {.n_layer = 2, .n_head = 8, .n_head_kv = 8};

std::map<std::string, std::string> types_of(const Plan& plan) {
  std::map<std::string, std::string> types;
  for (const PlannedTensor& planned : plan.tensors) types[planned.name] = dtype_name(planned.type);
  return types;
}

std::map<std::string, std::string> types_with(const QuantizeOptions& options,
                                              const std::vector<GgufTensor>& tensors = small_model()) {
  const auto plan = make_plan(tensors, kModel, options);
  EXPECT_TRUE(plan) << plan.error().message();
  return plan ? types_of(*plan) : std::map<std::string, std::string>{};
}

std::string refusal(const QuantizeOptions& options, const std::vector<GgufTensor>& tensors = small_model()) {
  const auto plan = make_plan(tensors, kModel, options);
  if (!plan) return plan.error().message();
  const auto check = check_plan(tensors, *plan, options);
  EXPECT_FALSE(check);
  return check ? "" : check.error().message();
}

TEST(Plan, QuantizesMatricesOnly) {
  const auto types = types_with({.file_type = FileType::q8_0});
  EXPECT_EQ(types.at("blk.0.attn_q.weight"), "Q8_0");
  EXPECT_EQ(types.at("blk.0.attn_norm.weight"), "F32");
  EXPECT_EQ(types.at("blk.0.attn_q.bias"), "F32");
}

TEST(Plan, CopyChangesNothing) {
  for (const auto& [name, type] : types_with({}))
    EXPECT_EQ(type, name.find("norm") == name.npos && name.find("bias") == name.npos ? "F16" : "F32");
}

TEST(Plan, FlagsWinOverTheMix) {
  QuantizeOptions options{.file_type = FileType::q4_k_m};
  options.output_type = DType::q8_0;
  options.embedding_type = DType::f16;
  options.tensor_types = {"blk\\.1\\..*=Q5_K", "attn_q=Q6_K"};
  const auto types = types_with(options);
  EXPECT_EQ(types.at("output.weight"), "Q8_0");
  EXPECT_EQ(types.at("token_embd.weight"), "F16");
  EXPECT_EQ(types.at("blk.0.attn_q.weight"), "Q6_K");
  EXPECT_EQ(types.at("blk.1.attn_q.weight"), "Q5_K");  // the first match decides
  EXPECT_EQ(types.at("blk.1.attn_norm.weight"), "F32");
}

TEST(Plan, PureAndLeaveOutput) {
  const auto pure = types_with({.file_type = FileType::q4_k_m, .pure = true});
  EXPECT_EQ(pure.at("output.weight"), "Q4_K");
  EXPECT_EQ(pure.at("token_embd.weight"), "Q4_K");
  const auto left = types_with({.file_type = FileType::q4_k_m, .leave_output = true});
  EXPECT_EQ(left.at("output.weight"), "F16");
}

TEST(Plan, PrunedLayersGoAndLaterOnesMoveDown) {
  QuantizeOptions options{.file_type = FileType::q8_0};
  options.prune_layers = {0};
  const auto types = types_with(options);
  EXPECT_TRUE(types.contains("blk.0.attn_q.weight"));
  EXPECT_FALSE(types.contains("blk.1.attn_q.weight"));
  const auto plan = make_plan(small_model(), kModel, options);
  for (const PlannedTensor& planned : plan->tensors)
    if (planned.name == "blk.0.attn_q.weight") {
      EXPECT_EQ(small_model()[planned.source].name, "blk.1.attn_q.weight");
    }
  options.prune_layers = {2};
  EXPECT_THAT(refusal(options), HasSubstr("there is no layer 2: the model has 2"));
  options.prune_layers = {0, 1};
  EXPECT_THAT(refusal(options), HasSubstr("no layer is left"));
}

TEST(Plan, RowsThatBlocksDoNotDivideFallBack) {
  const std::vector<GgufTensor> odd = {tensor("blk.0.attn_q.weight", {8, 96}), tensor("blk.0.attn_k.weight", {8, 48})};
  const auto plan = make_plan(odd, kModel, {.file_type = FileType::q4_k_s});
  EXPECT_EQ(plan->tensors[0].type, DType::q5_0);
  EXPECT_EQ(plan->tensors[1].type, DType::f16);
  EXPECT_TRUE(plan->tensors[0].is_fallback);
  EXPECT_THAT(refusal({.file_type = FileType::mxfp4}, odd),
              HasSubstr("rows of 48 elements do not fit the blocks of 32 of type MXFP4"));
}

TEST(Plan, RefusesQuantizedSourcesUntilAllowed) {
  const auto tensors = small_model(2, DType::q8_0);
  EXPECT_THAT(refusal({.file_type = FileType::q4_0}, tensors),
              HasSubstr("tensor token_embd.weight: is quantized already (Q8_0)"));
  QuantizeOptions options{.file_type = FileType::q4_0};
  options.allow_requantize = true;
  EXPECT_TRUE(check_plan(tensors, *make_plan(tensors, kModel, options), options));
  const QuantizeOptions same{.file_type = FileType::q8_0};  // nothing to do
  EXPECT_TRUE(check_plan(tensors, *make_plan(tensors, kModel, same), same));
}

TEST(Plan, TypesThatNeedAnImatrixSaySo) {
  EXPECT_THAT(refusal({.file_type = FileType::iq2_xs}), HasSubstr("needs an importance matrix"));
  EXPECT_THAT(refusal({.file_type = FileType::q2_k_s}), HasSubstr("Q2_K in a Q2_K_S file needs an importance matrix"));
  ImatrixFile imatrix;
  for (int i = 0; i < 2; ++i)
    for (const char* name : {"attn_q", "ffn_down"})
      imatrix.entries.push_back(
          {"blk." + std::to_string(i) + "." + name + ".weight", 256, std::vector<float>(256, 1), {1}});
  ASSERT_TRUE(imatrix.finish());
  QuantizeOptions options{.file_type = FileType::q2_k_s, .imatrix = &imatrix};
  const auto tensors = small_model();
  const auto plan = make_plan(tensors, kModel, options);
  EXPECT_TRUE(check_plan(tensors, *plan, options));  // token_embd and output have no entry and need none
  EXPECT_THAT(plan->without_importance, testing::ElementsAre("token_embd.weight", "output.weight"));
  options.exclude = {"blk.1"};
  EXPECT_THAT(refusal(options), HasSubstr("tensor blk.1"));
  options.exclude = {};
  options.include = {"ffn_down"};
  EXPECT_THAT(refusal(options), HasSubstr("attn_q"));
}

TEST(Plan, BadRulesAreNamed) {
  QuantizeOptions options{.file_type = FileType::q8_0};
  options.tensor_types = {"attn_q"};
  EXPECT_THAT(refusal(options), HasSubstr("--tensor-type attn_q: must be REGEX=TYPE"));
  options.tensor_types = {"attn_q=Q9"};
  EXPECT_THAT(refusal(options), HasSubstr("no such tensor type"));
  options.tensor_types = {"[=Q8_0"};
  EXPECT_THAT(refusal(options), HasSubstr("not a regular expression"));
}

TEST(Plan, Nvfp4GetsAScaleBesideEveryProduct) {
  const auto plan = make_plan(small_model(), kModel, {.file_type = FileType::nvfp4});
  for (const PlannedTensor& planned : plan->tensors) {
    if (planned.name == "blk.0.attn_q.weight") {
      EXPECT_EQ(planned.type, DType::nvfp4);
      EXPECT_EQ(planned.scale_name, "blk.0.attn_q.scale");
    }
    if (planned.name == "token_embd.weight") {
      EXPECT_EQ(planned.scale_name, "");
    }
  }
}

}  // namespace
}  // namespace tokamak
