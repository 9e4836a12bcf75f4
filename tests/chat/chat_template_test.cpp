// Prompts against transformers (tests/golden/chat/*.json, written by tools/chat_oracle.py), and the hard cases 13, 15,
// 16 and 17.
#include "chat/chat_template.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "chat/golden_helpers.h"

namespace tokamak {
namespace {

Result<ChatRequest> request_from(const Json& json) {
  ChatRequest request;
  request.messages = TRY(parse_messages(json.at("messages")));
  for (const Json& tool : json.value("tools", Json::array())) request.tools.push_back(tool);
  for (const Json& document : json.value("documents", Json::array())) request.documents.push_back(document);
  request.add_generation_prompt = json.value("add_generation_prompt", false);
  request.template_kwargs = json.value("kwargs", Json::object());
  return request;
}

// The value of tokenizer.chat_template, found by its key in the raw bytes: u32 type 8, u64 length, text.
std::string template_in_gguf(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string head(8u << 20, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(in.gcount()));
  const std::string key = "tokenizer.chat_template";
  const size_t at = head.find(key);
  if (at == std::string::npos) return {};
  uint64_t n_bytes = 0;
  std::memcpy(&n_bytes, head.data() + at + key.size() + 4, sizeof n_bytes);
  return head.substr(at + key.size() + 12, n_bytes);
}

// Template text of a golden file; empty when it belongs to a model that is not on this machine.
std::string source_of(const std::string& file, const Json& golden) {
  if (golden.contains("named")) {
    const NamedTemplate* named = find_named_template(golden.at("named").get<std::string>());
    return named == nullptr ? std::string() : std::string(named->source);
  }
  if (file.starts_with("template_"))
    return read_chat_file(std::filesystem::path(TOKAMAK_TEST_DATA) / "chat" / golden.at("file").get<std::string>());
  const char* folder = std::getenv("TOKAMAK_TEST_MODELS");
  if (folder == nullptr) return {};
  return template_in_gguf(std::filesystem::path(folder) / golden.at("file").get<std::string>());
}

// Cases of one golden file that agree.
size_t check_cases(const ChatTemplate& chat, const Json& cases) {
  size_t n_equal = 0;
  for (const Json& c : cases) {
    SCOPED_TRACE(c.at("name").get<std::string>());
    const auto request = request_from(c);
    EXPECT_TRUE(request) << request.error().message();
    if (!request) continue;
    const auto prompt = chat.render(*request);
    if (c.contains("refused") || c.contains("fails")) {
      EXPECT_FALSE(prompt);
      if (prompt) continue;
      EXPECT_EQ(prompt.error().code, c.contains("fails") ? ErrorCode::bad_template : ErrorCode::template_refused);
      if (c.contains("refused")) {
        EXPECT_EQ(prompt.error().what, c.at("refused").get<std::string>());
      }
      ++n_equal;
      continue;
    }
    EXPECT_TRUE(prompt) << prompt.error().message();
    if (!prompt) continue;
    EXPECT_EQ(*prompt, c.at("prompt").get<std::string>());
    n_equal += *prompt == c.at("prompt").get<std::string>();
  }
  return n_equal;
}

TEST(ChatTemplate, PromptsEqualTransformers) {
  size_t n_templates = 0;
  size_t n_cases = 0;
  size_t n_equal = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(TOKAMAK_GOLDEN) / "chat")) {
    const std::string file = entry.path().filename().string();
    if (file == "expressions.json") continue;
    SCOPED_TRACE(file);
    const Json golden = read_chat_golden(file);
    const std::string source = source_of(file, golden);
    if (source.empty() && file.starts_with("model_")) {
      std::printf("skipped %s: set TOKAMAK_TEST_MODELS to the folder with the file\n", file.c_str());
      continue;
    }
    auto chat = ChatTemplate::parse(source, golden.at("bos_token"), golden.at("eos_token"));
    ASSERT_TRUE(chat) << chat.error().message();
    chat->set_clock(fixed_time);
    ++n_templates;
    n_cases += golden.at("cases").size();
    n_equal += check_cases(*chat, golden.at("cases"));
  }
  EXPECT_GE(n_templates, 38u);
  EXPECT_EQ(n_equal, n_cases);
  std::printf("%zu templates, %zu of %zu prompts or refusals equal\n", n_templates, n_equal, n_cases);
}

}  // namespace
}  // namespace tokamak
