// What a conversion writes: types, names, metadata; and the cache of conversions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "convert/convert.h"
#include "convert/converted_cache.h"
#include "convert/folder_helpers.h"
#include "gguf/gguf.h"
#include "quant/codec.h"

namespace tokamak::test {
namespace {

namespace fs = std::filesystem;
using convert::Conversion;

GgufFile convert_and_open(const fs::path& folder, const convert::ConvertOptions& options) {
  auto conversion = Conversion::plan(folder, options);
  EXPECT_TRUE(conversion.has_value()) << conversion.error().message();
  const fs::path path = new_folder() / "out.gguf";
  const auto written = (*conversion)->write(path);
  EXPECT_TRUE(written.has_value()) << written.error().message();
  return *GgufFile::open(path);
}

std::string_view type_of(const GgufFile& file, std::string_view name) {
  const GgufTensor* tensor = file.find_tensor(name);
  return tensor ? dtype_name(tensor->type) : "none";
}

RawTensor as_bf16(const RawTensor& f32) {
  RawTensor out{"BF16", f32.shape, ""};
  for (size_t i = 0; i < f32.data.size(); i += 4) out.data += f32.data.substr(i + 2, 2);
  return out;
}

TEST(Output, TypesOfMatricesAndVectors) {
  const fs::path f32 = llama_folder();
  const fs::path bf16 = llama_folder([](RawTensors& t) {
    for (auto& [name, tensor] : t) tensor = as_bf16(tensor);
  });
  struct Row {
    fs::path folder;
    const char *out_type, *type;
    uint32_t file_type;
  };
  for (const Row& row : {Row{f32, "auto", "BF16", 32}, Row{bf16, "auto", "BF16", 32}, Row{f32, "f32", "F32", 0},
                         Row{f32, "f16", "F16", 1}, Row{bf16, "q8_0", "Q8_0", 7}}) {
    const GgufFile file = convert_and_open(row.folder, {.out_type = row.out_type});
    EXPECT_EQ(type_of(file, "blk.0.ffn_down.weight"), row.type);
    EXPECT_EQ(type_of(file, "token_embd.weight"), row.type);
    EXPECT_EQ(type_of(file, "blk.0.attn_norm.weight"), "F32");
    EXPECT_EQ(type_of(file, "output.weight"), "none");
    EXPECT_EQ(*file.get_u64("general.file_type"), row.file_type);
  }
}

// Rows of an embedding are looked up without its scale: NVFP4 codes there are decoded, MXFP4 codes need none.
TEST(Output, EmbeddingsThatNeedAScaleAreDecoded) {
  const auto with_codes = [](const std::string& name, bool nvfp4) {
    return [=](RawTensors& t) {
      const int64_t n_rows = t[name + ".weight"].shape[0], block = nvfp4 ? 16 : 32;
      t.erase(name + ".weight");
      const auto n_bytes = static_cast<size_t>(n_rows * kEmbd / 2),
                 n_scales = static_cast<size_t>(n_rows * kEmbd / block);
      t[name + ".weight_packed"] = {"U8", {n_rows, kEmbd / 2}, std::string(n_bytes, '\x22')};  // ones
      t[name + ".weight_scale"] = {
          nvfp4 ? "F8_E4M3" : "U8", {n_rows, kEmbd / block}, std::string(n_scales, nvfp4 ? '\x38' : '\x7F')};  // ones
      if (nvfp4) t[name + ".weight_global_scale"] = {"F32", {1}, bytes_of<float>({4})};
    };
  };
  const std::string table = "model.embed_tokens", up = "model.layers.0.mlp.up_proj";
  const GgufFile decoded = convert_and_open(llama_folder(with_codes(table, true)), {});
  EXPECT_EQ(type_of(decoded, "token_embd.weight"), "BF16");
  EXPECT_EQ(type_of(decoded, "token_embd.scale"), "none");
  std::vector<float> row(kEmbd);
  decode_row(DType::bf16, decoded.find_tensor("token_embd.weight")->data.data(), kEmbd, row.data());
  EXPECT_EQ(row, std::vector<float>(kEmbd, 0.25f));
  const GgufFile kept = convert_and_open(llama_folder(with_codes(table, false)), {});
  EXPECT_EQ(type_of(kept, "token_embd.weight"), "MXFP4");
  const GgufFile product = convert_and_open(llama_folder(with_codes(up, true)), {});
  EXPECT_EQ(type_of(product, "blk.0.ffn_up.weight"), "NVFP4");
  EXPECT_EQ(type_of(product, "blk.0.ffn_up.scale"), "F32");
}

// BF16 and F16 checkpoints pass bit by bit.
TEST(Output, SixteenBitValuesAreNotTouched) {
  RawTensor before;
  const fs::path folder = llama_folder([&](RawTensors& t) {
    for (auto& [name, tensor] : t) tensor = as_bf16(tensor);
    before = t["model.layers.0.mlp.down_proj.weight"];
  });
  const GgufFile file = convert_and_open(folder, {});
  const auto data = file.find_tensor("blk.0.ffn_down.weight")->data;
  ASSERT_EQ(data.size(), before.data.size());
  EXPECT_EQ(std::memcmp(data.data(), before.data.data(), data.size()), 0);
}

TEST(Output, NameAndEndTokens) {
  const fs::path folder = llama_folder();
  write_file(folder / "generation_config.json", R"({"eos_token_id": [2, 7, 8]})");
  const GgufFile file = convert_and_open(folder, {.name = "Tiny"});
  EXPECT_EQ(*file.get_string("general.name"), "Tiny");
  EXPECT_EQ(*file.get_u64("tokenizer.ggml.eos_token_id"), 2u);
  EXPECT_EQ(*file.get_u64("tokenizer.ggml.eot_token_id"), 7u);
  EXPECT_EQ(*file.get_u64("tokenizer.ggml.eom_token_id"), 8u);
}

TEST(Output, NamedChatTemplates) {
  const fs::path folder = llama_folder();
  replace_in(folder / "tokenizer_config.json", "{",
             R"({"chat_template": [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"}],)");
  GgufFile file = convert_and_open(folder, {});
  EXPECT_EQ(*file.get_string("tokenizer.chat_template"), "A");
  EXPECT_EQ(*file.get_string("tokenizer.chat_template.tool_use"), "B");
  EXPECT_THAT(*file.get_strings("tokenizer.chat_templates"), testing::ElementsAre("tool_use"));
  write_file(folder / "chat_template.jinja", "C");
  file = convert_and_open(folder, {});
  EXPECT_EQ(*file.get_string("tokenizer.chat_template"), "C");
  EXPECT_FALSE(file.has("tokenizer.chat_templates"));
}

