// Folders that transformers saved, converted: token ids, keys and logits as transformers computed them in float64
// (tools/convert_oracle.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/nmse.h"
#include "convert/convert.h"
#include "convert/folder_helpers.h"
#include "engine/model.h"
#include "engine/session.h"

namespace tokamak::test {
namespace {

using convert::Conversion;
using nlohmann::json;

std::filesystem::path golden_file(const std::string& name) {
  return std::filesystem::path(TOKAMAK_GOLDEN) / "convert" / name;
}

struct GoldenLogits {
  std::vector<int32_t> ids;
  std::vector<float> values;  // [n_tokens, n_vocab]
};

GoldenLogits read_logits(const std::string& name) {
  const std::string bytes = read_file(golden_file(name + ".logits"));
  uint32_t sizes[2] = {};
  EXPECT_GE(bytes.size(), sizeof sizes);
  std::memcpy(sizes, bytes.data(), sizeof sizes);
  GoldenLogits logits{std::vector<int32_t>(sizes[0]), std::vector<float>(size_t{sizes[0]} * sizes[1])};
  const size_t n_ids = 4 * logits.ids.size();
  EXPECT_EQ(bytes.size(), sizeof sizes + n_ids + 4 * logits.values.size());
  std::memcpy(logits.ids.data(), bytes.data() + sizeof sizes, n_ids);
  std::memcpy(logits.values.data(), bytes.data() + sizeof sizes + n_ids, 4 * logits.values.size());
  return logits;
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto conversion = Conversion::plan(fixtures() / GetParam(), {.out_type = "f32"});
    ASSERT_TRUE(conversion.has_value()) << conversion.error().message();
    path_ = new_folder() / "model.gguf";
    const auto written = (*conversion)->write(path_);
    ASSERT_TRUE(written.has_value()) << written.error().message();
    auto model = Model::open(path_);
    ASSERT_TRUE(model.has_value()) << model.error().message();
    model_ = *model;
  }
  std::filesystem::path path_;
  std::shared_ptr<const Model> model_;
};

TEST_P(Golden, LogitsAreThoseOfTransformers) {
  const GoldenLogits golden = read_logits(GetParam());
  const auto n = static_cast<int64_t>(golden.ids.size());
  auto session = Session::create(model_, {.backend = "reference", .n_ctx = n, .n_batch = n, .kv_type = DType::f32});
  ASSERT_TRUE(session.has_value()) << session.error().message();
  const SequenceTokens step{(*session)->add_sequence(), golden.ids, tokamak::Logits::all};
  const auto logits = (*session)->forward({&step, 1});
  ASSERT_TRUE(logits.has_value()) << logits.error().message();
  EXPECT_LE(nmse(*logits, golden.values), 1e-9);
}

TEST_P(Golden, TokenIdsAndKeysAreThoseOfTransformers) {
  const json golden = json::parse(read_file(golden_file(GetParam() + ".json")));
  for (const json& text : golden["texts"]) {
    const auto ids = model_->tokenizer().encode(text["text"].get<std::string>(), {.parse_special = true});
    EXPECT_EQ(json(ids), text["ids"]) << text["text"];
  }
  EXPECT_EQ(model_->chat_template(), golden["chat_template"].get<std::string>());
  EXPECT_EQ(model_->tokenizer().roles().bos, golden["bos"].get<int>());
  EXPECT_EQ(model_->tokenizer().roles().eos, golden["eos"].get<int>());
  const auto pre = model_->file().get_string("tokenizer.ggml.pre");
  ASSERT_TRUE(pre.has_value());
  EXPECT_EQ(*pre, golden["pre"].get<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Folders, Golden, testing::ValuesIn(fixture_names()),
                         [](const auto& folder) { return folder.param; });

// The text part of a multimodal checkpoint, from a text model's folder: the other class, spelling and section.
std::filesystem::path multimodal_folder() {
  const std::filesystem::path folder = copy_of("gemma3");
  json text = json::parse(read_file(folder / "config.json"));
  const json whole = {{"architectures", {"Gemma3ForConditionalGeneration"}}, {"text_config", text}};
  write_file(folder / "config.json", whole.dump());
  const auto checkpoint = Checkpoint::open(folder);
  EXPECT_TRUE(checkpoint.has_value());
  RawTensors tensors;
  for (const SafetensorsTensor& t : checkpoint->tensors())
    tensors["model.language_model." + t.name.substr(std::string_view("model.").size())] = {
        "F32", t.shape, {reinterpret_cast<const char*>(t.data.data()), t.data.size()}};
  write_safetensors(folder / "model.safetensors", tensors);
  return folder;
}

// Its golden file is the text model's: both conversions are the same bytes.
TEST(Fixtures, AMultimodalCheckpointGivesItsTextModel) {
  std::vector<std::string> files;
  for (const std::filesystem::path& folder : {fixtures() / "gemma3", multimodal_folder()}) {
    auto conversion = Conversion::plan(folder, {.out_type = "f32", .name = "same"});
    ASSERT_TRUE(conversion.has_value()) << conversion.error().message();
    const std::filesystem::path out = new_folder() / "out.gguf";
    ASSERT_TRUE((*conversion)->write(out).has_value());
    files.push_back(read_file(out));
  }
  EXPECT_TRUE(files[0] == files[1]);
}

}  // namespace
}  // namespace tokamak::test
