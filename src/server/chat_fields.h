// OpenAI's chat request: from its fields to a task.
#pragma once

#include "server/chat_task.h"

namespace tokamak::server {

// Messages, tools, tool_choice and all that read_chat_task reads. Errors name the field.
Result<ChatTask> read_chat(const Fields& fields, const ServerContext& context);

// tools and tool_choice in chat's form. What is left out goes to a header of the answer, X-Tokamak-Ignored-Tools.
Result<void> read_tool_use(const Json& tools, const Json& choice, bool parallel, ChatTask& task);

// The function tools of a list in the form {"type": "function", "function": {...}}. Tools of other types are left out;
// their types are appended to `ignored`.
Result<std::vector<Json>> read_tools(const Json& list, std::vector<std::string>& ignored);

}  // namespace tokamak::server
