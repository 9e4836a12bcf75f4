// Experts: stacked, fused, quantized, incomplete; what stands behind the layers; refusals of whole families.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "convert/convert.h"
#include "convert/folder_helpers.h"
#include "gguf/gguf.h"
#include "quant/codec.h"

namespace tokamak::test {
namespace {

namespace fs = std::filesystem;
using convert::Conversion;
using convert::ConvertOptions;
using testing::HasSubstr;

constexpr int64_t kWidth = 32, kExpertFf = 64, kExperts = 3;

// A gpt-oss checkpoint of one layer, in what plain BF16 releases hold; `change` may replace its experts.
fs::path gpt_oss_folder(const std::function<void(RawTensors&)>& change = {}) {
  const fs::path folder = new_folder();
  write_file(folder / "config.json", R"({"architectures": ["GptOssForCausalLM"], "hidden_size": 32,
    "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
    "num_local_experts": 3, "num_experts_per_tok": 2, "vocab_size": 40, "rms_norm_eps": 1e-5, "hidden_act": "silu",
    "sliding_window": 128, "max_position_embeddings": 64})");
  const std::string layer = "model.layers.0.", experts = layer + "mlp.experts.";
  RawTensors tensors = {
      {"model.embed_tokens.weight", random_f32({40, kWidth}, 1)},
      {"model.norm.weight", random_f32({kWidth}, 2)},
      {"lm_head.weight", random_f32({40, kWidth}, 3)},
      {layer + "input_layernorm.weight", random_f32({kWidth}, 4)},
      {layer + "post_attention_layernorm.weight", random_f32({kWidth}, 5)},
      {layer + "self_attn.q_proj.weight", random_f32({32, kWidth}, 6)},
      {layer + "self_attn.k_proj.weight", random_f32({16, kWidth}, 7)},
      {layer + "self_attn.v_proj.weight", random_f32({16, kWidth}, 8)},
      {layer + "self_attn.o_proj.weight", random_f32({kWidth, 32}, 9)},
      {layer + "self_attn.sinks", random_f32({2}, 10)},
      {layer + "mlp.router.weight", random_f32({kExperts, kWidth}, 11)},
      {layer + "mlp.router.bias", random_f32({kExperts}, 12)},
      {experts + "gate_up_proj", random_f32({kExperts, kWidth, 2 * kExpertFf}, 13)},
      {experts + "gate_up_proj_bias", random_f32({kExperts, 2 * kExpertFf}, 14)},
      {experts + "down_proj", random_f32({kExperts, kExpertFf, kWidth}, 15)},
      {experts + "down_proj_bias", random_f32({kExperts, kWidth}, 16)},
  };
  if (change) change(tensors);
  write_safetensors(folder / "model.safetensors", tensors);
  return folder;
}

std::vector<uint8_t> random_bytes(size_t n, uint32_t seed) {
  std::vector<uint8_t> bytes(n);
  const std::vector<float> values = random_floats(n, seed);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<uint8_t>(128 + 127 * values[i]);
  return bytes;
}

Result<GgufFile> converted(const fs::path& folder, const ConvertOptions& options) {
  const auto conversion = TRY(Conversion::plan(folder, options));
  const fs::path out = new_folder() / "out.gguf";
  TRY(conversion->write(out));
  return GgufFile::open(out);
}

// GGUF pairs element j with j + 16 in a byte, gpt-oss 2 j with 2 j + 1; gate and up rows take turns.
TEST(Experts, Mxfp4CodesOfGptOssKeepEveryBit) {
  constexpr size_t kRows = 2 * kExpertFf, kBlocks = kWidth / 32;
  const auto codes = random_bytes(kExperts * kRows * kBlocks * 16, 21);
  auto scales = random_bytes(kExperts * kRows * kBlocks, 22);
  for (uint8_t& scale : scales) scale = static_cast<uint8_t>(scale % 200);
  const std::string experts = "model.layers.0.mlp.experts.";
  const fs::path folder = gpt_oss_folder([&](RawTensors& t) {
    t.erase(experts + "gate_up_proj");
    t[experts + "gate_up_proj_blocks"] = {"U8", {kExperts, kRows, kBlocks, 16}, bytes_of(codes)};
    t[experts + "gate_up_proj_scales"] = {"U8", {kExperts, kRows, kBlocks}, bytes_of(scales)};
  });
  const auto file = converted(folder, {.no_tokenizer = true});
  ASSERT_TRUE(file.has_value()) << file.error().message();
  for (const size_t is_up : {0, 1}) {
    const GgufTensor* tensor = file->find_tensor(is_up ? "blk.0.ffn_up_exps.weight" : "blk.0.ffn_gate_exps.weight");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->type, DType::mxfp4);
    EXPECT_EQ(tensor->shape, (Shape{kExperts, kExpertFf, kWidth}));
    const auto* out = reinterpret_cast<const uint8_t*>(tensor->data.data());
    for (size_t expert = 0; expert < kExperts; ++expert)
      for (size_t row = 0; row < kExpertFf; ++row, out += 17) {
        const size_t source = expert * kRows + 2 * row + is_up;
        ASSERT_EQ(out[0], scales[source]);
        const auto code = [&](size_t j) { return codes[source * 16 + j / 2] >> (4 * (j % 2)) & 15; };
        for (size_t j = 0; j < 16; ++j) ASSERT_EQ(out[1 + j], code(j) | code(j + 16) << 4) << row << " " << j;
      }
  }
  // Down stands plain beside them: decoded, and transposed.
  const GgufTensor* down = file->find_tensor("blk.0.ffn_down_exps.weight");
  ASSERT_NE(down, nullptr);
  EXPECT_EQ(down->type, DType::bf16);
  EXPECT_EQ(down->shape, (Shape{kExperts, kWidth, kExpertFf}));
}