TEST(Output, VisionPartsAreLeftOutAndCounted) {
  const fs::path folder = copy_of("gemma3");
  replace_in(folder / "config.json", "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration");
  const std::string config = read_file(folder / "config.json");
  Json whole = Json::parse(config);
  Json multimodal = {{"architectures", whole["architectures"]}, {"text_config", whole}};
  write_file(folder / "config.json", multimodal.dump());
  const auto checkpoint = *Checkpoint::open(folder);
  RawTensors tensors;
  for (const SafetensorsTensor& t : checkpoint.tensors())
    tensors["language_model." + t.name] = {
        "F32", t.shape, {reinterpret_cast<const char*>(t.data.data()), t.data.size()}};
  tensors["vision_tower.patch.weight"] = random_f32({3}, 1);
  write_safetensors(folder / "model.safetensors", tensors);
  const auto conversion = Conversion::plan(folder, {});
  ASSERT_TRUE(conversion.has_value()) << conversion.error().message();
  EXPECT_THAT((*conversion)->tensors().left_out, testing::ElementsAre("vision_tower.patch.weight"));
  EXPECT_THAT((*conversion)->notes(), testing::Contains(testing::HasSubstr("1 tensors")));
}

TEST(ConvertedCache, OneConversionPerState) {
  const fs::path folder = llama_folder(), cache = new_folder();
  const auto first = convert::find_converted(folder, cache);
  ASSERT_TRUE(first.has_value() && !first->exists);
  ASSERT_TRUE(convert::convert_into(*first, folder, {}).has_value());
  EXPECT_TRUE(convert::find_converted(folder, cache)->exists);
  EXPECT_EQ(convert::find_converted(fs::relative(folder), cache)->file, first->file);
  write_file(folder / "chat_template.jinja", "changed");
  const auto second = convert::find_converted(folder, cache);
  ASSERT_TRUE(second.has_value() && !second->exists);
  EXPECT_NE(second->file, first->file);
  ASSERT_TRUE(convert::convert_into(*second, folder, {}).has_value());
  EXPECT_FALSE(fs::exists(first->file));  // the old state's
  EXPECT_TRUE(fs::exists(second->file));
  fs::create_directory(folder / "additional_chat_templates");
  write_file(folder / "additional_chat_templates" / "rag.jinja", "one");
  const auto third = convert::find_converted(folder, cache);
  ASSERT_TRUE(third.has_value());
  EXPECT_NE(third->file, second->file);
  write_file(folder / "additional_chat_templates" / "rag.jinja", "other");
  EXPECT_NE(convert::find_converted(folder, cache)->file, third->file);
}

}  // namespace
}  // namespace tokamak::test
