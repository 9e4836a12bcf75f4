// From the bytes of generated tokens to what a reader gets: whole UTF-8 characters, nothing after a stop string,
// thoughts and tool calls apart from the answer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/output/pattern_matcher.h"

namespace tokamak {

struct OutputOptions {
  struct Marker {
    std::string open;
    std::string close;  // empty: the payload runs to the end
  };

  std::vector<std::string> stops;    // generation ends before the first of these
  std::string reasoning_start;       // "<think>"; both empty: no reasoning
  std::string reasoning_end;         // "</think>"
  bool starts_in_reasoning = false;  // the prompt has opened the block already
  std::vector<Marker> markers;       // tool calls; the payload is handed on as it is
  bool stop_everywhere = false;      // stops also end thoughts and payloads, not only the answer
};

enum class OutputKind : uint8_t { text, reasoning, payload, tag };

struct OutputEvent {
  OutputKind kind;
  int marker;        // payload: index of its marker, otherwise -1
  std::string text;  // valid UTF-8, not empty

  bool operator==(const OutputEvent&) const = default;
};

// Rules
// - The same bytes give the same events for any chunking, once neighbours of one kind are joined.
// - All event texts together are the input up to the stop string, each ill-formed sequence replaced by U+FFFD; one cut
//   by the end is replaced once, by finish().
// - The first position where a stop or tag ends decides; of those that end there the longest wins, a stop before an
//   equal tag. Text is held back only while it may still become a stop or a tag.
// - Tags, and white space after a tag of the reasoning or the end of a payload, come as events of kind `tag`. A start
//   inside a thought and an end outside one change nothing but are tags too.
// - A tag with a backtick on either side is quoted: it is plain text.
// - In a payload only its own closing marker counts.
//
// Copyable; copies share the compiled patterns. One thread at a time.
class OutputMachine {
 public:
  // Errors: bad_argument for an empty stop, text that is not UTF-8, half a tag pair, more than kMaxStops stops or
  // kMaxPatternBytes bytes of stops and tags.
  static Result<OutputMachine> create(const OutputOptions& options);
  static constexpr size_t kMaxStops = 256;
  static constexpr size_t kMaxPatternBytes = 65536;

  // Takes the bytes of a token (any bytes, any number) and returns what is certain now. Ignored after a stop.
  std::vector<OutputEvent> push(std::string_view bytes);
  // End of generation: releases what was held back. Later calls return nothing.
  std::vector<OutputEvent> finish();

  bool stopped() const { return matched_stop_.has_value(); }
  // Index into OutputOptions::stops.
  std::optional<size_t> matched_stop() const { return matched_stop_; }
  // What the next byte belongs to as far as is known: text, reasoning or payload.
  OutputKind channel() const;

 private:
  struct Compiled;
  using Events = std::vector<OutputEvent>;

  explicit OutputMachine(std::shared_ptr<const Compiled> compiled, size_t mode);
  void consume(char byte, Events& events);
  void take_tag(int pattern, Events& events);
  void take_stop(int pattern, size_t end, Events& events);
  void release(size_t n_bytes, Events& events);
  void flush_character(Events& events);
  void emit(OutputKind kind, std::string_view text, Events& events) const;

  std::shared_ptr<const Compiled> compiled_;
  size_t mode_;  // index into Compiled::modes
  PatternMatcher::State state_ = PatternMatcher::kStart;
  std::string held_;                          // not yet released; ends with what state_ stands for
  std::string character_;                     // released bytes of an unfinished character
  char last_released_ = '\0';                 // within the current mode
  int maybe_quoted_ = PatternMatcher::kNone;  // a tag at the end of held_ that follows a backtick
  bool skipping_space_ = false;               // white space here still belongs to the tag before it
  bool finished_ = false;
  std::optional<size_t> matched_stop_;
};

}  // namespace tokamak