// One tensor-wide scale per expert: GGUF's NAME.scale has as many.
TEST(Experts, Nvfp4ExpertsKeepTheirCodesAndScales) {
  constexpr int64_t kEmbdDim = 64;
  const fs::path folder = new_folder();
  write_file(folder / "config.json", R"({"architectures": ["MixtralForCausalLM"], "hidden_size": 64,
    "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
    "num_local_experts": 3, "vocab_size": 40, "tie_word_embeddings": true, "max_position_embeddings": 64})");
  const std::string layer = "model.layers.0.", moe = layer + "block_sparse_moe.";
  RawTensors tensors = {
      {"model.embed_tokens.weight", random_f32({40, kEmbdDim}, 1)},
      {"model.norm.weight", random_f32({kEmbdDim}, 2)},
      {layer + "input_layernorm.weight", random_f32({kEmbdDim}, 4)},
      {layer + "post_attention_layernorm.weight", random_f32({kEmbdDim}, 5)},
      {layer + "self_attn.q_proj.weight", random_f32({64, kEmbdDim}, 6)},
      {layer + "self_attn.k_proj.weight", random_f32({32, kEmbdDim}, 7)},
      {layer + "self_attn.v_proj.weight", random_f32({32, kEmbdDim}, 8)},
      {layer + "self_attn.o_proj.weight", random_f32({kEmbdDim, 64}, 9)},
      {moe + "gate.weight", random_f32({kExperts, kEmbdDim}, 11)},
  };
  std::vector<float> scales;
  for (int64_t i = 0; i < kExperts; ++i)
    for (const char* name : {"w1", "w2", "w3"}) {
      const std::string expert = moe + "experts." + std::to_string(i) + "." + name;
      const auto seed = static_cast<uint32_t>(30 + i);
      scales.push_back(0.5f + static_cast<float>(i) / 8);
      tensors[expert + ".weight"] = {"U8", {64, 32}, bytes_of(random_bytes(64 * 32, seed))};
      tensors[expert + ".weight_scale"] = {"F8_E4M3", {64, 4}, std::string(64 * 4, '\x38')};
      tensors[expert + ".weight_scale_2"] = {"F32", {}, bytes_of<float>({scales.back()})};
    }
  write_safetensors(folder / "model.safetensors", tensors);
  const auto kept = converted(folder, {.no_tokenizer = true}),
             plain = converted(folder, {.out_type = "f32", .no_tokenizer = true});
  ASSERT_TRUE(kept.has_value()) << kept.error().message();
  ASSERT_TRUE(plain.has_value()) << plain.error().message();
  const GgufTensor* codes = kept->find_tensor("blk.0.ffn_up_exps.weight");
  const GgufTensor* scale = kept->find_tensor("blk.0.ffn_up_exps.scale");
  ASSERT_TRUE(codes && scale);
  EXPECT_EQ(codes->type, DType::nvfp4);
  EXPECT_EQ(codes->shape, (Shape{kExperts, 64, kEmbdDim}));
  EXPECT_EQ(scale->shape, (Shape{kExperts}));
  EXPECT_EQ(plain->find_tensor("blk.0.ffn_up_exps.scale"), nullptr);
  const auto* values = reinterpret_cast<const float*>(plain->find_tensor("blk.0.ffn_up_exps.weight")->data.data());
  std::vector<float> row(kEmbdDim);
  for (int64_t expert = 0; expert < kExperts; ++expert) {
    const float factor = reinterpret_cast<const float*>(scale->data.data())[expert];
    EXPECT_EQ(factor, scales[static_cast<size_t>(3 * expert)]);
    decode_row(DType::nvfp4, codes->data.data() + expert * 64 * 36, kEmbdDim, row.data());
    for (int64_t i = 0; i < kEmbdDim; ++i)
      EXPECT_EQ(row[static_cast<size_t>(i)] * factor, values[expert * 64 * kEmbdDim + i]) << expert << " " << i;
  }
}

