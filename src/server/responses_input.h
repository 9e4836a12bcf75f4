// The items of a Responses request as messages of a chat.
#pragma once

#include <string>
#include <vector>

#include "chat/message.h"

namespace tokamak::server {

// `input`: a text or a list of items. Neighbouring reasoning, messages of the
// assistant and calls are one turn; system and developer messages at the front
// are one system message, which begins with the instructions (if not empty).
// Ids, states and encrypted thoughts are not needed. Errors: bad_argument
// naming the item and the part.
Result<std::vector<ChatMessage>> read_response_input(const Json& input, const std::string& instructions);

}  // namespace tokamak::server
