#include "server/reply_helpers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace tokamak::test {

std::vector<ReplyFixture> reply_fixtures() {
  return {
      {"chat/01_llama31_tools.jinja", "<|eot_id|>", false, false, false},
      {"chat/02_qwen25_tools.jinja", "<|im_end|>\n"},
      {"chat/03_qwen3_thinking.jinja", "<|im_end|>\n", true, true},
      {"chat/04_mistral_v3_tools.jinja", "</s>", false},
      {"chat/10_deepseek_r1.jinja", "<|eos|>", false},
      {"chat/13_hermes_tools.jinja", "<|im_end|>\n", false},
      {"chat/14_gptoss_harmony.jinja", "<|call|>", false, true, false},
      {"chat/15_functionary.jinja", "<|stop|>\n"},
      {"chat/16_glm4.jinja", "", false},
      {"chat/17_kimi.jinja", "<|im_end|>"},
      {"chat/18_minimax.jinja", "[e~[\n", true, true},
      {"chat/28_llama4_parts.jinja", "<|eom|>", false},
      {"chat/30_nemotron_xml_tools.jinja", "<|im_end|>\n"},
      {"reply/command_list.jinja", "<|end|>\n"},
      {"reply/deepseek_dsml.jinja", "<|end|>\n", true, true},
      {"reply/deepseek_v31.jinja", "<|end|>\n", true, true},
      {"reply/function_tag.jinja", "<|end|>\n"},
      {"reply/functionary_v32.jinja", "<|end|>"},
      {"reply/gemma4.jinja", "<|end|>\n"},
      {"reply/cdata_params.jinja", "<|end|>\n", true, true},
      {"reply/channels.jinja", "<|end|>", false, true},
      {"reply/glm45.jinja", "<|end|>\n", true, true},
      {"reply/key_tags.jinja", "<|end|>\n"},
      {"reply/kimi_index.jinja", "<|end|>\n", true, true},
      {"reply/mistral_call_id.jinja", "<|end|>\n"},
      {"reply/name_is_key.jinja", "<|end|>\n"},
      {"reply/nested_tags.jinja", "<|end|>\n", true, true},
      {"reply/param_tags.jinja", "<|end|>\n", true, true},
      {"reply/python_list.jinja", "<|end|>\n"},
      {"reply/raw_python.jinja", "<|end|>\n", true, true},
      {"reply/seed_oss.jinja", "<|end|>\n", true, true},
      {"reply/wrapped_json.jinja", "<|end|>\n"},
  };
}

ChatTemplate load_template(std::string_view file) {
  std::ifstream in(std::string(TOKAMAK_TEST_DATA) + "/" + std::string(file), std::ios::binary);
  std::string source{std::istreambuf_iterator<char>(in), {}};
  EXPECT_FALSE(source.empty()) << file;
  auto made = ChatTemplate::parse(std::move(source), "<s>", "</s>");
  EXPECT_TRUE(made) << file;
  return std::move(*made);
}

Answer render_answer(const ChatTemplate& chat_template, const ReplyFixture& fixture, ChatMessage turn) {
  ChatRequest request;
  request.messages = {{.role = "user", .content = "Go on."}};
  const std::string question = chat_template.render(request).value_or("");
  request.add_generation_prompt = false;
  request.messages.push_back(std::move(turn));
  const auto whole = chat_template.render(request);
  EXPECT_TRUE(whole) << (whole ? "" : whole.error().message());
  if (!whole) return {};
  size_t n = 0;
  while (n < question.size() && n < whole->size() && question[n] == (*whole)[n]) ++n;
  if (n > 0 && question[n - 1] == '<') --n;  // of two different markers
  Answer answer{whole->substr(0, n), whole->substr(n)};
  EXPECT_TRUE(answer.text.ends_with(fixture.end)) << answer.text;
  answer.text.resize(answer.text.size() - fixture.end.size());
  return answer;
}

