#include "engine/output/output_machine.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace tokamak {

namespace {
constexpr size_t kTextMode = 0, kReasoningMode = 1, kFirstPayloadMode = 2;

// What a pattern means within a mode.
struct Action {
  std::optional<size_t> stop;  // a stop of this index, otherwise a tag:
  size_t next_mode = kTextMode;
  bool skips_space = false;
  size_t n_bytes = 0;
};

struct Mode {
  PatternMatcher matcher;
  std::vector<Action> actions;  // by pattern
};

class ModeBuilder {
 public:
  void add_stops(const std::vector<std::string>& stops) {
    for (size_t i = 0; i < stops.size(); ++i) add(stops[i], {.stop = i});
  }
  void add_tag(const std::string& tag, size_t next_mode, bool skips_space) {
    if (!tag.empty()) add(tag, {.next_mode = next_mode, .skips_space = skips_space});
  }
  Mode build() && { return {PatternMatcher(patterns_), std::move(actions_)}; }

 private:
  void add(const std::string& pattern, Action action) {
    action.n_bytes = pattern.size();
    patterns_.push_back(pattern);
    actions_.push_back(action);
  }
  std::vector<std::string> patterns_;
  std::vector<Action> actions_;
};

std::vector<Mode> compile_modes(const OutputOptions& options) {
  std::vector<Mode> modes;
  ModeBuilder text, reasoning;
  text.add_stops(options.stops);
  text.add_tag(options.reasoning_start, kReasoningMode, true);
  text.add_tag(options.reasoning_end, kTextMode, true);
  for (size_t i = 0; i < options.markers.size(); ++i)
    text.add_tag(options.markers[i].open, kFirstPayloadMode + i, false);
  modes.push_back(std::move(text).build());

  if (options.stop_everywhere) reasoning.add_stops(options.stops);
  reasoning.add_tag(options.reasoning_end, kTextMode, true);
  reasoning.add_tag(options.reasoning_start, kReasoningMode, true);
  modes.push_back(std::move(reasoning).build());

  for (const OutputOptions::Marker& marker : options.markers) {
    ModeBuilder payload;
    if (options.stop_everywhere) payload.add_stops(options.stops);
    payload.add_tag(marker.close, kTextMode, true);
    modes.push_back(std::move(payload).build());
  }
  return modes;
}

Error bad_option(std::string_view where, std::string what, std::string_view hint) {
  return Error{ErrorCode::bad_argument, std::move(what), std::string(where), std::string(hint)};
}

Result<void> check_options(const OutputOptions& options) {
  size_t n_bytes = 0;
  const auto check = [&](std::string_view where, const std::string& text) -> Result<void> {
    n_bytes += text.size();
    if (!is_valid_utf8(text)) return bad_option(where, "not valid UTF-8", "give whole characters");
    if (n_bytes > OutputMachine::kMaxPatternBytes)
      return bad_option(where,
                        fmt::format("more than {} bytes of stop strings and tags", OutputMachine::kMaxPatternBytes),
                        "give fewer or shorter ones");
    return {};
  };
  if (options.stops.size() > OutputMachine::kMaxStops)
    return bad_option("stop", fmt::format("{} stop strings", options.stops.size()),
                      fmt::format("at most {} are allowed", OutputMachine::kMaxStops));
  for (const std::string& stop : options.stops) {
    if (stop.empty())
      return bad_option("stop", "a stop string is empty", "leave it out or give at least one character");
    TRY(check("stop", stop));
  }
  if (options.reasoning_start.empty() != options.reasoning_end.empty())
    return bad_option("reasoning tags", "only one of start and end is given", "give both or neither");
  if (options.starts_in_reasoning && options.reasoning_end.empty())
    return bad_option("reasoning tags", "reasoning is open but has no end tag", "give the tags");
  TRY(check("reasoning tags", options.reasoning_start));
  TRY(check("reasoning tags", options.reasoning_end));
  for (const OutputOptions::Marker& marker : options.markers) {
    if (marker.open.empty()) return bad_option("tool markers", "an opening marker is empty", "leave the pair out");
    TRY(check("tool markers", marker.open));
    TRY(check("tool markers", marker.close));
  }
  return {};
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
}  // namespace

struct OutputMachine::Compiled {
  std::vector<Mode> modes;
};

OutputMachine::OutputMachine(std::shared_ptr<const Compiled> compiled, size_t mode)
    : compiled_(std::move(compiled)), mode_(mode) {}

Result<OutputMachine> OutputMachine::create(const OutputOptions& options) {
  TRY(check_options(options));
  return OutputMachine(std::make_shared<const Compiled>(Compiled{compile_modes(options)}),
                       options.starts_in_reasoning ? kReasoningMode : kTextMode);
}

OutputKind OutputMachine::channel() const {
  return mode_ == kTextMode ? OutputKind::text : mode_ == kReasoningMode ? OutputKind::reasoning : OutputKind::payload;
}

std::vector<OutputEvent> OutputMachine::push(std::string_view bytes) {
  Events events;
  for (char byte : bytes) {
    if (stopped() || finished_) break;
    consume(byte, events);
  }
  return events;
}

std::vector<OutputEvent> OutputMachine::finish() {
  Events events;
  if (stopped() || finished_) return events;
  finished_ = true;
  if (maybe_quoted_ != PatternMatcher::kNone) take_tag(maybe_quoted_, events);
  release(held_.size(), events);
  flush_character(events);
  return events;
}

void OutputMachine::consume(char byte, Events& events) {
  const Mode& mode = compiled_->modes[mode_];
  const int pending = std::exchange(maybe_quoted_, PatternMatcher::kNone);
  if (pending != PatternMatcher::kNone && byte != '`') {
    take_tag(pending, events);
    return consume(byte, events);  // in the mode after the tag; nothing is pending there
  }
  held_ += byte;
  if (pending != PatternMatcher::kNone) {  // quoted, so a shorter stop that ended with the tag has its turn
    int other = pending;
    while ((other = mode.matcher.next_match(other)) != PatternMatcher::kNone)
      if (mode.actions[static_cast<size_t>(other)].stop) return take_stop(other, held_.size() - 1, events);
  }
  state_ = mode.matcher.step(state_, static_cast<uint8_t>(byte));
  const int match = mode.matcher.match(state_);
  if (match != PatternMatcher::kNone) {
    const Action& action = mode.actions[static_cast<size_t>(match)];
    if (action.stop) return take_stop(match, held_.size(), events);
    const size_t start = held_.size() - action.n_bytes;
    if ((start > 0 ? held_[start - 1] : last_released_) != '`') return take_tag(match, events);
    maybe_quoted_ = match;
  }
  release(held_.size() - mode.matcher.n_held(state_), events);
}

// The tag is the end of held_.
void OutputMachine::take_tag(int pattern, Events& events) {
  const Action& action = compiled_->modes[mode_].actions[static_cast<size_t>(pattern)];
  release(held_.size() - action.n_bytes, events);
  flush_character(events);
  emit(OutputKind::tag, held_, events);
  held_.clear();
  mode_ = action.next_mode;
  state_ = PatternMatcher::kStart;
  last_released_ = '\0';
  maybe_quoted_ = PatternMatcher::kNone;
  skipping_space_ = action.skips_space;
}

// The stop ends at held_[end].
void OutputMachine::take_stop(int pattern, size_t end, Events& events) {
  const Action& action = compiled_->modes[mode_].actions[static_cast<size_t>(pattern)];
  release(end - action.n_bytes, events);
  flush_character(events);
  held_.clear();
  matched_stop_ = action.stop;
}

void OutputMachine::release(size_t n_bytes, Events& events) {
  if (n_bytes == 0) return;
  size_t n_space = 0;
  if (skipping_space_) {
    while (n_space < n_bytes && is_space(held_[n_space])) ++n_space;
    emit(OutputKind::tag, std::string_view(held_).substr(0, n_space), events);
    skipping_space_ = n_space == n_bytes;
  }
  last_released_ = held_[n_bytes - 1];
  character_.append(held_, n_space, n_bytes - n_space);
  held_.erase(0, n_bytes);
  const size_t n_whole = character_.size() - incomplete_utf8_suffix(character_);
  emit(channel(), replace_invalid_utf8(std::string_view(character_).substr(0, n_whole)), events);
  character_.erase(0, n_whole);
}

void OutputMachine::flush_character(Events& events) {
  emit(channel(), replace_invalid_utf8(character_), events);
  character_.clear();
}

void OutputMachine::emit(OutputKind kind, std::string_view text, Events& events) const {
  if (text.empty()) return;
  const int marker = kind == OutputKind::payload ? static_cast<int>(mode_ - kFirstPayloadMode) : -1;
  if (!events.empty() && events.back().kind == kind && events.back().marker == marker)
    events.back().text += text;
  else
    events.push_back({kind, marker, std::string(text)});
}

}  // namespace tokamak
