// Comparing prompts in whole markers and words. Internal to reply_format.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/message.h"

namespace tokamak {

// `text` in pieces that a comparison must not cut: markers like <tool_call> and [ARGS] (one that is not closed runs to
// the end), words, runs of backticks; anything else is one character.
std::vector<std::string_view> format_atoms(std::string_view text);
// Looks like a marker, not like words.
bool is_marker_atom(std::string_view atom);

// Bytes of the longest common beginning and end in whole atoms.
size_t common_beginning(std::string_view x, std::string_view y);
size_t common_end(std::string_view x, std::string_view y);

struct TextRange {
  size_t begin = 0, end = 0;
};
// The first JSON object in text[from, ...) that satisfies `wanted`; objects inside others are looked at, too.
template <class Wanted>
std::optional<TextRange> find_json_object(std::string_view text, size_t from, const Wanted& wanted);
// End of the JSON value that begins at text[begin], and the value.
std::optional<std::pair<size_t, Json>> json_at(std::string_view text, size_t begin);

std::string_view trim_space(std::string_view text);
std::string_view trim_left(std::string_view text);

template <class Wanted>
std::optional<TextRange> find_json_object(std::string_view text, size_t from, const Wanted& wanted) {
  for (size_t at = text.find('{', from); at != std::string_view::npos; at = text.find('{', at + 1))
    if (const auto value = json_at(text, at); value && wanted(value->second)) return TextRange{at, value->first};
  return std::nullopt;
}

}  // namespace tokamak
