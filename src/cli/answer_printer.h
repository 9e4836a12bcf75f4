// Shows an answer while it comes, and what it took afterwards.
#pragma once

#include <string>

#include "cli/conversation.h"

namespace tokamak::cli {

// Text to standard output. Thoughts, dimmed: there too when it is a terminal, else to standard error when that is one.
class AnswerPrinter {
 public:
  bool show(const OutputEvent& event);
  // Ends the line.
  void finish();

 private:
  bool begin(OutputKind kind);
  OutputKind kind_ = OutputKind::text;
  bool at_line_start_ = true, in_thought_ = false;
};

// "36 prompt tokens (12 cached) at 512 tok/s, 120 tokens at 90 tok/s, end_of_text".
std::string speed_line(const GenerateResult& result);

}  // namespace tokamak::cli
