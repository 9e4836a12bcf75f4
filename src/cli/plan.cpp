// plan: the memory ledger of a server, worked out from the file's header.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "chat/message.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/format.h"
#include "cli/loading.h"

namespace tokamak::cli {

namespace {
// File pages are shared and can be dropped: they are no part of the sum.
uint64_t total_bytes(const std::vector<MemoryUse>& ledger) {
  uint64_t n = 0;
  for (const MemoryUse& use : ledger) n += use.is_file_mapping ? 0 : use.n_bytes;
  return n;
}

Json to_json(const Session& session, const std::vector<MemoryUse>& ledger) {
  Json json = {{"model", session.model().name()},
               {"context", session.n_ctx()},
               {"kv_tokens", session.options().n_kv},
               {"reserved_bytes", total_bytes(ledger)},
               {"parts", Json::array()}};
  for (const MemoryUse& use : ledger)
    json["parts"].push_back({{"what", use.what}, {"bytes", use.n_bytes}, {"file_mapping", use.is_file_mapping}});
  return json;
}

void print_text(const Session& session, const std::vector<MemoryUse>& ledger, const SettingValues& values) {
  print(fmt::format("{}, context {} tokens, KV cache {} tokens, {} requests at once\n", session.model().name(),
                    session.n_ctx(), session.options().n_kv, values.integer("--parallel")));
  std::vector<std::vector<std::string>> rows = {{"reserved", "bytes", ""}};
  for (const MemoryUse& use : ledger)
    if (use.n_bytes > 0)
      rows.push_back({use.what, human_bytes(use.n_bytes), use.is_file_mapping ? "pages of the file, not counted" : ""});
  rows.push_back({"sum", human_bytes(total_bytes(ledger)), ""});
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
