// POST /v1/chat/completions/control: {"id", "action": "reasoning_end"}.
#include "server/endpoints.h"
#include "server/generation.h"

namespace tokamak::server {

namespace {

Result<void> run(Exchange& exchange, ServerContext& context) {
  const Fields fields = TRY(Fields::parse(exchange.request().body, kControl));
  const std::string id = fields.text("id", ""), action = fields.text("action", "");
  if (id.empty()) return bad_field("id", "is missing");
  if (action != "reasoning_end") return bad_field("action", "must be reasoning_end");
  if (!context.running->end_reasoning(id))
    return Error{.code = ErrorCode::not_found, .what = "no answer of this id is under way", .where = "id"};
  exchange.respond({.body = dump({{"id", id}, {"action", action}, {"success", true}})});
  return {};
}

}  // namespace

void chat_control(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  if (auto ok = run(*exchange, context); !ok) respond_error(*exchange, context, Dialect::openai, ok.error());
}

}  // namespace tokamak::server
