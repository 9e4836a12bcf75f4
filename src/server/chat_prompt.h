// From a chat request's fields to the model's prompt.
#pragma once

#include <string>

#include "server/context.h"

namespace tokamak::server {

// The prompt's text by the model's template. Errors: those of parse_messages and ChatTemplate::render; bad_template
// when the model has none.
Result<std::string> render_chat(const Fields& fields, const ServerContext& context);

// Tags of thoughts where the template knows them, and whether the prompt has opened one already.
void set_reasoning_tags(OutputOptions& output, const ServerContext& context, std::string_view prompt);

}  // namespace tokamak::server
