// Looks for the text that wakes a lazy grammar.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "grammar/machine.h"
#include "grammar/state.h"

namespace tokamak::grammar {

// All readings of one text so far.
struct Cursor {
  Stacks stacks;
  std::vector<Config> configs;
  bool can_end = false;

  // False if nothing is left; the cursor is then unchanged.
  bool start(Machine& machine);
  bool feed(Machine& machine, std::string_view bytes);
  bool set(Readings& readings);
  // Drops stacks that no reading needs, now and then; call it between steps.
  void tidy();

 private:
  uint32_t tidy_at_ = 256;
};

// Copyable: the triggers themselves are shared.
class TriggerSearch {
 public:
  explicit TriggerSearch(GrammarTriggers triggers);

  struct Found {
    size_t first, end;  // of the trigger, in text()
  };
  // Appends one byte; the triggers that end with it, earliest start first.
  std::vector<Found> feed(uint8_t byte);
  bool is_trigger(int32_t token) const;
  bool skips_trigger() const { return triggers_->skip_trigger; }
  // The text that may still belong to a trigger, and what feed() added since drop_old().
  const std::string& text() const { return text_; }
  void drop_old();

 private:
  struct Thread {
    size_t pattern, first;
    Cursor cursor;
  };
  void feed_patterns(uint8_t byte, std::vector<Found>& found);

  std::shared_ptr<const GrammarTriggers> triggers_;
  size_t longest_word_ = 0;
  std::string text_;
  std::vector<Thread> threads_;  // matches in the making; earliest first per pattern
};

}  // namespace tokamak::grammar
