// Tools for models whose chat template knows none: told in the system message, called in the form that many models have
// seen (Hermes): JSON between <tool_call> and </tool_call>, results between <tool_response> and </tool_response>.
#pragma once

#include "chat/chat_template.h"

namespace tokamak {

// The same conversation for such a template: tools in the system message, calls of the past as text of the assistant,
// results as messages of the user. Without tools, calls and results nothing changes. Errors: bad_argument (arguments of
// a call that are no JSON object).
Result<ChatRequest> describe_tools(ChatRequest request);

// A template that writes calls in that form, to derive their format from.
const ChatTemplate& tool_fallback_template();

}  // namespace tokamak
