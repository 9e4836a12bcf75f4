// split and merge: a model as several files, and as one again.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/format.h"
#include "gguf/split.h"
#include "quantize/parts.h"

namespace tokamak::cli {

namespace {
using Json = nlohmann::ordered_json;

Result<void> need_two_words(const Arguments& arguments, std::string_view example) {
  if (arguments.words.size() == 2) return {};
  return Error{.code = ErrorCode::bad_argument,
               .what = fmt::format("needs an input and an output, not {} word{}", arguments.words.size(),
                                   arguments.words.size() == 1 ? "" : "s"),
               .where = std::string(example.substr(0, example.find(' ', 8))),
               .hint = std::string(example)};
}

// "2G", "300M". Errors: bad_argument.
Result<uint64_t> parse_size(const std::string& text) {
  uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const bool is_mega = unit == "M" || unit == "m", is_giga = unit == "G" || unit == "g";
  if (error != std::errc() || n == 0 || n > 1'000'000'000 || (!is_mega && !is_giga))
    return Error{.code = ErrorCode::bad_argument,
                 .what = "must be a whole number and M or G",
                 .where = fmt::format("--split-max-size {}", text),
                 .hint = "for example --split-max-size 2G"};
  return n * (is_mega ? 1'000'000 : 1'000'000'000);
}

Result<SplitLimits> read_limits(const SettingValues& values) {
  SplitLimits limits{.max_tensors = static_cast<uint64_t>(values.integer("--split-max-tensors")),
                     .no_tensor_first = values.flag("--no-tensor-first-split")};
  if (values.text("--split-max-size").empty()) return limits;
  limits.max_bytes = TRY(parse_size(values.text("--split-max-size")));
  if (!values.is_set("--split-max-tensors")) limits.max_tensors = 0;
  return limits;
}

struct PartRow {
  std::filesystem::path path;
  size_t n_tensors = 0;
  uint64_t n_bytes = 0;
};

void print_parts(const std::vector<PartRow>& parts, bool as_json) {
  if (as_json) {
    Json json = {{"parts", Json::array()}};
    for (const PartRow& part : parts)
      json["parts"].push_back({{"path", part.path.string()}, {"n_tensors", part.n_tensors}, {"n_bytes", part.n_bytes}});
    print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return;
  }
  std::vector<std::vector<std::string>> rows = {{"file", "tensors", "weights"}};
  for (const PartRow& part : parts)
    rows.push_back({part.path.string(), std::to_string(part.n_tensors), human_bytes(part.n_bytes)});
  print(text_table(rows, "<>>"));
}
}  // namespace

Result<int> split_command(const Arguments& arguments) {
  TRY(need_two_words(arguments, "tokamak split IN.gguf OUT --split-max-size 2G"));
  const SettingValues& values = arguments.values;
  const SplitLimits limits = TRY(read_limits(values));
  const std::filesystem::path in = arguments.words[0];
  const std::string prefix = part_prefix(arguments.words[1]);
  const GgufFile file = TRY(GgufFile::open(in));
  const auto parts = divide(file.tensors(), limits);
  std::vector<PartRow> rows;
  for (size_t p = 0; p < parts.size() && parts.size() <= kMaxSplitParts; ++p) {
    PartRow& row = rows.emplace_back();
    row.path = split_part_path(prefix, static_cast<uint32_t>(p), static_cast<uint32_t>(parts.size()));
    row.n_tensors = parts[p].size();
    for (size_t i : parts[p]) row.n_bytes += file.tensors()[i].n_bytes;
    TRY(check_not_same_file(in, file, row.path));
  }
  if (!values.flag("--dry-run")) {
    catch_interrupts(true);
    ProgressBar bar("splitting", !values.flag("--json"));
    TRY(split_model(file, parts, prefix, [&bar](double fraction) { return bar.update(fraction); }));
  }
  print_parts(rows, values.flag("--json"));
  return 0;
}

Result<int> merge_command(const Arguments& arguments) {
  TRY(need_two_words(arguments, "tokamak merge IN-00001-of-00003.gguf OUT.gguf"));
  const std::filesystem::path in = arguments.words[0], out = arguments.words[1];
  const GgufFile file = TRY(GgufFile::open(in));
  TRY(check_not_same_file(in, file, out));
  {
    catch_interrupts(true);
    ProgressBar bar("merging", !arguments.values.flag("--json"));
    TRY(merge_model(file, out, [&bar](double fraction) { return bar.update(fraction); }));
  }
  PartRow row{.path = out, .n_tensors = file.tensors().size()};
  for (const GgufTensor& tensor : file.tensors()) row.n_bytes += tensor.n_bytes;
  print_parts({row}, arguments.values.flag("--json"));
  return 0;
}

}  // namespace tokamak::cli
