// GET /slots, POST /slots/{id}?action=save|restore|erase.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <map>

#include "engine/slots.h"
#include "server/dialect.h"
#include "server/endpoints.h"
#include "server/generation.h"

namespace tokamak::server {

namespace {
using SteadyClock = std::chrono::steady_clock;

enum class SlotAction : uint8_t { save, restore, erase };

struct SlotTask {
  SlotAction action = SlotAction::save;
  int64_t slot = 0;
  std::string filename, tenant;
};

Result<int64_t> read_slot(std::string_view path) {
  const std::string_view text = path.substr(path.rfind('/') + 1);
  int64_t slot = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slot);
  if (error != std::errc() || end != text.data() + text.size()) return bad_field("id_slot", "must be a number");
  return slot;
}

Result<SlotTask> read_task(const HttpRequest& request) {
  SlotTask task{.slot = TRY(read_slot(request.path))};
  const auto action = request.query.find("action");
  const std::string_view name = action == request.query.end() ? std::string_view() : action->second;
  constexpr std::pair<std::string_view, SlotAction> kActions[] = {
      {"save", SlotAction::save}, {"restore", SlotAction::restore}, {"erase", SlotAction::erase}};
  const auto* found = std::ranges::find(kActions, name, &std::pair<std::string_view, SlotAction>::first);
  if (found == std::end(kActions)) return bad_field("action", "must be save, restore or erase");
  task.action = found->second;
  const Fields fields = TRY(Fields::parse(request.body.empty() ? "{}" : request.body, kSlots));
  task.filename = fields.text("filename", "");
  task.tenant = fields.text("cache_tenant", "");
  if (task.action != SlotAction::erase && !fields.has("filename")) return bad_field("filename", "is missing");
  return task;
}

Result<Json> run_task(const SlotTask& task, SlotStore& store) {
  const auto start = SteadyClock::now();
  const auto ms = [&start] { return std::chrono::duration<double, std::milli>(SteadyClock::now() - start).count(); };
  Json json = {{"id_slot", task.slot}};
  if (task.action == SlotAction::erase) {
    json["n_erased"] = TRY(store.erase(task.slot, task.tenant));
    return json;
  }
  const bool saves = task.action == SlotAction::save;
  const SlotReport report = TRY(saves ? store.save(task.slot, task.filename, task.tenant)
                                      : store.restore(task.slot, task.filename, task.tenant));
  json["filename"] = task.filename;
  json[saves ? "n_saved" : "n_restored"] = report.n_tokens;
  json[saves ? "n_written" : "n_read"] = report.n_bytes;
  json["timings"] = {{saves ? "save_ms" : "restore_ms", ms()}};
  return json;
}

Json slot_json(int64_t slot, const ServiceStats& stats, int64_t n_ctx) {
  Json json = {{"id", slot}, {"n_ctx", n_ctx}, {"is_processing", false}, {"state", "idle"}};
  for (const RequestStatus& r : stats.requests) {
    if (r.slot != slot || r.state == "queued") continue;
    json["is_processing"] = true;
    json["state"] = r.state;
    json["id_task"] = r.id;
    json["n_prompt"] = r.n_prompt;
    json["n_cached"] = r.n_cached;
    json["n_processed"] = r.n_processed;
    json["n_generated"] = r.n_generated;
    json["age_seconds"] = r.age_seconds;
  }
  json["n_tokens"] = stats.slot_tokens[static_cast<size_t>(slot)];
  return json;
}
}  // namespace

void slots(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const ServiceStats stats = context.service.stats();
  const auto fail = exchange->request().query.find("fail_on_no_slot");
  if (fail != exchange->request().query.end() && fail->second != "0" && stats.n_running >= context.n_parallel)
    return exchange->respond(error_response(Dialect::openai, 503, "no slot is free"));
  Json list = Json::array();
  for (int64_t slot = 0; slot < context.n_parallel; ++slot)
    list.push_back(slot_json(slot, stats, context.service.n_ctx()));
  exchange->respond({.body = dump(list)});
}

void slot_action(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  auto task = read_task(exchange->request());
  if (!task) return respond_error(*exchange, context, Dialect::openai, task.error());
  context.file_workers.post([exchange, &context, task = *std::move(task)] {
    const auto json = run_task(task, context.slot_store);
    if (json) return exchange->respond({.body = dump(*json)});
    respond_error(*exchange, context, Dialect::openai, json.error());
  });
}

}  // namespace tokamak::server
