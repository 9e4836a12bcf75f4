// fusion: which fusion rules fire for models on a device, whether that is what it was, and whether results hold.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "base/output_file.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/format.h"
#include "engine/backends.h"
#include "eval/fusion_baseline.h"
#include "eval/fusion_run.h"
#include "eval/fusion_structure.h"

namespace tokamak::cli {

namespace {
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Error bad_flags(std::string what) {
  return Error{.code = ErrorCode::bad_argument,
               .what = std::move(what),
               .where = "tokamak fusion",
               .hint = "tokamak fusion --models FOLDER --check baseline.csv"};
}

Result<std::vector<fs::path>> model_files(const SettingValues& values) {
  const std::string &file = values.text("--model"), &folder = values.text("--models");
  if (file.empty() == folder.empty()) return bad_flags("needs one of --model and --models");
  if (!file.empty()) return std::vector<fs::path>{file};
  std::error_code failed;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    if (entry->path().extension() == ".gguf") files.push_back(entry->path());
  if (failed || files.empty())
    return Error{.code = ErrorCode::not_found,
                 .what = failed ? failed.message() : "holds no .gguf file",
                 .where = folder,
                 .hint = fmt::format("tokamak synth --all {} writes some", folder)};
  std::ranges::sort(files);
  return files;
}

Result<std::string> read_text(const std::string& path) {
  const MappedFile file = TRY(MappedFile::open(path));
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

bool has_device(std::string_view name) {
  return std::ranges::any_of(backend_table(), [name](const BackendRow& row) { return row.name == name; });
}

Json run_json(const FusionRun& run) {
  Json counts = Json::array(), errors = Json::object();
  for (const FusionRow& row : run.rows)
    counts.push_back({{"mode", row.mode}, {"label", row.label}, {"count", row.count}});
  for (size_t mode = 0; mode < kFusionModes.size(); ++mode)
    errors[kFusionModes[mode]] = {{"nmse_to_unfused", run.errors[mode].to_unfused},
                                  {"nmse_to_reference", run.errors[mode].to_reference}};
  return {{"model", run.model},
          {"arch", run.arch},
          {"moe", run.has_experts},
          {"errors", std::move(errors)},
          {"counts", std::move(counts)}};
}

void print_run(const FusionRun& run) {
  const auto worst = [&run](double FusionErrors::*error) {
    return std::max(run.errors[0].*error, run.errors[1].*error);
  };
  print(fmt::format("{} ({}{}): NMSE {:.2g} to unfused, {:.2g} to the reference\n", run.model, run.arch,
                    run.has_experts ? ", experts" : "", worst(&FusionErrors::to_unfused),
                    worst(&FusionErrors::to_reference)));
  std::vector<std::vector<std::string>> rows;
  for (const FusionRow& row : run.rows) rows.push_back({"  " + row.label, row.mode, std::to_string(row.count)});
  if (!rows.empty()) print(text_table(rows, "<<>"));
}

Result<std::vector<FusionRun>> run_all(const std::vector<fs::path>& files, const SettingValues& values) {
  const bool as_json = values.flag("--json");
  FusionOptions options{
      .device = values.text("--device"), .isa = values.text("--isa"), .n_threads = values.integer("--threads")};
  if (values.integer("--seed") >= 0) options.seed = static_cast<uint64_t>(values.integer("--seed"));
  std::vector<FusionRun> runs;
  ProgressBar bar("running", !as_json);
  for (const fs::path& file : files) {
    auto run = run_fusion(file, options);
    if (!run) {
      run.error().where = file.string() + (run.error().where.empty() ? "" : ": ") + run.error().where;
      return std::move(run.error());
    }
    runs.push_back(std::move(*run));
    if (!bar.update(static_cast<double>(runs.size()) / static_cast<double>(files.size())))
      return Error{.code = ErrorCode::cancelled, .what = "fusion was cancelled"};
  }
  return runs;
}

// The rows of the models that are run: with a folder, all.
Result<std::vector<FusionRow>> read_baseline(const SettingValues& values) {
  const std::string &path = values.text("--check"), &model = values.text("--model");
  std::vector<FusionRow> rows = TRY(parse_fusion_csv(TRY(read_text(path)), path));
  if (!model.empty())
    std::erase_if(rows, [name = fs::path(model).stem()](const FusionRow& row) { return row.model != name; });
  return rows;
}

Result<void> record(const std::string& path, std::string_view device, std::vector<FusionRow> rows) {
  const std::string text = fusion_csv(device, std::move(rows));
  OutputFile file = TRY(OutputFile::create(path));
  TRY(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

Result<int> count_fusions(const std::vector<fs::path>& files, const SettingValues& values) {
  const std::string& device = values.text("--device");
  if (!has_device(device)) {
    Error missing{.code = ErrorCode::bad_argument, .what = "no such device", .where = "--device " + device};
    for (const BackendRow& row : backend_table())
      missing.hint += (missing.hint.empty() ? "there are: " : ", ") + std::string(row.name);
    if (!values.flag("--skip-missing")) return missing;
    talk_line("tokamak: skipped: " + missing.message());
    if (values.flag("--json")) print(Json{{"device", device}, {"skipped", true}}.dump(2) + "\n");
    return 0;
  }
  const bool checks = !values.text("--check").empty();
  std::vector<FusionRow> baseline;
  if (checks) baseline = TRY(read_baseline(values));
  const std::vector<FusionRun> runs = TRY(run_all(files, values));
  std::vector<FusionRow> rows;
  std::vector<std::string> failures;
  for (const FusionRun& run : runs) {
    rows.insert(rows.end(), run.rows.begin(), run.rows.end());
    std::ranges::copy(excesses(run), std::back_inserter(failures));
  }
  if (checks) std::ranges::copy(differences(baseline, rows), std::back_inserter(failures));
  if (values.flag("--json")) {
    Json json = {{"device", device}, {"models", Json::array()}, {"failures", failures}};
    for (const FusionRun& run : runs) json["models"].push_back(run_json(run));
    print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  } else {
    for (const FusionRun& run : runs) print_run(run);
    for (const std::string& failure : failures) print("FAILED " + failure + "\n");
    print(fmt::format("{} models, {} rows, {} failures\n", runs.size(), rows.size(), failures.size()));
  }
  if (!failures.empty()) return 1;
  if (!values.text("--record").empty()) TRY(record(values.text("--record"), device, std::move(rows)));
  return 0;
}

// A line of the table of published structural counts: model, published, ours where they differ, why.
struct Expected {
  std::string published, ours, reason;
};

Result<std::map<std::string, Expected>> read_expected(const std::string& path) {
  std::map<std::string, Expected> out;
  const std::string text = TRY(read_text(path));
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.empty() || line.starts_with('#')) continue;
    std::vector<std::string> columns;
    for (int i = 0; i < 3; ++i) {  // the reason may hold commas
      const size_t end = std::min(line.find(','), line.size());
      const std::string_view column = line.substr(0, end);
      const size_t begin = std::min(column.find_first_not_of(' '), column.size());
      columns.emplace_back(column.substr(begin, column.find_last_not_of(' ') + 1 - begin));
      line.remove_prefix(std::min(line.size(), end + 1));
    }
    const size_t begin = std::min(line.find_first_not_of(' '), line.size());
    out[columns[0]] = {columns[1], columns[2], std::string(line.substr(begin))};
  }
  return out;
}

// Markdown: the model's counts beside the published ones.
Result<int> print_structure(const std::vector<fs::path>& files, const SettingValues& values) {
  const bool checks = !values.text("--check").empty();
  std::map<std::string, Expected> expected;
  if (checks) expected = TRY(read_expected(values.text("--check")));
  print(
      "# Fused-norm counts\n\nPrinted by `tokamak fusion --models DIR --structural --check "
      "tests/fusion/norm_counts.csv` over the models of\n`tokamak synth --all DIR`. What the names mean: "
      "R RMS norm and weight, Rb with an add behind it, L and Lb the same of\nlayer norm, A2 to A7 chains of adds, "
      "G a delta net that writes its state.\n\n| model | counts | published | difference |\n|---|---|---|---|\n");
  int n_wrong = 0, n_equal = 0;
  for (const fs::path& file : files) {
    const std::shared_ptr<const Model> model = TRY(Model::open(file));
    const std::string counts = structural_text(TRY(structural_counts(*model, static_cast<int64_t>(kFusionPrefill))));
    const std::string name = file.stem().string();
    const auto found = expected.find(name);
    const Expected row = found == expected.end() ? Expected{} : found->second;
    const bool equal = counts == row.published, known = counts == row.ours && !row.reason.empty();
    n_equal += equal;
    n_wrong += checks && !equal && !known;
    print(fmt::format("| `{}` | {} | {} | {} |\n", name, counts, row.published,
                      equal    ? ""
                      : known  ? row.reason
                      : checks ? "**not expected**"
                               : ""));
    if (found != expected.end()) expected.erase(found);
  }
  for (const auto& [name, row] : expected)
    print(fmt::format("| `{}` | | {} | **no such model** |\n", name, row.published));
  if (checks) print(fmt::format("\n{} of {} equal, {} unexplained.\n", n_equal, files.size(), n_wrong));
  return n_wrong == 0 && expected.empty() ? 0 : 1;
}
}  // namespace

Result<int> fusion_command(const Arguments& arguments) {
  const SettingValues& values = arguments.values;
  if (!arguments.words.empty()) return bad_flags(fmt::format("does not know what {} is", arguments.words[0]));
  if (!values.text("--record").empty() && !values.text("--check").empty())
    return bad_flags("--record and --check exclude each other");
  const std::vector<fs::path> files = TRY(model_files(values));
  catch_interrupts(true);
  return values.flag("--structural") ? print_structure(files, values) : count_fusions(files, values);
}

}  // namespace tokamak::cli
