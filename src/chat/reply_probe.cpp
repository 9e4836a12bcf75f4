#include "chat/reply_probe.h"

#include <algorithm>

#include "chat/format_texts.h"

namespace tokamak {

const ProbeCall& first_probe_call() {
  static const ProbeCall call{"zqtoola", "zqid0000a", {{"zqkeya", "zqvala"}, {"zqkeyb", "zqvalb"}}};
  return call;
}
const ProbeCall& second_probe_call() {
  static const ProbeCall call{"zqtoolb", "zqid0000b", {{"zqkeyc", "zqvalc"}, {"zqkeyd", "zqvald"}}};
  return call;
}

ReplyProbe::ReplyProbe(const ChatTemplate& chat_template) : template_(chat_template) { find_frame(); }

void ReplyProbe::show_tools() {
  for (const ProbeCall* call : {&first_probe_call(), &second_probe_call()}) {
    Json properties = Json::object();
    for (const auto& [key, value] : call->arguments.items())
      properties[key] = {{"type", "string"}, {"description", "d"}};
    tools_.push_back(
        {{"type", "function"},
         {"function",
          {{"name", call->name},
           {"description", "d"},
           {"parameters", {{"type", "object"}, {"properties", properties}, {"required", Json::array()}}}}}});
  }
  find_frame();
}

ChatRequest ReplyProbe::request(const ProbeTurn& turn) const {
  ChatRequest request;
  request.tools = tools_;
  request.add_generation_prompt = false;
  ChatMessage answer{.role = "assistant"};
  if (!turn.content.empty()) answer.content = std::string(turn.content);
  if (!turn.thought.empty()) answer.reasoning_content = std::string(turn.thought);
  for (const ProbeCall& call : turn.calls)
    answer.tool_calls.push_back(
        {.id = std::string(call.id), .name = std::string(call.name), .arguments = call.arguments});
  request.messages = {{.role = "user", .content = "zquser"}, std::move(answer)};
  return request;
}

std::optional<std::string> ReplyProbe::prompt(const ProbeTurn& turn) const {
  auto text = template_.render(request(turn));
  if (!text) return std::nullopt;
  return std::move(*text);
}

void ReplyProbe::find_frame() {
  ChatRequest ask = request({});
  ask.messages.pop_back();
  ask.add_generation_prompt = true;
  question_ = template_.render(ask).value_or(std::string());
  const std::string plain = prompt({.content = kProbeText}).value_or(std::string());
  const size_t at = plain.rfind(kProbeText);
  before_ = plain.substr(0, at == std::string::npos ? 0 : at);
  after_ = at == std::string::npos ? std::string() : plain.substr(at + kProbeText.size());
}

std::optional<std::string> ReplyProbe::body(const ProbeTurn& turn) const {
  auto text = prompt(turn);
  if (!text) return std::nullopt;
  std::string_view body = *text;
  body.remove_prefix(common_beginning(before_, body));
  // Some templates end other turns differently: then only what all have in common goes.
  body.remove_suffix(body.ends_with(after_) ? after_.size() : common_end(after_, body));
  return std::string(body);
}

}  // namespace tokamak