std::vector<Json> reply_tools() {
  const Json text = {{"type", "string"}};
  return {{{"type", "function"},
           {"function",
            {{"name", "get_weather"},
             {"parameters",
              {{"type", "object"},
               {"properties",
                {{"city", text},
                 {"days", {{"type", "integer"}}},
                 {"metric", {{"type", "boolean"}}},
                 {"note", text},
                 {"places", {{"type", "array"}, {"items", {{"type", "object"}, {"properties", {{"at", text}}}}}}}}},
               {"required", {"city", "days"}}}}}}},
          {{"type", "function"},
           {"function",
            {{"name", "stop-all"},
             {"parameters", {{"type", "object"}, {"properties", {{"why", text}}}, {"required", {"why"}}}}}}}};
}

ToolCall tricky_call() {
  return {.id = "abcdefgh1",
          .name = "get_weather",
          .arguments = {{"city", "Z\u00FCrich \"{old}\" \U0001F994 \\n </tool_call> </think>"},
                        {"days", 5},
                        {"metric", true},
                        {"note", "first\nsecond </x> [/x] }]"},
                        {"places", {{{"at", "a \"b\""}}, {{"at", "}"}}}}}};
}
ToolCall plain_call() { return {.id = "abcdefgh2", .name = "stop-all", .arguments = {{"why", "5"}}}; }

ReadReply read_reply(const ReplyFormat& format, const Answer& answer, const std::vector<size_t>& cuts, bool wants_calls,
                     int max_calls) {
  OutputOptions options;
  server::set_reply_output(format, wants_calls, answer.prompt, options);
  auto machine = OutputMachine::create(options);
  EXPECT_TRUE(machine);
  server::ReplyParser parser(format, wants_calls, max_calls, reply_tools());
  ReadReply out;
  const auto take = [&](const std::vector<server::ReplyDelta>& deltas) {
    using Kind = server::ReplyDelta::Kind;
    for (const server::ReplyDelta& delta : deltas) {
      if (delta.kind == Kind::content) out.content += delta.text;
      if (delta.kind == Kind::reasoning) out.reasoning += delta.text;
      if (delta.kind == Kind::call) {
        EXPECT_EQ(delta.call, static_cast<int>(out.names.size()));
        EXPECT_FALSE(delta.id.empty());
        out.ids.push_back(delta.id);
        out.names.push_back(delta.name);
        out.arguments.emplace_back();
      }
      if (delta.kind == Kind::arguments) {
        EXPECT_LT(static_cast<size_t>(delta.call), out.arguments.size());
        if (static_cast<size_t>(delta.call) < out.arguments.size())
          out.arguments[static_cast<size_t>(delta.call)] += delta.text;
      }
    }
  };
  size_t at = 0;
  for (const size_t cut : cuts) {
    take(parser.push(machine->push(std::string_view(answer.text).substr(at, cut - at))));
    at = cut;
  }
  take(parser.push(machine->push(std::string_view(answer.text).substr(at))));
  take(parser.push(machine->finish()));
  take(parser.finish());
  EXPECT_EQ(parser.n_calls(), static_cast<int>(out.names.size()));
  return out;
}

Tokenizer byte_tokenizer(const std::vector<std::string>& control_tokens) {
  VocabSource source{.model = "llama"};
  const auto add = [&](std::string text, TokenType type) {
    source.tokens.push_back(std::move(text));
    source.types.push_back(static_cast<int32_t>(type));
    source.scores.push_back(0);
  };
  add("<unk>", TokenType::unknown);
  add("<s>", TokenType::control);
  add("</s>", TokenType::control);
  for (unsigned byte = 0; byte < 256; ++byte) {
    static constexpr char kHex[] = "0123456789ABCDEF";
    add({'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'}, TokenType::byte);
  }
  add("\u2581", TokenType::normal);  // a space
  for (const std::string& text : control_tokens) add(text, TokenType::control);
  source.ids = {.bos = 1, .eos = 2, .unk = 0};
  source.add_space_prefix = false;
  auto made = Tokenizer::create(std::move(source));
  EXPECT_TRUE(made) << (made ? "" : made.error().message());
  return std::move(*made);
}

}  // namespace tokamak::test
