// eval: how well a model predicts a text; with a base's logits or file, what quantization cost.
#include "cli/input.h"
#include "eval/evaluate.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/chunked_text.h"
#include "cli/command.h"
#include "cli/console.h"
#include "cli/eval_tensors.h"
#include "cli/format.h"
#include "cli/loading.h"
#include "quantize/parts.h"

namespace tokamak::cli {

namespace {
using Json = nlohmann::ordered_json;

std::string with_error(Estimate estimate, int decimals, double scale = 1) {
  return fmt::format("{:.{}f} ± {:.{}f}", scale * estimate.value, decimals, scale * estimate.error, decimals);
}

void add_comparison(const Comparison& c, std::vector<std::vector<std::string>>& rows) {
  rows.push_back({"perplexity of the base", with_error(c.base_perplexity, 4)});
  rows.push_back({"ratio to the base", with_error(c.perplexity_ratio, 5)});
  rows.push_back({"KL divergence, mean", with_error(c.divergence, 6) + " nats"});
  for (size_t i = 0; i < kDivergenceQuantiles.size(); ++i)
    rows.push_back({fmt::format("  {}", kDivergenceQuantiles[i].name), fmt::format("{:.6f}", c.quantiles[i])});
  rows.push_back({"same top token", with_error(c.same_top, 3, 100) + " %"});
  rows.push_back({"change of p, mean", with_error(c.delta_p, 4, 100) + " %"});
  rows.push_back({"change of p, rms", fmt::format("{:.4f} %", 100 * c.delta_p_rms)});
}

void print_text(const Model& model, const Evaluation& evaluation) {
  print(fmt::format("{}, {} chunk{} of {} tokens, {} scored\n", model.name(), evaluation.n_chunks,
                    evaluation.n_chunks == 1 ? "" : "s", evaluation.n_ctx, evaluation.n_tokens));
  std::vector<std::vector<std::string>> rows = {{"perplexity", with_error(evaluation.perplexity, 4)}};
  if (evaluation.comparison) add_comparison(*evaluation.comparison, rows);
  print(text_table(rows, "<<"));
}

Json estimate_json(Estimate estimate) { return {{"value", estimate.value}, {"error", estimate.error}}; }

void print_json(const Model& model, const Evaluation& evaluation) {
  Json json = {{"model", model.name()},
               {"file", model.path().string()},
               {"n_chunks", evaluation.n_chunks},
               {"chunk_size", evaluation.n_ctx},
               {"n_scored", evaluation.n_tokens},
               {"nll", estimate_json(evaluation.nll)},
               {"perplexity", estimate_json(evaluation.perplexity)}};
  if (evaluation.comparison) {
    const Comparison& c = *evaluation.comparison;
    Json quantiles = Json::array();
    for (size_t i = 0; i < kDivergenceQuantiles.size(); ++i)
      quantiles.push_back({{"fraction", kDivergenceQuantiles[i].fraction}, {"value", c.quantiles[i]}});
    json["base_perplexity"] = estimate_json(c.base_perplexity);
    json["perplexity_ratio"] = estimate_json(c.perplexity_ratio);
    json["kl_divergence"] = {{"value", c.divergence.value}, {"error", c.divergence.error}, {"quantiles", quantiles}};
    json["same_top"] = estimate_json(c.same_top);
    json["delta_p"] = {{"value", c.delta_p.value}, {"error", c.delta_p.error}, {"rms", c.delta_p_rms}};
  }
  print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Error needs(std::string_view flag, std::string_view other, std::string_view why) {
  return Error{.code = ErrorCode::bad_argument,
               .what = fmt::format("needs {}", other),
               .where = std::string(flag),
               .hint = std::string(why)};
}

// Flags of the command line that another flag must accompany; what the environment sets is only a default.
Result<void> check_flags(const SettingValues& values) {
  const auto is_given = [&](std::string_view flag) { return values.source(flag) == SettingValues::Source::flag; };
  if (values.flag("--tensors")) {
    for (std::string_view flag : {"--file", "--save-logits", "--base", "--kl-divergence"})
      if (is_given(flag))
        return Error{.code = ErrorCode::bad_argument,
                     .what = fmt::format("{} and --tensors exclude each other", flag),
                     .hint = "--tensors compares weights and runs no text"};
    if (values.text("--base-model").empty())
      return needs("--tensors", "--base-model", "the file that this one was quantized from");
    return {};
  }
  for (std::string_view flag : {"--base-model", "--plot", "--imatrix"})
    if (is_given(flag)) return needs(flag, "--tensors", "it compares the weights of two files");
  if (values.flag("--kl-divergence") && values.text("--base").empty())
    return needs("--kl-divergence", "--base", "logits of the base model, from its own run with --save-logits");
  return {};
}

// The text of --file, or of the base logits, whose chunks it must begin with.
Result<TextChunks> text_of(const SettingValues& values, const Model& model, const LogitsFile* base) {
  if (!base) return read_text_chunks(values, model.tokenizer());
  TRY(base->check_vocabulary(model.tokenizer(), model.hparams().n_vocab));
  TextChunks chunks = base->header().chunks;
  if (values.is_set("--chunk-size") && values.integer("--chunk-size") != chunks.n_ctx)
    return Error{.code = ErrorCode::bad_argument,
                 .what = fmt::format("the base logits are of chunks of {} tokens", chunks.n_ctx),
                 .where = fmt::format("--chunk-size {}", values.integer("--chunk-size")),
                 .hint = "leave it out"};
  if (!values.text("--file").empty())
    TRY(base->check_text(TRY(read_whole_text(values, model.tokenizer(), chunks.n_ctx))));
  if (const int64_t n_chunks = values.integer("--chunks"); n_chunks > 0) chunks.keep(n_chunks);
  return chunks;
}

Result<std::optional<LogitsWriter>> make_writer(const Arguments& arguments, const Model& model,
                                                const TextChunks& text) {
  const SettingValues& values = arguments.values;
  const std::filesystem::path path = values.text("--save-logits");
  if (path.empty()) return std::optional<LogitsWriter>();
  TRY(check_not_same_file(model.path(), model.file(), path));
  const std::filesystem::path read[] = {arguments.words.empty() ? "" : arguments.words[0], values.text("--file"),
                                        values.text("--base")};
  TRY(check_output_is_not_read(path, read));
  return std::optional(
      TRY(LogitsWriter::create(path, {.type = values.text("--logits-type") == "f32" ? LogitsType::f32 : LogitsType::u16,
                                      .n_vocab = model.hparams().n_vocab,
                                      .vocab_hash = hash_vocabulary(model.tokenizer()),
                                      .chunks = text})));
}

// The error of a stopped run tells what is known so far.
Result<Evaluation> run(Session& session, const TextChunks& text, EvaluateOptions options, bool show_progress) {
  ProgressBar bar("evaluating", show_progress);
  std::string so_far;
  options.progress = [&](double fraction, const Evaluation& known) {
    const bool go_on = bar.update(fraction);
    if (!go_on)
      so_far = fmt::format(" after chunk {} of {}: perplexity {}", known.n_chunks, text.n_chunks(),
                           with_error(known.perplexity, 4));
    return go_on;
  };
  auto evaluation = evaluate(session, text, options);
  if (!evaluation) evaluation.error().what += so_far;
  return evaluation;
}
}  // namespace

Result<int> eval_command(const Arguments& arguments) {
  const SettingValues& values = arguments.values;
  TRY(check_no_more_words(arguments));
  TRY(check_flags(values));
  catch_interrupts(/*terminate_too=*/true);
  if (values.flag("--tensors")) return eval_tensors(arguments);
  std::optional<LogitsFile> base;
  if (!values.text("--base").empty()) base = TRY(LogitsFile::open(values.text("--base")));
  const std::shared_ptr<const Model> model = TRY(open_model(arguments));
  const TextChunks text = TRY(text_of(values, *model, base ? &*base : nullptr));
  std::optional<LogitsWriter> writer = TRY(make_writer(arguments, *model, text));
  const std::unique_ptr<Session> session =
      TRY(open_session(model, TRY(chunk_session_options(values, *model, text.n_ctx)), values));
  const Evaluation evaluation = TRY(run(
      *session, text,
      {.save = writer ? &*writer : nullptr, .base = base ? &*base : nullptr, .n_threads = values.integer("--threads")},
      !values.flag("--json")));
  if (writer) TRY(writer->commit());
  values.flag("--json") ? print_json(*model, evaluation) : print_text(*model, evaluation);
  return 0;
}

}  // namespace tokamak::cli
