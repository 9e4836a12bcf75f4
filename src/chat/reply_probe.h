// Probe conversations: what a template writes for an assistant's turn. Internal to reply_format.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "chat/chat_template.h"

namespace tokamak {

inline constexpr std::string_view kProbeText = "zqtext", kProbeThought = "zqthought";

// One call of a probe. Ids have nine letters and digits, as some templates demand.
struct ProbeCall {
  std::string_view name, id;
  Json arguments;
};
// Two that differ in everything.
const ProbeCall& first_probe_call();
const ProbeCall& second_probe_call();

struct ProbeTurn {
  std::string_view content = {}, thought = {};
  std::vector<ProbeCall> calls = {};
};

// Renders a user's message and one turn of the assistant, with and without tools.
class ReplyProbe {
 public:
  explicit ReplyProbe(const ChatTemplate& chat_template);

  // The assistant's turn without what comes before it in every turn and without the end of the turn; nothing if the
  // template refuses it.
  std::optional<std::string> body(const ProbeTurn& turn) const;
  // The whole prompt.
  std::optional<std::string> prompt(const ProbeTurn& turn) const;
  // The prompt that asks for an answer.
  const std::string& question() const { return question_; }
  // Tools are shown to the template in all later probes.
  void show_tools();

 private:
  void find_frame();
  ChatRequest request(const ProbeTurn& turn) const;

  const ChatTemplate& template_;
  std::vector<Json> tools_;
  std::string question_;
  std::string before_, after_;  // the text of a plain turn
};

}  // namespace tokamak
