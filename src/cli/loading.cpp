#include "cli/loading.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "cli/console.h"
#include "convert/convert.h"
#include "convert/converted_cache.h"
#include "engine/check_tensors.h"

namespace tokamak::cli {

namespace {
namespace fs = std::filesystem;

fs::path cache_folder() {
  if (const char* cache = std::getenv("TOKAMAK_CACHE"); cache != nullptr && *cache != '\0') return cache;
  const char* home = std::getenv("HOME");
  return fs::path(home != nullptr ? home : ".") / ".cache" / "tokamak";
}

std::vector<std::string_view> split_list(std::string_view names, char separator) {
  std::vector<std::string_view> out;
  while (!names.empty()) {
    const size_t end = std::min(names.find(separator), names.size());
    out.push_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return out;
}

std::vector<fs::path> gguf_files(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored); it != fs::directory_iterator(); it.increment(ignored))
    if (it->path().extension() == ".gguf") found.push_back(it->path());
  std::ranges::sort(found);
  return found;
}

Result<fs::path> cached_model() {
  const fs::path folder = cache_folder();
  std::error_code ignored;
  for (std::string_view name : split_list(TOKAMAK_DEMO_MODELS, '|'))
    if (fs::exists(folder / name, ignored)) return folder / name;
  const std::vector<fs::path> found = gguf_files(folder);
  if (found.size() == 1) return found.front();
  return Error{.code = ErrorCode::not_found,
               .what = found.empty()
                           ? "no model is named and the cache has none"
                           : fmt::format("no model is named and the cache has {} to choose from", found.size()),
               .where = folder.string(),
               .hint = "give the path of a .gguf file, or run ./demo.sh to get a small model"};
}

// A checkpoint folder stands for its conversion, made on first use.
Result<fs::path> converted(const fs::path& folder) {
  const convert::CacheEntry entry = TRY(convert::find_converted(folder, cache_folder()));
  if (entry.exists) return entry.file;
  std::vector<std::string> notes;
  {
    const InterruptScope scope;
    ProgressBar bar("converting", true);
    notes = TRY(convert::convert_into(entry, folder, [&bar](double fraction) { return bar.update(fraction); }));
  }
  for (const std::string& note : notes) talk_line("tokamak: note: " + note);
  talk_line(fmt::format("tokamak: {} is converted; the next start reads {}", folder.string(), entry.file.string()));
  return entry.file;
}
}  // namespace

Result<fs::path> model_path(const Arguments& arguments) {
  if (arguments.words.empty()) return cached_model();
  const fs::path path = arguments.words[0];
  return convert::is_checkpoint_folder(path) ? converted(path) : path;
}

Result<void> check_no_more_words(const Arguments& arguments, size_t n_known) {
  if (arguments.words.size() <= n_known) return {};
  return Error{.code = ErrorCode::bad_argument,
               .what = "unexpected word",
               .where = arguments.words[n_known],
               .hint = (find_setting("--prompt")->scopes & arguments.scope) != 0
                           ? "a prompt goes after -p, in quotes if it has spaces"
                       : n_known == 0 ? "this command takes only flags; --help lists them"
                                      : "it takes one model and flags; --help lists them"};
}

namespace {
// "auto", "all" or a number, of layers.
Result<int64_t> layer_count(const SettingValues& values, std::string_view flag) {
  const std::string& text = values.text(flag);
  if (text == "auto") return split::kAuto;
  if (text == "all") return arch::kMaxLayers;
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error == std::errc() && end == text.data() + text.size() && n >= 0) return n;
  return Error{.code = ErrorCode::bad_argument,
               .what = fmt::format("'{}' is no number of layers", text),
               .where = std::string(flag),
               .hint = "give a number from 0 on, all or auto"};
}

Result<split::SplitOptions> split_options(const SettingValues& values) {
  for (std::string_view flag : {"--n-gpu-layers", "--n-cpu-moe", "--gpu-memory", "--allow-fallback"})
    if (values.source(flag) == SettingValues::Source::flag && values.text("--backend") != "cuda")
      return Error{.code = ErrorCode::bad_argument,
                   .what = "is about the GPU, which this command does not use",
                   .where = std::string(flag),
                   .hint = "add --backend cuda"};
  return split::SplitOptions{.placement = {.n_gpu_layers = TRY(layer_count(values, "--n-gpu-layers")),
                                           .n_cpu_moe = TRY(layer_count(values, "--n-cpu-moe"))},
                             .max_bytes = static_cast<uint64_t>(values.integer("--gpu-memory")) << 20,
                             .allow_fallback = values.flag("--allow-fallback")};
}
}  // namespace

