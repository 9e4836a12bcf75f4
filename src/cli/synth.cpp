// synth: dummy models of the known families, with random weights.
#include "synth/synth.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/format.h"
#include "quantize/file_types.h"

namespace tokamak::cli {

namespace {
namespace fs = std::filesystem;

struct Job {
  const arch::DummyRow* dummy;
  fs::path out;
};

Error bad_words(std::string what, std::string where) {
  return Error{.code = ErrorCode::bad_argument,
               .what = std::move(what),
               .where = std::move(where),
               .hint = "tokamak synth llama out.gguf, or tokamak synth --all FOLDER"};
}

Result<const arch::DummyRow*> find_row(const std::string& name, bool want_moe, bool want_dense) {
  for (const arch::DummyRow& row : arch::full_size_dummies())
    if (row.full_size == name) return &row;
  const arch::DummyRow *dense = arch::find_dummy(name, false), *moe = arch::find_dummy(name, true);
  if (dense == nullptr && moe == nullptr) {
    std::vector<std::string_view> names;
    for (const arch::ArchitectureRow& row : arch::architectures()) names.push_back(row.name);
    for (const arch::DummyRow& row : arch::full_size_dummies()) names.push_back(row.full_size);
    const std::string_view near = nearest_name(name, names);
    return Error{
        .code = ErrorCode::bad_argument,
        .what = "no such model family",
        .where = name,
        .hint = near.empty() ? "docs/reference/architectures.md lists them" : fmt::format("did you mean {}?", near)};
  }
  const arch::DummyRow* wanted = want_moe ? moe : want_dense || dense != nullptr ? dense : moe;
  if (wanted == nullptr)
    return Error{.code = ErrorCode::bad_argument,
                 .what = want_moe ? "the family has no model with experts" : "the family has experts always",
                 .where = name,
                 .hint = fmt::format("leave out {}", want_moe ? "--moe" : "--dense")};
  return wanted;
}

Result<std::vector<Job>> read_jobs(const Arguments& arguments) {
  const bool moe = arguments.values.flag("--moe"), dense = arguments.values.flag("--dense");
  if (moe && dense) return bad_words("--moe and --dense exclude each other", "tokamak synth");
  const std::string& folder = arguments.values.text("--all");
  std::vector<Job> jobs;
  if (folder.empty()) {
    if (arguments.words.size() != 2)
      return bad_words(fmt::format("needs a family and an output file, not {} word{}", arguments.words.size(),
                                   arguments.words.size() == 1 ? "" : "s"),
                       "tokamak synth");
    jobs.push_back({TRY(find_row(arguments.words[0], moe, dense)), arguments.words[1]});
    return jobs;
  }
  if (!arguments.words.empty()) return bad_words("--all makes every family, none can be named", arguments.words[0]);
  for (const arch::DummyRow& row : arch::dummies())
    if (row.has_experts ? !dense : !moe) jobs.push_back({&row, fs::path(folder) / (row.name() + ".gguf")});
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return Error{.code = ErrorCode::io_failed, .what = failed.message(), .where = folder};
  return jobs;
}
}  // namespace

Result<int> synth_command(const Arguments& arguments) {
  const SettingValues& values = arguments.values;
  SynthOptions options{.type = TRY(find_target_type(values.text("--type"), "--type"))};
  if (values.integer("--seed") >= 0) options.seed = static_cast<uint64_t>(values.integer("--seed"));
  const std::vector<Job> jobs = TRY(read_jobs(arguments));
  const bool as_json = values.flag("--json");
  catch_interrupts(true);
  ProgressBar bar("writing", !as_json);
  nlohmann::ordered_json written = nlohmann::ordered_json::array();
  for (size_t i = 0; i < jobs.size(); ++i) {
    const auto progress = [&](double fraction) {
      return bar.update((static_cast<double>(i) + fraction) / static_cast<double>(jobs.size()));
    };
    TRY(TRY(synth(*jobs[i].dummy, options)).write(jobs[i].out, {.progress = progress}));
    written.push_back(jobs[i].out.string());
  }
  bar.clear();
  if (as_json)
    print(nlohmann::ordered_json{{"files", written}}.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n");
  else if (jobs.size() == 1)
    talk_line(fmt::format("{}: {}, random weights", jobs[0].out.string(), jobs[0].dummy->name()));
  else
    talk_line(fmt::format("{} models written to {}", jobs.size(), values.text("--all")));
  return 0;
}

}  // namespace tokamak::cli
