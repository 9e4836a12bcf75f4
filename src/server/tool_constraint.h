// Tool calls as a grammar: what a model may write when it has tools.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chat/reply_format.h"
#include "grammar/grammar.h"
#include "grammar/state.h"

namespace tokamak::server {

enum class ToolChoice : uint8_t { automatic, none, required, named };

struct ToolUse {
  std::vector<Json> tools;  // {"type": "function", "function": {"name", "description", "parameters"}}
  ToolChoice choice = ToolChoice::automatic;
  std::string name;       // choice named
  bool parallel = false;  // several calls in one answer
};

struct ToolConstraint {
  Grammar::Ptr grammar;      // its notes name what of the schemas is not enforced
  GrammarTriggers triggers;  // empty: from the start of the answer
};

// automatic: the grammar waits for the opening marker of a call, then holds to the end; nothing where the format has no
// marker or the template shows no calls. required, named: the answer is calls; the tag of a thought may stand in front
// of them, where the model opens it itself. none: nothing.
// Errors: bad_argument, `where` naming the field: "tools[3].function.name", a schema's own path behind
// "tools[3].function.parameters", "tool_choice"; unsupported when calls are demanded of a template that shows none.
Result<std::optional<ToolConstraint>> tool_constraint(const ReplyFormat& format, const ToolUse& use,
                                                      const Tokenizer& tokenizer, const GrammarOptions& options);

}  // namespace tokamak::server
