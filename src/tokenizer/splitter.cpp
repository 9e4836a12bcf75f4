#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/splitter.h"

#include <pcre2.h>
#include <utf8proc.h>

#include <algorithm>
#include <string>

#include "base/log.h"
#include "base/utf8.h"

namespace tokamak {

namespace {

using Pieces = std::vector<std::string_view>;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};

// Working memory of one thread, shared by all patterns.
struct MatchMemory {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, 16 << 20, nullptr);

  MatchMemory() {
    if (context && stack) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  MatchMemory(const MatchMemory&) = delete;
  MatchMemory& operator=(const MatchMemory&) = delete;
  ~MatchMemory() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

// PCRE2's \s has U+180E, which Unicode moved out of White_Space; the models' own splitters follow Unicode.
std::string with_unicode_spaces(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      out += pattern[i];
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's')
      out += "\\p{wspace}";
    else if (escaped == 'S')
      out += "\\P{wspace}";
    else
      (out += '\\') += escaped;
  }
  return out;
}

// Appends the matches in `text` and, if `keep_gaps`, what lies between them.
void split_regex(const pcre2_code* code, bool jit, bool keep_gaps, std::string_view text, Pieces& out) {
  thread_local MatchMemory memory;
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t done = 0, from = 0;
  while (memory.data && from < text.size()) {
    const int rc =
        jit ? pcre2_jit_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, memory.data, memory.context)
            : pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, memory.data, memory.context);
    if (rc < 0) {
      if (rc != PCRE2_ERROR_NOMATCH)
        log_line(LogLevel::warning, "tokenizer: the split of a very long text stopped at a limit of the regex library");
      break;
    }
    const size_t begin = pcre2_get_ovector_pointer(memory.data)[0], end = pcre2_get_ovector_pointer(memory.data)[1];
    if (keep_gaps && begin > done) out.push_back(text.substr(done, begin - done));
    if (end > begin) out.push_back(text.substr(begin, end - begin));
    done = end;
    from = end > begin ? end : end + decode_utf8(text, end).n_bytes;
  }
  if (keep_gaps && done < text.size()) out.push_back(text.substr(done));
}

bool is_number(char32_t c, bool decimal_only) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  if (category == UTF8PROC_CATEGORY_ND) return true;
  return !decimal_only && (category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO);
}

// \w of Unicode regular expressions: letters, marks, numbers, connectors.
bool is_word_char(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO) || category == UTF8PROC_CATEGORY_PC;
}

// Cuts of `text` at byte offsets, as pieces.
void append_cuts(std::string_view text, const std::vector<size_t>& cuts, Pieces& out) {
  size_t begin = 0;
  for (const size_t cut : cuts) {
    if (cut > begin) out.push_back(text.substr(begin, cut - begin));
    begin = std::max(begin, cut);
  }
  if (begin < text.size()) out.push_back(text.substr(begin));
}

// The three hand-written rules: all look at maximal runs of numbers and count digits from the right end of a run,
// which a regular expression can only do in quadratic time.
void split_numbers(SplitKind kind, std::string_view text, Pieces& out) {
  std::vector<size_t> cuts, run;  // byte offsets
  size_t i = 0;
  while (i < text.size()) {
    run.clear();
    Utf8Char c = decode_utf8(text, i);
    while (is_number(c.code_point, kind != SplitKind::group_numbers)) {
      run.push_back(i);
      i += c.n_bytes;
      if (i >= text.size()) break;
      c = decode_utf8(text, i);
    }
    const bool at_end = i >= text.size();
    const bool grouped = kind != SplitKind::group_digit_words || at_end || !is_word_char(c.code_point);
    if (!run.empty() && grouped) {
      const bool own_pieces = kind != SplitKind::cut_digits;
      if (own_pieces) cuts.push_back(run.front());
      for (size_t k = 0; k < run.size(); ++k)
        if ((run.size() - k) % 3 == 0) cuts.push_back(run[k]);
      if (own_pieces) cuts.push_back(i);
    }
    if (!at_end) i += c.n_bytes;
  }
  append_cuts(text, cuts, out);
}

}  // namespace

struct Splitter::Step {
  SplitKind kind;
  std::unique_ptr<pcre2_code, FreeCode> code;  // null for the hand-written kinds
  bool jit = false;
};

Splitter::Splitter(std::vector<Step> steps) : steps_(std::move(steps)) {}
Splitter::Splitter(Splitter&&) noexcept = default;
Splitter& Splitter::operator=(Splitter&&) noexcept = default;
Splitter::~Splitter() = default;

Result<Splitter> Splitter::create(const SplitRules& rules) {
  std::vector<Step> steps;
  for (const SplitStep& step : rules.steps) {
    if (step.kind == SplitKind::none) break;
    Step compiled{step.kind, nullptr, false};
    if (step.kind == SplitKind::regex || step.kind == SplitKind::words) {
      const std::string pattern = with_unicode_spaces(step.pattern);
      int error = 0;
      size_t offset = 0;
      compiled.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                        PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &error, &offset, nullptr));
      if (!compiled.code)
        return Error{ErrorCode::unsupported,
                     "the regex library refuses a split pattern (code " + std::to_string(error) + ", offset " +
                         std::to_string(offset) + ")",
                     "pre-tokenizer rules '" + std::string(rules.name) + "'",
                     "PCRE2 10.40 or later with Unicode support is needed"};
      compiled.jit = pcre2_jit_compile(compiled.code.get(), PCRE2_JIT_COMPLETE) == 0;
    }
    steps.push_back(std::move(compiled));
  }
  return Splitter(std::move(steps));
}

std::vector<std::string_view> Splitter::split(std::string_view text) const {
  Pieces pieces, next;
  if (!text.empty()) pieces.push_back(text);
  for (const Step& step : steps_) {
    next.clear();
    for (const std::string_view piece : pieces) {
      if (step.code)
        split_regex(step.code.get(), step.jit, step.kind == SplitKind::regex, piece, next);
      else
        split_numbers(step.kind, piece, next);
    }
    pieces.swap(next);
  }
  return pieces;
}

}  // namespace tokamak
