// Runs the split rules of one pre-tokenizer.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/pre_tokenizers.h"

namespace tokamak {

// Immutable after create; split() is thread-safe.
class Splitter {
 public:
  // Errors: unsupported, if the regex library refuses a pattern (a build without Unicode support).
  static Result<Splitter> create(const SplitRules& rules);

  Splitter(Splitter&&) noexcept;
  Splitter& operator=(Splitter&&) noexcept;
  ~Splitter();

  // Pieces of `text` in order; views into it. text must be valid UTF-8. Linear in the length of the text for all
  // rules of the table.
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  struct Step;
  explicit Splitter(std::vector<Step> steps);
  std::vector<Step> steps_;
};

}  // namespace tokamak
