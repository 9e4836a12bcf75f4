#include "server/chat_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/json_access.h"

namespace tokamak::server {

namespace {
constexpr size_t kMaxTools = 1024;  // of one request

Result<void> check_function(const Json& tool, const std::string& where) {
  const Json* function = member(tool, "function");
  if (!function || !function->is_object()) return bad_field(where + ".function", "must be an object with a name");
  if (text_member(*function, "name").empty()) return bad_field(where + ".function.name", "must be text");
  const Json* parameters = member(*function, "parameters");
  if (parameters && !parameters->is_object())
    return bad_field(where + ".function.parameters", "must be a JSON Schema: an object");
  return {};
}

// "auto" and the like, {"type": "function", "function": {"name"}} or {"type": "allowed_tools", ...}.
Result<ToolChoice> choice_of_word(const std::string& word, std::string_view where) {
  if (word == "auto") return ToolChoice::automatic;
  if (word == "none") return ToolChoice::none;
  if (word == "required") return ToolChoice::required;
  return bad_field(where, fmt::format("'{}' is not known: auto, none, required, or a function", word));
}

std::string name_of(const Json& tool) { return text_member(*member(tool, "function"), "name"); }

Result<void> allow_only(const Json& allowed, ToolUse& use) {
  const Json* tools = member(allowed, "tools");
  if (!tools || !tools->is_array()) return bad_field("tool_choice.allowed_tools.tools", "must be a list");
  if (tools->size() > kMaxTools)
    return bad_field("tool_choice.allowed_tools.tools", fmt::format("has more than {} entries", kMaxTools));
  std::vector<std::string> names;
  for (const Json& tool : *tools)
    if (const Json* function = member(tool, "function")) names.push_back(text_member(*function, "name"));
  std::erase_if(use.tools, [&](const Json& tool) { return std::ranges::find(names, name_of(tool)) == names.end(); });
  use.choice = TRY(choice_of_word(text_member(allowed, "mode"), "tool_choice.allowed_tools.mode"));
  return {};
}

Result<void> read_choice(const Json& choice, ToolUse& use) {
  if (choice.is_string()) {
    use.choice = TRY(choice_of_word(choice.get<std::string>(), "tool_choice"));
    return {};
  }
  if (const Json* allowed = member(choice, "allowed_tools")) return allow_only(*allowed, use);
  const Json* function = member(choice, "function");
  use.name = function ? text_member(*function, "name") : std::string();
  if (use.name.empty()) return bad_field("tool_choice", "must be auto, none, required, or name a function");
  use.choice = ToolChoice::named;
  if (std::ranges::none_of(use.tools, [&](const Json& tool) { return name_of(tool) == use.name; }))
    return bad_field("tool_choice", fmt::format("'{}' is not among the tools", use.name));
  return {};
}

Result<void> read_messages(const Fields& fields, ChatRequest& chat) {
  const Json* messages = fields.find("messages");
  if (!messages) return bad_field("messages", "is missing");
  chat.messages = TRY(parse_messages(*messages));
  if (chat.messages.empty()) return bad_field("messages", "is empty");
  chat.add_generation_prompt = fields.flag("add_generation_prompt", true);
  chat.continue_final_message = fields.flag("continue_final_message", false);
  if (chat.continue_final_message) chat.add_generation_prompt = false;
  return {};
}

}  // namespace

Result<std::vector<Json>> read_tools(const Json& list, std::vector<std::string>& ignored) {
  if (list.size() > kMaxTools) return bad_field("tools", fmt::format("has more than {} entries", kMaxTools));
  std::vector<Json> out;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("tools[{}]", i);
    if (!list[i].is_object()) return bad_field(where, "must be an object");
    const std::string type = list[i].contains("type") ? text_member(list[i], "type") : "function";
    if (type != "function") {
      ignored.push_back(type);
      continue;
    }
    TRY(check_function(list[i], where));
    out.push_back(list[i]);
    out.back()["type"] = "function";
  }
  return out;
}

Result<void> read_tool_use(const Json& tools, const Json& choice, bool parallel, ChatTask& task) {
  ToolUse& use = task.tool_use;
  std::vector<std::string> ignored;
  use.tools = TRY(read_tools(tools, ignored));
  if (!ignored.empty())
    task.headers.emplace_back("X-Tokamak-Ignored-Tools", header_text(fmt::format("{}", fmt::join(ignored, ", "))));
  TRY(read_choice(choice, use));
  if (use.choice == ToolChoice::required && use.tools.empty())
    return bad_field("tool_choice", "a call is required, but there are no function tools");
  use.parallel = parallel;
  return {};
}

Result<ChatTask> read_chat(const Fields& fields, const ServerContext& context) {
  ChatTask task = TRY(read_chat_task(fields, kChat, context));
  TRY(read_messages(fields, task.chat));
  const Json* tools = fields.find("tools");
  const Json* choice = fields.find("tool_choice");
  TRY(read_tool_use(tools ? *tools : Json::array(), choice ? *choice : Json("auto"),
                    fields.flag("parallel_tool_calls", true), task));
  task.n_answers = static_cast<size_t>(fields.integer("n", 1));
  const std::string reasoning = fields.text("reasoning_format", "auto");
  if (reasoning != "auto" && reasoning != "deepseek" && reasoning != "none")
    return bad_field("reasoning_format", "must be auto, deepseek or none");
  task.separate_reasoning = reasoning != "none";
  return task;
}

}  // namespace tokamak::server