TEST(Experts, BiasesAndRoutersStayF32) {
  const auto file = converted(gpt_oss_folder(), {.out_type = "bf16", .no_tokenizer = true});
  ASSERT_TRUE(file.has_value()) << file.error().message();
  for (const char* name : {"blk.0.ffn_gate_inp.weight", "blk.0.ffn_gate_inp.bias", "blk.0.ffn_gate_exps.bias",
                           "blk.0.ffn_up_exps.bias", "blk.0.ffn_down_exps.bias", "blk.0.attn_sinks.weight"}) {
    const GgufTensor* tensor = file->find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->type, DType::f32) << name;
  }
  EXPECT_EQ(file->find_tensor("blk.0.ffn_gate_exps.weight")->type, DType::bf16);
}

// As tests/data/convert_classes describes it, with tensors of zeros; `change` may alter config and shapes.
fs::path class_folder(const std::string& name, const std::function<void(Json&, RawTensors&)>& change) {
  Json json = Json::parse(read_file(fs::path(TOKAMAK_TEST_DATA) / "convert_classes" / (name + ".json")));
  RawTensors tensors;
  for (const auto& [tensor, shape] : json["tensors"].items())
    tensors[tensor] = random_f32(shape.get<std::vector<int64_t>>(), 1);
  if (change) change(json["config"], tensors);
  const fs::path folder = new_folder();
  write_file(folder / "config.json", json["config"].dump());
  write_safetensors(folder / "model.safetensors", tensors);
  return folder;
}

void expect_refusal(const fs::path& folder, ErrorCode code, const std::vector<std::string>& parts) {
  const auto file = converted(folder, {.out_type = "f32", .no_tokenizer = true});
  ASSERT_FALSE(file.has_value()) << parts[0];
  EXPECT_EQ(error_row(file.error().code).name, error_row(code).name) << file.error().message();
  for (const std::string& part : parts) EXPECT_THAT(file.error().message(), HasSubstr(part));
}