Result<SessionOptions> session_options(const SettingValues& values, const Model& model) {
  SessionOptions options{.backend = values.text("--backend"),
                         .isa = values.text("--isa"),
                         .n_threads = values.integer("--threads"),
                         .activations = values.text("--activations"),
                         .n_ctx = values.integer("--ctx-size"),
                         .n_batch = values.integer("--batch"),
                         .page_size = values.integer("--page-size"),
                         .kv_type = find_cache_dtype(values.text("--cache-type"))->id};
  options.split = TRY(split_options(values));
  options.compile.fusion = !values.flag("--no-fusion");
  options.compile.batch_invariant = values.flag("--batch-invariant");
  const int64_t n_ctx_train = model.hparams().n_ctx_train;
  if (!values.is_set("--ctx-size")) options.n_ctx = std::min(options.n_ctx, n_ctx_train);
  if (options.n_ctx == 0) options.n_ctx = n_ctx_train;
  if (options.n_ctx > n_ctx_train && !values.flag("--json"))
    talk_line(fmt::format("tokamak: the model was trained for {} tokens of context; beyond them answers get worse",
                          n_ctx_train));
  return options;
}

Result<SessionOptions> serving_session_options(const SettingValues& values, const Model& model) {
  constexpr int64_t kContextsInKv = 4, kPrograms = 64;
  SessionOptions options = TRY(session_options(values, model));
  const int64_t n_parallel = values.integer("--parallel"), n_kv = values.integer("--kv-tokens");
  options.n_kv = n_kv > 0 ? std::max(n_kv, options.n_ctx)
                          : std::clamp(options.n_ctx * std::min(kContextsInKv, n_parallel), options.n_ctx,
                                       std::max(options.n_ctx, arch::kMaxContext));
  options.n_batch = std::max(options.n_batch, n_parallel);
  options.n_sequences = n_parallel;
  options.n_checkpoints = 0;  // the prefix cache has them
  options.n_programs = kPrograms;
  return options;
}

ServiceOptions service_options(const SettingValues& values) {
  constexpr int64_t kMebi = 1 << 20;
  const int64_t cache_mib = values.integer("--cache-ram");
  return {.n_parallel = values.integer("--parallel"),
          .n_queue = values.integer("--queue-limit"),
          .max_token_gap_ms = values.number("--max-token-gap"),
          .stall_seconds = values.number("--stall-timeout"),
          .cache_bytes = cache_mib < 0 ? -1 : cache_mib * kMebi,
          .cache_tokens = values.integer("--cache-tokens")};
}

Result<void> check_tensors_if_asked(const GgufFile& file, const SettingValues& values) {
  if (!values.flag("--check-tensors")) return {};
  ProgressBar bar("checking tensors", !values.flag("--json"));
  return check_tensors(file, [&bar](double fraction) { return bar.update(fraction); });
}

Result<std::shared_ptr<const Model>> open_model(const Arguments& arguments) {
  const fs::path path = TRY(model_path(arguments));
  std::shared_ptr<const Model> model = TRY(Model::open(path));
  TRY(check_tensors_if_asked(model->file(), arguments.values));
  return model;
}

Result<std::unique_ptr<Session>> open_session(std::shared_ptr<const Model> model, SessionOptions options,
                                              const SettingValues& values) {
  std::unique_ptr<Session> session;
  {
    ProgressBar bar("loading", !values.flag("--json"));
    session = TRY(Session::create(std::move(model), std::move(options),
                                  [&bar](double fraction) { return bar.update(fraction); }));
  }
  if (const std::string remark = session->backend().remark(); !remark.empty() && !values.flag("--json"))
    talk_line("tokamak: " + remark);
  return session;
}

Result<void> print_ir(const Arguments& arguments) {
  std::string pass = arguments.values.text("--dump-ir");
  if (pass.starts_with("after:")) pass.erase(0, 6);
  const std::shared_ptr<const Model> model = TRY(open_model(arguments));
  SessionOptions options = TRY(session_options(arguments.values, *model));
  options.compile.dump_after = pass;
  bool has_printed = false;
  options.compile.dump_sink = [&has_printed](std::string_view text) { has_printed = print(text); };
  const std::unique_ptr<Session> session = TRY(open_session(model, std::move(options), arguments.values));
  TRY(session->program(1, 1));
  if (!has_printed)
    return Error{.code = ErrorCode::unsupported,
                 .what = "this backend runs the graph as it is built and has no passes to print it after",
                 .where = "--dump-ir",
                 .hint = "use --backend cpu"};
  return {};
}

}  // namespace tokamak::cli
