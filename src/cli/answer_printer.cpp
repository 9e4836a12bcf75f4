#include "cli/answer_printer.h"

#include <fmt/format.h>

#include "cli/console.h"

namespace tokamak::cli {

namespace {
constexpr std::string_view kDim = "\x1b[2m", kPlain = "\x1b[0m";

double rate(double n, double seconds) { return seconds > 0 ? n / seconds : 0; }
}  // namespace

bool AnswerPrinter::show(const OutputEvent& event) {
  if (event.kind == OutputKind::tag) return true;
  const bool thought = event.kind == OutputKind::reasoning;
  const bool to_output = output_is_terminal();
  if (thought && !to_output && !talk_is_terminal()) return true;
  const auto put = [&](std::string_view text) { return to_output || !thought ? print(text) : (talk(text), true); };
  if (thought && !in_thought_) put(kDim);
  if (!thought && in_thought_)
    to_output ? static_cast<void>(print(fmt::format("{}\n\n", kPlain))) : talk("\x1b[0m\n\n");
  in_thought_ = thought;
  at_line_start_ = event.text.back() == '\n';
  return put(event.text);
}

void AnswerPrinter::finish() {
  if (in_thought_) output_is_terminal() ? static_cast<void>(print(kPlain)) : talk(kPlain);
  if (!at_line_start_) print("\n");
  in_thought_ = false;
  at_line_start_ = true;
}

std::string speed_line(const GenerateResult& result) {
  const double n_decoded = static_cast<double>(result.tokens.size());
  return fmt::format("{} prompt tokens{} at {:.0f} tok/s, {} tokens at {:.1f} tok/s, {}", result.n_prompt,
                     result.n_cached > 0 ? fmt::format(" (and {} cached)", result.n_cached) : "",
                     rate(static_cast<double>(result.n_prompt), result.prefill_seconds), result.tokens.size(),
                     rate(n_decoded, result.decode_seconds), finish_reason_name(result.reason));
}

}  // namespace tokamak::cli