TEST(Experts, IncompleteOrUnequalOnesAreRefused) {
  const std::string up = "model.layers.1.mlp.experts.2.up_proj.weight";
  expect_refusal(class_folder("qwen3moe", [&](Json&, RawTensors& t) { t.erase(up); }), ErrorCode::bad_tensor,
                 {"model.layers.1.mlp.experts.2.up_proj", "no such tensor", "3 of them"});
  expect_refusal(class_folder("qwen3moe",
                              [&](Json&, RawTensors& t) {
                                t[up] = random_f32({4, 4}, 1);
                              }),
                 ErrorCode::bad_tensor, {"model.layers.1.mlp.experts.2.up_proj", "differ from those of"});
  expect_refusal(class_folder("qwen3moe", [](Json& c, RawTensors&) { c["num_local_experts"] = 4; }),
                 ErrorCode::bad_tensor, {"shape is [3, 24], config.json wants [4, 24]"});
  expect_refusal(class_folder("qwen3moe",
                              [](Json&, RawTensors& t) {
                                for (int i = 0; i < 3; ++i)
                                  t.erase("model.layers.0.mlp.experts." + std::to_string(i) + ".up_proj.weight");
                              }),
                 ErrorCode::bad_tensor, {"model.layers.0.mlp.experts.0.up_proj.weight", "no such tensor"});
}

TEST(Experts, NanInTransposedOnesNamesTheTensor) {
  const auto folder = gpt_oss_folder([](RawTensors& t) {
    const float nan = NAN;
    std::memcpy(t["model.layers.0.mlp.experts.gate_up_proj"].data.data() + 4 * 130, &nan, sizeof nan);
  });
  expect_refusal(folder, ErrorCode::bad_tensor, {"experts.gate_up_proj'", "NaN", "column 2"});
}

// transformers 5 keeps them in one tensor in memory; the hub's Qwen 3.5 too.
TEST(Experts, FusedOnesGiveTheSameFile) {
  const auto fuse = [](Json&, RawTensors& t) {
    for (int layer = 0; layer < 2; ++layer) {
      const std::string experts = "model.layers." + std::to_string(layer) + ".mlp.experts.";
      RawTensor gate_up{"F32", {3, 40, 24}, ""}, down{"F32", {3, 24, 20}, ""};
      for (int i = 0; i < 3; ++i)
        for (const auto& [name, into] :
             {std::pair("gate_proj", &gate_up), {"up_proj", &gate_up}, {"down_proj", &down}}) {
          const auto at = t.find(experts + std::to_string(i) + "." + name + ".weight");
          ASSERT_NE(at, t.end());
          into->data += at->second.data;
          t.erase(at);
        }
      t[experts + "gate_up_proj"] = gate_up;
      t[experts + "down_proj"] = down;
    }
  };
  std::vector<std::string> files;
  for (const fs::path& folder : {class_folder("qwen3moe", {}), class_folder("qwen3moe", fuse)}) {
    const auto conversion = Conversion::plan(folder, {.out_type = "f32", .name = "same", .no_tokenizer = true});
    ASSERT_TRUE(conversion.has_value()) << conversion.error().message();
    const fs::path out = new_folder() / "out.gguf";
    ASSERT_TRUE((*conversion)->write(out).has_value());
    files.push_back(read_file(out));
  }
  EXPECT_TRUE(files[0] == files[1]);
}

TEST(Layers, NextTokenBlocksAreLeftOutWithANote) {
  const fs::path folder = class_folder("glm4moe", [](Json& c, RawTensors& t) {
    c["num_nextn_predict_layers"] = 1;
    t["model.layers.2.eh_proj.weight"] = random_f32({24, 48}, 1);
  });
  const auto conversion = Conversion::plan(folder, {.no_tokenizer = true});
  ASSERT_TRUE(conversion.has_value()) << conversion.error().message();
  EXPECT_EQ((*conversion)->tensors().left_out, std::vector<std::string>{"model.layers.2.eh_proj.weight"});
  ASSERT_EQ((*conversion)->notes().size(), 1u);
  expect_refusal(class_folder("glm4moe",
                              [](Json& c, RawTensors& t) {
                                c["num_nextn_predict_layers"] = 0;
                                t["model.layers.2.eh_proj.weight"] = random_f32({24, 48}, 1);
                              }),
                 ErrorCode::unsupported, {"model.layers.2.eh_proj.weight"});
}

