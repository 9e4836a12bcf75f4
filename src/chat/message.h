// Chat requests as clients send them: roles, content, reasoning, tool calls, tools.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace tokamak {

using Json = nlohmann::ordered_json;  // key order shows in prompts

// Deepest nesting of arrays and objects taken from a client.
inline constexpr int kMaxJsonDepth = 128;
// Most comparisons of names that a text may cost: `Json` looks each name up among those before it in its object, so
// one object may have some 10,000 names, and any number of small ones may come.
inline constexpr uint64_t kMaxJsonComparisons = 50'000'000;

// Parses text from the network. Errors: bad_argument (syntax, invalid UTF-8, nested deeper than kMaxJsonDepth, objects
// with too many names, a number that does not fit); `where` names the field in the message.
Result<Json> parse_json(std::string_view text, std::string_view where);

struct ToolCall {
  std::string id;  // may be empty
  std::string name;
  Json arguments;               // an object, or a string that holds one
  Json extra = Json::object();  // further fields, handed to the template as they are
};

// Nothing, a string, or parts such as {"type": "text", "text": "..."}.
using Content = std::variant<std::monostate, std::string, std::vector<Json>>;

struct ChatMessage {
  std::string role;
  Content content;
  std::optional<std::string> reasoning_content;
  std::vector<ToolCall> tool_calls;
  std::optional<std::string> name;
  std::optional<std::string> tool_call_id;
  Json extra = Json::object();  // further fields, handed to the template as they are
};

// One message of the OpenAI form. Null fields count as absent; `thinking` and `reasoning` are read as
// reasoning_content. Errors: bad_argument naming `where` (for example "messages[3]") and the field.
Result<ChatMessage> parse_message(const Json& json, std::string_view where);
// An array of messages.
Result<std::vector<ChatMessage>> parse_messages(const Json& json);

struct ChatRequest {
  std::vector<ChatMessage> messages;
  std::vector<Json> tools;      // empty: none
  std::vector<Json> documents;  // empty: none
  bool add_generation_prompt = true;
  // The last message is an unfinished answer: the prompt ends right after its text.
  bool continue_final_message = false;
  Json template_kwargs = Json::object();  // enable_thinking and the like
};

}  // namespace tokamak
