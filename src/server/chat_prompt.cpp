#include "server/chat_prompt.h"

namespace tokamak::server {

namespace {
constexpr std::string_view kThinkStart = "<think>", kThinkEnd = "</think>";

bool ends_with_tag(std::string_view text, std::string_view tag) {
  const size_t end = text.find_last_not_of(" \n\r\t");
  return end != text.npos && text.substr(0, end + 1).ends_with(tag);
}
}  // namespace

Result<std::string> render_chat(const Fields& fields, const ServerContext& context) {
  if (!context.chat_template) return context.chat_template.error();
  const Json* messages = fields.find("messages");
  if (!messages) return bad_field("messages", "is missing");
  ChatRequest chat{.messages = TRY(parse_messages(*messages))};
  if (chat.messages.empty()) return bad_field("messages", "is empty");
  if (const Json* tools = fields.find("tools")) chat.tools.assign(tools->begin(), tools->end());
  chat.add_generation_prompt = fields.flag("add_generation_prompt", true);
  chat.continue_final_message = fields.flag("continue_final_message", false);
  if (chat.continue_final_message) chat.add_generation_prompt = false;
  if (const Json* kwargs = fields.find("chat_template_kwargs")) chat.template_kwargs = *kwargs;
  return context.chat_template->render(chat);
}

void set_reasoning_tags(OutputOptions& output, const ServerContext& context, std::string_view prompt) {
  std::string start = context.options.reasoning_start, end = context.options.reasoning_end;
  if (start.empty()) {
    if (!context.chat_template || context.chat_template->source().find(kThinkEnd) == std::string::npos) return;
    start = kThinkStart;
    end = kThinkEnd;
  }
  output.starts_in_reasoning = ends_with_tag(prompt, start);
  output.reasoning_start = std::move(start);
  output.reasoning_end = std::move(end);
}

}  // namespace tokamak::server