// Ernie's stand beside the layers, under a name of their own.
TEST(Layers, NextTokenBlocksMayHaveNames) {
  const fs::path folder = class_folder("ernie4_5_moe", [](Json&, RawTensors& t) {
    t["model.mtp_linear_proj.0.weight"] = random_f32({24, 48}, 1);
    t["mtp.layers.0.input_layernorm.weight"] = random_f32({24}, 1);
  });
  const auto conversion = Conversion::plan(folder, {.no_tokenizer = true});
  ASSERT_TRUE(conversion.has_value()) << conversion.error().message();
  EXPECT_EQ((*conversion)->tensors().left_out.size(), 2u);
}

TEST(Layers, PatternsWithoutKeysAreRefused) {
  const auto with = [](const std::string& name, const std::string& field, const Json& value) {
    return class_folder(name, [=](Json& c, RawTensors&) { c[field] = value; });
  };
  expect_refusal(with("qwen3moe", "mlp_only_layers", {0}), ErrorCode::unsupported, {"mlp_only_layers"});
  expect_refusal(with("qwen2moe", "decoder_sparse_step", 2), ErrorCode::unsupported, {"decoder_sparse_step"});
  expect_refusal(with("hy_v3", "mlp_layer_types", {"sparse", "dense", "sparse"}), ErrorCode::unsupported,
                 {"mlp_layer_types"});
  expect_refusal(with("llama4", "moe_layers", {0, 1}), ErrorCode::unsupported, {"moe_layers"});
  expect_refusal(with("llama4", "no_rope_layers", {1, 0, 1, 0}), ErrorCode::unsupported, {"no_rope_layers"});
  expect_refusal(
      with("qwen35", "layer_types", {"linear_attention", "full_attention", "linear_attention", "linear_attention"}),
      ErrorCode::unsupported, {"layer_types", "layer 3"});
  expect_refusal(with("falcon_7b", "alibi", true), ErrorCode::unsupported, {"alibi", "need false"});
  expect_refusal(with("gpt_oss", "swiglu_limit", 5.0), ErrorCode::unsupported, {"swiglu_limit"});
  expect_refusal(with("deepseek_v3", "rope_interleave", false), ErrorCode::unsupported, {"rope_interleave"});
  expect_refusal(with("deepseek_v3", "scoring_func", "tanh"), ErrorCode::unsupported, {"scoring_func", "tanh"});
  expect_refusal(with("deepseek_v3", "n_group", 3), ErrorCode::bad_metadata, {"n_group"});
  expect_refusal(with("qwen35", "linear_num_value_heads", 5), ErrorCode::bad_metadata, {"linear_num_value_heads"});
  expect_refusal(with("mixtral", "num_experts_per_tok", 9), ErrorCode::bad_metadata, {"num_experts_per_tok"});
  Json rope = {{"rope_type", "longrope"}, {"long_factor", {1.0}}, {"short_factor", {1.0, 2.0}}, {"rope_theta", 1e4}};
  expect_refusal(with("phi3", "rope_parameters", rope), ErrorCode::bad_metadata, {"long_factor", "2 positive"});
  rope = {{"rope_type", "dynamic"}, {"factor", 2.0}, {"rope_theta", 1e4}};
  expect_refusal(with("hunyuan_dense", "rope_parameters", rope), ErrorCode::unsupported, {"alpha"});
  rope["alpha"] = 1e-6;
  expect_refusal(with("hunyuan_dense", "rope_parameters", rope), ErrorCode::bad_metadata, {"alpha", "the base"});
  rope = {{"rope_type", "yarn"}, {"factor", 2.0}, {"rope_theta", 1e4}, {"truncate", true}};
  expect_refusal(with("gpt_oss", "rope_parameters", rope), ErrorCode::unsupported, {"truncate"});
}

}  // namespace
}  // namespace tokamak::test
