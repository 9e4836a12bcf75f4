// Anthropic's messages as those of a chat.
#pragma once

#include <string>
#include <vector>

#include "chat/message.h"

namespace tokamak::server {

// `system`: a text, blocks of text, or null. Results of tools become messages
// of their own; neighbours of one role are one turn. Signatures and redacted
// thoughts are not needed. Errors: bad_argument naming the message and the
// block.
Result<std::vector<ChatMessage>> read_anthropic_messages(const Json* system, const Json& messages);

}  // namespace tokamak::server
