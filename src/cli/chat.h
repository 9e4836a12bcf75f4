// The interactive chat on a terminal.
#pragma once

#include "cli/conversation.h"

namespace tokamak::cli {

// Until /exit, the end of input (status 0) or Ctrl-C at an empty prompt (130). Ctrl-C during an answer stops the
// answer.
Result<int> chat(Conversation& conversation, Session& session);

}  // namespace tokamak::cli
