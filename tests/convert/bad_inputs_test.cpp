// Folders that cannot be converted: one clear reason each, and no output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "convert/convert.h"
#include "convert/folder_helpers.h"

namespace tokamak::test {
namespace {

namespace fs = std::filesystem;
using convert::Conversion;
using testing::HasSubstr;

void expect_refusal(const fs::path& folder, ErrorCode code, const std::vector<std::string>& parts,
                    const convert::ConvertOptions& options = {}) {
  const fs::path out_folder = new_folder();
  auto conversion = Conversion::plan(folder, options);
  const Result<void> done =
      conversion ? (*conversion)->write(out_folder / "out.gguf") : Result<void>(conversion.error());
  ASSERT_FALSE(done.has_value()) << parts[0];
  EXPECT_EQ(error_row(done.error().code).name, error_row(code).name) << done.error().message();
  for (const std::string& part : parts) EXPECT_THAT(done.error().message(), HasSubstr(part));
  EXPECT_TRUE(fs::is_empty(out_folder));
}

TEST(BadInputs, Shards) {
  fs::path folder = copy_of("llama_spm");
  fs::remove(folder / "model-00003-of-00006.safetensors");
  expect_refusal(folder, ErrorCode::not_found, {"model-00003-of-00006.safetensors", "missing"});
  folder = copy_of("llama_spm");
  fs::resize_file(folder / "model-00005-of-00006.safetensors", 50'000);
  expect_refusal(folder, ErrorCode::bad_file, {"model-00005-of-00006.safetensors: tensor '", "cut short"});
  folder = copy_of("llama_spm");
  replace_in(folder / "model-00002-of-00006.safetensors", "\"F32\"", "\"F99\"");
  expect_refusal(folder, ErrorCode::unsupported, {"model-00002-of-00006.safetensors: tensor '", "unknown dtype 'F99'"});
}

TEST(BadInputs, Tensors) {
  const std::string down = "model.layers.0.mlp.down_proj.weight";
  expect_refusal(llama_folder([&](RawTensors& t) { t.erase(down); }), ErrorCode::bad_tensor, {down, "no such tensor"});
  expect_refusal(llama_folder([&](RawTensors& t) {
                   t[down] = random_f32({kFf, kEmbd}, 1);
                 }),
                 ErrorCode::bad_tensor, {"model.safetensors: tensor '" + down + "'", "[128, 64]", "[64, 128]"});
  expect_refusal(llama_folder([&](RawTensors& t) { t[down] = random_f32({kFf * kEmbd}, 1); }), ErrorCode::bad_tensor,
                 {down, "[8192]"});
  expect_refusal(llama_folder([](RawTensors& t) { t["model.layers.0.mystery.weight"] = random_f32({4}, 1); }),
                 ErrorCode::unsupported, {"model.layers.0.mystery.weight"});
  // The engine would not add them, and the "1 + w" of some norms is no business of a bias.
  for (const char* name : {"model.norm.bias", "model.layers.0.input_layernorm.bias"})
    expect_refusal(llama_folder([&](RawTensors& t) { t[name] = random_f32({kEmbd}, 1); }), ErrorCode::unsupported,
                   {name});
  for (const float poison : {NAN, INFINITY, -INFINITY})
    for (const char* name : {"model.layers.0.mlp.down_proj.weight", "model.norm.weight"})
      for (const char* type : {"auto", "f32", "f16", "q8_0"})
        expect_refusal(llama_folder([&](RawTensors& t) { std::memcpy(t[name].data.data() + 100, &poison, 4); }),
                       ErrorCode::bad_tensor, {name, "NaN or infinite"}, {.out_type = type});
  const float large = 70000;
  const auto with_large = llama_folder([&](RawTensors& t) { std::memcpy(t[down].data.data(), &large, 4); });
  expect_refusal(with_large, ErrorCode::bad_tensor, {down, "range of F16"}, {.out_type = "f16"});
  EXPECT_TRUE((*Conversion::plan(with_large, {.out_type = "bf16"}))->write(new_folder() / "x.gguf").has_value());
}

TEST(BadInputs, Folders) {
  expect_refusal("/no/such/folder", ErrorCode::not_found, {"/no/such/folder"});
  expect_refusal(fixtures() / "llama_smollm" / "config.json", ErrorCode::bad_argument, {"is not a folder"});
  expect_refusal(new_folder(), ErrorCode::not_found, {"no config.json"});
  fs::path folder = llama_folder();
  fs::remove(folder / "model.safetensors");
  expect_refusal(folder, ErrorCode::not_found, {"no model.safetensors"});
  folder = llama_folder();
  fs::remove(folder / "tokenizer.json");
  expect_refusal(folder, ErrorCode::not_found, {"no tokenizer.json"});
  const auto without = Conversion::plan(folder, {.no_tokenizer = true});
  ASSERT_TRUE(without.has_value()) << without.error().message();
  EXPECT_EQ((*without)->tokenizer().vocab.model, "no_vocab");
  EXPECT_EQ((*without)->tokenizer().vocab.n_dummy_tokens, kVocab);
}

TEST(BadInputs, Configs) {
  const auto with = [](const char* from, const char* to) {
    const fs::path folder = llama_folder();
    replace_in(folder / "config.json", from, to);
    return folder;
  };
  expect_refusal(with("LlamaForCausalLM", "MysteryForCausalLM"), ErrorCode::unsupported,
                 {"config.json: architectures", "MysteryForCausalLM", "Qwen3ForCausalLM"});
  expect_refusal(with("[\"LlamaForCausalLM\"]", "[]"), ErrorCode::bad_metadata, {"architectures"});
  expect_refusal(with("\"hidden_size\": 64", "\"hidden_size\": -64"), ErrorCode::bad_metadata, {"hidden_size"});
  expect_refusal(with("\"hidden_size\": 64", "\"hidden_size\": \"64\""), ErrorCode::bad_metadata, {"hidden_size"});
  expect_refusal(with("\"hidden_size\": 64", "\"hidden_size\": 1e300"), ErrorCode::bad_metadata, {"hidden_size"});
  expect_refusal(with("\"hidden_size\": 64, ", ""), ErrorCode::bad_metadata, {"hidden_size", "missing"});
  expect_refusal(with("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3"), ErrorCode::bad_metadata,
                 {"num_key_value_heads"});
  expect_refusal(with("silu", "relu"), ErrorCode::unsupported, {"hidden_act", "relu"});
  expect_refusal(with("\"rope_theta\"", "\"rope_scaling\": {\"type\": \"dynamic\"}, \"rope_theta\""),
                 ErrorCode::unsupported, {"dynamic"});
  expect_refusal(with("\"rope_theta\"", "\"partial_rotary_factor\": 0.5, \"rope_theta\""), ErrorCode::unsupported,
                 {"partial_rotary_factor"});
  expect_refusal(with("\"rope_theta\"", "\"quantization_config\": {\"quant_method\": \"gptq\"}, \"rope_theta\""),
                 ErrorCode::unsupported, {"gptq"});
  expect_refusal(with("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"), ErrorCode::bad_tensor,
                 {"lm_head.weight"});
  expect_refusal(with("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false}"), ErrorCode::bad_file,
                 {"config.json", "not valid JSON"});
}

TEST(BadInputs, Tokenizers) {
  const auto with = [](const char* from, const char* to) {
    const fs::path folder = copy_of("llama_smollm");
    replace_in(folder / "tokenizer.json", from, to);
    return folder;
  };
  expect_refusal(with("\"type\": \"BPE\"", "\"type\": \"Unigram\""), ErrorCode::unsupported,
                 {"tokenizer.json", "Unigram"});
  expect_refusal(with("\"type\": \"Digits\"", "\"type\": \"Bigits\""), ErrorCode::unsupported, {"Bigits", "--pre"});
  const fs::path unknown =
      with("\"type\": \"Digits\",\n        \"individual_digits\": true",
           "\"type\": \"Split\", \"pattern\": {\"Regex\": \"[aeiou]\"}, \"behavior\": \"Isolated\"");
  expect_refusal(unknown, ErrorCode::unsupported, {"split pattern", "--pre"});
  EXPECT_TRUE(Conversion::plan(unknown, {.pre = "smollm"}).has_value());
  expect_refusal(unknown, ErrorCode::bad_argument, {"nonsense", "llama-bpe"}, {.pre = "nonsense"});
  expect_refusal(with("\"!\": 3", "\"!\": 5000000"), ErrorCode::bad_vocab, {"5000000"});
  expect_refusal(with("\"!\": 3", "\"!\": 401"), ErrorCode::bad_vocab, {"402 tokens, the embedding only 400"});
  for (const char* other : {R"({"type": "NFKC"})", R"({"type": "Lowercase"})", R"({"type": "Strip"})",
                            R"({"type": "Replace", "pattern": {"String": "``"}, "content": "\""})"}) {
    const fs::path folder = copy_of("llama_spm");  // SentencePiece-like
    Json json = Json::parse(read_file(folder / "tokenizer.json"));
    json["normalizer"]["normalizers"].push_back(Json::parse(other));
    write_file(folder / "tokenizer.json", json.dump());
    expect_refusal(folder, ErrorCode::unsupported, {"tokenizer.json: normalizer", "is not known"});
  }
  fs::path cut = copy_of("llama_smollm");
  fs::resize_file(cut / "tokenizer.json", 5000);
  expect_refusal(cut, ErrorCode::bad_file, {"tokenizer.json", "not valid JSON"});
}

TEST(BadInputs, OutputIsNoFileOfTheCheckpoint) {
  const fs::path folder = llama_folder(), blob = new_folder() / "blob";
  fs::rename(folder / "tokenizer_config.json", blob);  // as in a download cache
  fs::create_symlink(blob, folder / "tokenizer_config.json");
  write_file(folder / "README.md", "about");
  fs::create_directory(folder / "additional_chat_templates");
  write_file(folder / "additional_chat_templates" / "rag.jinja", "template");
  const auto conversion = Conversion::plan(folder, {});
  ASSERT_TRUE(conversion.has_value()) << conversion.error().message();
  for (const fs::path& out :
       {folder / "model.safetensors", folder / "config.json", folder / "tokenizer.json", folder / "README.md",
        folder / "tokenizer_config.json", folder / "additional_chat_templates" / "rag.jinja", blob}) {
    const std::string before = read_file(out);
    const auto done = (*conversion)->write(out);
    ASSERT_FALSE(done.has_value()) << out;
    EXPECT_EQ(done.error().code, ErrorCode::bad_argument) << done.error().message();
    EXPECT_EQ(read_file(out), before);
  }
  EXPECT_TRUE((*conversion)->write(folder / "out.gguf").has_value());
  EXPECT_TRUE((*conversion)->write(folder / "out.gguf").has_value());  // an old conversion may be replaced
}

TEST(BadInputs, CancelledConversionLeavesNothing) {
  const auto conversion = Conversion::plan(llama_folder(), {});
  ASSERT_TRUE(conversion.has_value());
  const fs::path out = new_folder();
  int n_calls = 0;
  const auto done = (*conversion)->write(out / "x.gguf", [&](double) { return ++n_calls < 3; });
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::cancelled);
  EXPECT_TRUE(fs::is_empty(out));
}

}  // namespace
}  // namespace tokamak::test
