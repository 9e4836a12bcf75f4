// quantize: a smaller copy of a model.
#include "quantize/quantize.h"
#include "cli/input.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "base/mapped_file.h"
#include "base/thread_pool.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/format.h"
#include "cli/loading.h"
#include "quantize/parts.h"
#include "quantize/plan.h"
#include "quantize/target_bpw.h"

namespace tokamak::cli {

namespace {
using Json = nlohmann::ordered_json;

struct Words {
  std::filesystem::path in, out;  // out empty: only planned
  std::string type;
};

// IN OUT TYPE; with --dry-run OUT may be missing, with --target-bpw TYPE.
Result<Words> read_words(const Arguments& arguments) {
  const auto& words = arguments.words;
  const bool is_dry = arguments.values.flag("--dry-run"), has_target = arguments.values.number("--target-bpw") > 0;
  if (words.size() == 3) return Words{words[0], words[1], words[2]};
  if (words.size() == 2 && has_target) return Words{words[0], words[1], ""};
  if (words.size() == 2 && is_dry) return Words{words[0], {}, words[1]};
  if (words.size() == 1 && is_dry && has_target) return Words{words[0], {}, ""};
  return Error{.code = ErrorCode::bad_argument,
               .what = fmt::format("needs a model, an output file and a type, not {} word{}", words.size(),
                                   words.size() == 1 ? "" : "s"),
               .where = "tokamak quantize",
               .hint = "tokamak quantize IN.gguf OUT.gguf Q4_K_M"};
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  constexpr std::string_view kSpaces = " \t\r\n";
  while (true) {
    const size_t begin = text.find_first_not_of(kSpaces);
    if (begin == text.npos) return words;
    text.remove_prefix(begin);
    const size_t end = std::min(text.find_first_of(kSpaces), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

Result<std::vector<std::string>> read_tensor_types(const SettingValues& values) {
  std::vector<std::string> rules = values.list("--tensor-type");
  const std::string& path = values.text("--tensor-type-file");
  if (path.empty()) return rules;
  const MappedFile file = TRY(MappedFile::open(path));
  const auto bytes = file.bytes();
  for (std::string& rule : split_words({reinterpret_cast<const char*>(bytes.data()), bytes.size()}))
    rules.push_back(std::move(rule));
  return rules;
}

Result<std::vector<int64_t>> read_layers(const std::string& text) {
  std::vector<int64_t> layers;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    int64_t layer = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), layer);
    if (error != std::errc() || end != item.data() + item.size())
      return Error{.code = ErrorCode::bad_argument,
                   .what = "must be layer numbers separated by commas",
                   .where = fmt::format("--prune-layers {}", text)};
    layers.push_back(layer);
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
  }
  return layers;
}

Result<std::optional<DType>> optional_type(const SettingValues& values, std::string_view flag) {
  const std::string& text = values.text(flag);
  if (text.empty()) return std::optional<DType>();
  return std::optional<DType>(TRY(find_target_type(text, flag)));
}

// Everything but the imatrix, which the caller owns.
Result<QuantizeOptions> read_options(const SettingValues& values, const std::string& type) {
  QuantizeOptions options{.pure = values.flag("--pure"),
                          .leave_output = values.flag("--leave-output-tensor"),
                          .allow_requantize = values.flag("--allow-requantize"),
                          .include = values.list("--include-weights"),
                          .exclude = values.list("--exclude-weights"),
                          .target_bpw = values.number("--target-bpw")};
  std::string upper = type;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (!type.empty() && upper != kCopyType) options.file_type = TRY(find_file_type(type))->id;
  options.output_type = TRY(optional_type(values, "--output-tensor-type"));
  options.embedding_type = TRY(optional_type(values, "--token-embedding-type"));
  options.tensor_types = TRY(read_tensor_types(values));
  options.prune_layers = TRY(read_layers(values.text("--prune-layers")));
  if (!options.include.empty() && !options.exclude.empty())
    return Error{.code = ErrorCode::bad_argument,
                 .what = "--include-weights and --exclude-weights exclude each other",
                 .where = "--exclude-weights",
                 .hint = "give one of them"};
  return options;
}

struct Totals {
  uint64_t n_before = 0, n_after = 0, n_elements = 0;
  size_t n_fallbacks = 0;
  double bits() const {
    return n_elements == 0 ? 0 : 8.0 * static_cast<double>(n_after) / static_cast<double>(n_elements);
  }
};

Totals totals_of(const GgufFile& file, const Plan& plan) {
  Totals totals{.n_after = plan.n_bytes(file.tensors()), .n_elements = plan.n_elements(file.tensors())};
  for (const GgufTensor& tensor : file.tensors()) totals.n_before += tensor.n_bytes;
  for (const PlannedTensor& planned : plan.tensors) totals.n_fallbacks += planned.is_fallback;
  return totals;
}

std::string remark_of(const PlannedTensor& planned, const GgufTensor& source) {
  if (planned.type == source.type) return "";
  std::string out;
  if (planned.is_fallback) out = fmt::format("rows of {} need it", source.shape.row_elems());
  if (planned.importance) out += out.empty() ? "imatrix" : ", imatrix";
  if (planned.error > 0) out += fmt::format("{}error {:.2g}", out.empty() ? "" : ", ", planned.error);
  if (!planned.scale_name.empty()) out += out.empty() ? "with a scale" : ", with a scale";
  return out;
}

void print_plan(const GgufFile& file, const Plan& plan) {
  std::vector<std::vector<std::string>> rows = {{"tensor", "shape", "from", "to", "size", ""}};
  for (const PlannedTensor& planned : plan.tensors) {
    const GgufTensor& source = file.tensors()[planned.source];
    rows.push_back({planned.name, source.shape.to_string(), std::string(dtype_name(source.type)),
                    std::string(dtype_name(planned.type)), human_bytes(planned.n_bytes(source)),
                    remark_of(planned, source)});
  }
  print(text_table(rows, "<<<<><"));
}

Json plan_json(const GgufFile& file, const Plan& plan) {
  Json tensors = Json::array();
  for (const PlannedTensor& planned : plan.tensors) {
    const GgufTensor& source = file.tensors()[planned.source];
    tensors.push_back({{"name", planned.name},
                       {"from", dtype_name(source.type)},
                       {"to", dtype_name(planned.type)},
                       {"n_bytes", planned.n_bytes(source)},
                       {"fallback", planned.is_fallback},
                       {"imatrix", planned.importance != nullptr},
                       {"error", planned.error}});
  }
  return tensors;
}

void print_summary(const GgufFile& file, const Plan& plan, const Words& words, bool as_json, bool is_dry) {
  const Totals totals = totals_of(file, plan);
  if (as_json) {
    const Json json = {{"in", words.in.string()},
                       {"out", words.out.string()},
                       {"n_bytes_before", totals.n_before},
                       {"n_bytes_after", totals.n_after},
                       {"bits_per_weight", totals.bits()},
                       {"n_fallbacks", totals.n_fallbacks},
                       {"written", !is_dry},
                       {"tensors", plan_json(file, plan)}};
    print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return;
  }
  if (is_dry) print_plan(file, plan);
  print(fmt::format("{}{}: {} -> {} of weights, {:.2f} bits each\n", is_dry ? "would write " : "",
                    words.out.empty() ? "a file" : words.out.string(), human_bytes(totals.n_before),
                    human_bytes(totals.n_after), totals.bits()));
}

void talk_about(const Plan& plan, const Totals& totals) {
  if (totals.n_fallbacks > 0)
    talk_line(
        fmt::format("tokamak: {} of {} tensors have rows that the wanted type's blocks do not divide; each got "
                    "the next type that does (--dry-run shows them)",
                    totals.n_fallbacks, plan.tensors.size()));
  if (!plan.without_importance.empty())
    talk_line(fmt::format("tokamak: the importance matrix does not know {} tensors ({}{}); they are quantized without",
                          plan.without_importance.size(), plan.without_importance.front(),
                          plan.without_importance.size() > 1 ? ", ..." : ""));
}
}  // namespace

std::string quantize_notes(bool all) {
  std::string out =
      all ? "TYPE (bits per weight of most matrices):\n" : "TYPE, from small to large (--help-all explains):\n";
  std::string line;
  for (const FileTypeRow& row : kFileTypes) {
    const std::string names = row.alias.empty() ? std::string(row.name) : fmt::format("{} or {}", row.name, row.alias);
    if (all) out += fmt::format("  {:<18}{}\n", names, row.summary);
    constexpr size_t kColumns = 76;
    if (line.size() + row.name.size() > kColumns) {
      out += all ? "" : line + "\n";
      line.clear();
    }
    line += fmt::format("  {}", row.name);
  }
  if (!all) return out + line + fmt::format("  {}\n", kCopyType);
  return out + fmt::format("  {:<18}{}\n", kCopyType, "tensors as they are (for --override-kv, --prune-layers)");
}

// A flag with an empty value is a script's unset variable, not a wish.
Result<void> check_no_empty_flags(const SettingValues& values) {
  for (std::string_view flag : {"--imatrix", "--tensor-type-file", "--prune-layers"})
    if (values.is_set(flag) && values.text(flag).empty())
      return Error{.code = ErrorCode::bad_argument,
                   .what = "the value is empty",
                   .where = std::string(flag),
                   .hint = "leave the flag out, or check the variable that should have filled it"};
  return {};
}

Result<int> quantize_command(const Arguments& arguments) {
  const SettingValues& values = arguments.values;
  TRY(check_no_empty_flags(values));
  const Words words = TRY(read_words(arguments));
  QuantizeOptions options = TRY(read_options(values, words.type));
  const bool is_dry = values.flag("--dry-run"), as_json = values.flag("--json");
  const std::filesystem::path in = TRY(model_path(arguments));
  const GgufFile file = TRY(GgufFile::open(in));
  QuantizeRun run{
      .out = words.out, .override_kv = values.list("--override-kv"), .keep_split = values.flag("--keep-split")};
  const std::filesystem::path read[] = {words.in, values.text("--imatrix"), values.text("--tensor-type-file")};
  for (const auto& path : output_paths(file, run)) {
    TRY(check_not_same_file(in, file, path));
    TRY(check_output_is_not_read(path, read));
  }
  ImatrixFile imatrix;
  if (!values.text("--imatrix").empty()) {
    imatrix = TRY(read_imatrix(values.text("--imatrix")));
    options.imatrix = &imatrix;
  }
  Plan plan = TRY(make_plan(file.tensors(), TRY(read_mix_model(file)), options));
  const int64_t n_threads_asked = values.integer("--threads");
  const int n_threads = n_threads_asked == 0 ? usable_cpus() : static_cast<int>(n_threads_asked);
  catch_interrupts(true);
  if (options.target_bpw > 0) {
    ProgressBar bar("measuring", !as_json);
    TRY(choose_types(
        file, options, n_threads, [&bar](double fraction) { return bar.update(fraction); }, plan));
  }
  TRY(check_plan(file.tensors(), plan, options));
  // Derived from the types: not a wish that they could fail.
  if (words.type.empty() && options.target_bpw > 0) options.file_type = dominant_file_type(file.tensors(), plan);
  if (!as_json) talk_about(plan, totals_of(file, plan));
  if (!is_dry) {
    ProgressBar bar("quantizing", !as_json);
    run.n_threads = n_threads;
    run.progress = [&bar](double fraction) { return bar.update(fraction); };
    TRY(quantize(file, plan, options, run));
  }
  print_summary(file, plan, words, as_json, is_dry);
  return 0;
}

}  // namespace tokamak::cli
