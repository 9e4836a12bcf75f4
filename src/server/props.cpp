// /props and /lora-adapters: what the server is.
#include "server/dialect.h"
#include "server/endpoints.h"
#include "server/generation.h"
#include "server/rerank_head.h"

namespace tokamak::server {

namespace {
// What requests get that say nothing.
Json default_settings(const ServerOptions& options) {
  Json out = sampling_json(options.sampling);
  out["n_predict"] = options.n_predict;
  return out;
}

Json template_abilities(const Result<ChatTemplate>& chat_template) {
  if (!chat_template) return Json::object();
  const TemplateAbilities& can = chat_template->abilities();
  return {
      {"takes_parts", can.takes_parts}, {"shows_tools", can.shows_tools}, {"shows_tool_calls", can.shows_tool_calls}};
}

Json abilities(const ServerContext& context) {
  const TokenRoles& roles = context.tokenizer().roles();
  const bool has_infill = roles.fim_pre != kNoToken && roles.fim_suf != kNoToken && roles.fim_mid != kNoToken;
  return {{"chat", context.chat_template.has_value()},
          {"infill", has_infill},
          {"embeddings", true},
          {"rerank", RerankHead::exists(context.model)},
          {"slot_files", !context.options.slot_folder.empty()}};
}

Json memory_json(const Service& service) {
  Json memory = Json::array();
  for (const MemoryUse& use : service.memory())
    memory.push_back({{"what", use.what}, {"bytes", use.n_bytes}, {"file_mapping", use.is_file_mapping}});
  return memory;
}
}  // namespace

void props(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const Tokenizer& tokenizer = context.tokenizer();
  const auto special = [&](int32_t id) { return id == kNoToken ? std::string() : tokenizer.token_text(id); };
  Json json = {{"model", context.model_name}, {"model_alias", context.model_name}, {"meta", model_meta(context)}};
  json["total_slots"] = context.n_parallel;
  json["default_generation_settings"] = {{"n_ctx", context.service.n_ctx()},
                                         {"params", default_settings(context.options)}};
  json["chat_template"] = context.chat_template ? Json(context.chat_template->source()) : Json(nullptr);
  json["chat_template_caps"] = template_abilities(context.chat_template);
  json["bos_token"] = special(tokenizer.roles().bos);
  json["eos_token"] = special(tokenizer.roles().eos);
  json["modalities"] = {{"vision", false}, {"audio", false}};
  json["abilities"] = abilities(context);
  json["is_sleeping"] = false;
  json["memory"] = memory_json(context.service);
  exchange->respond({.body = dump(json)});
}

void set_props(const std::shared_ptr<Exchange>& exchange, ServerContext&) {
  exchange->respond(
      error_response(Dialect::openai, Error{.code = ErrorCode::unsupported,
                                            .what = "the server's properties cannot be changed while it runs",
                                            .hint = "start it with other settings, or send them with each request"}));
}

void lora_adapters(const std::shared_ptr<Exchange>& exchange, ServerContext&) { exchange->respond({.body = "[]"}); }

void set_lora_adapters(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const Result<Json> body = parse_json(exchange->request().body, "body");
  if (body && body->is_array() && body->empty()) return lora_adapters(exchange, context);
  exchange->respond(error_response(Dialect::openai, body ? Error{.code = ErrorCode::unsupported,
                                                                 .what = "no adapters are loaded: they are not built"}
                                                         : body.error()));
}

}  // namespace tokamak::server
