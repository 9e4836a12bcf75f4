// plan: the memory ledger of a server, worked out from the file's header.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "chat/message.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/format.h"
#include "cli/loading.h"

namespace tokamak::cli {

namespace {
// By device; the host's memory has no name. File pages are shared and can be dropped: they are no part of a sum.
std::map<std::string, uint64_t> sums(const std::vector<MemoryUse>& ledger) {
  std::map<std::string, uint64_t> out = {{"", 0}};
  for (const MemoryUse& use : ledger) out[use.device] += use.is_file_mapping ? 0 : use.n_bytes;
  return out;
}

std::string_view name_of(std::string_view device) { return device.empty() ? "host" : device; }

Json to_json(Session& session, const std::vector<MemoryUse>& ledger) {
  Json json = {{"model", session.model().name()},
               {"context", session.n_ctx()},
               {"kv_tokens", session.options().n_kv},
               {"runs_on", session.backend().description()},
               {"remark", session.backend().remark()},
               {"reserved_bytes", 0},
               {"parts", Json::array()}};
  for (const MemoryUse& use : ledger)
    json["parts"].push_back({{"what", use.what},
                             {"bytes", use.n_bytes},
                             {"device", name_of(use.device)},
                             {"file_mapping", use.is_file_mapping}});
  uint64_t total = 0;
  for (const auto& [device, n_bytes] : sums(ledger)) {
    json["devices"][std::string(name_of(device))] = n_bytes;
    total += n_bytes;
  }
  json["reserved_bytes"] = total;
  return json;
}

void print_text(Session& session, const std::vector<MemoryUse>& ledger, const SettingValues& values) {
  print(fmt::format("{}, context {} tokens, KV cache {} tokens, {} requests at once\n", session.model().name(),
                    session.n_ctx(), session.options().n_kv, values.integer("--parallel")));
  print("on " + session.backend().description() + "\n");
  std::vector<std::vector<std::string>> rows = {{"reserved", "bytes", ""}};
  for (const MemoryUse& use : ledger)
    if (use.n_bytes > 0)
      rows.push_back({use.what, human_bytes(use.n_bytes), use.is_file_mapping ? "pages of the file, not counted" : ""});
  const std::map<std::string, uint64_t> by_device = sums(ledger);
  for (const auto& [device, n_bytes] : by_device)
    rows.push_back({by_device.size() == 1 ? "sum" : fmt::format("sum, {}", name_of(device)), human_bytes(n_bytes), ""});
  print(text_table(rows, "<><"));
}
}  // namespace

Result<int> plan_command(const Arguments& arguments) {
  const SettingValues& values = arguments.values;
  TRY(check_no_more_words(arguments));
  const std::shared_ptr<const Model> model = TRY(open_model(arguments));
  SessionOptions options = TRY(serving_session_options(values, *model));
  options.only_plan = true;
  const std::unique_ptr<Session> session = TRY(open_session(model, std::move(options), values));
  const std::vector<MemoryUse> ledger = TRY(Service::ledger(*session, service_options(values)));
  if (values.flag("--json"))
    print(to_json(*session, ledger).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  else
    print_text(*session, ledger, values);
  return 0;
}

}  // namespace tokamak::cli
