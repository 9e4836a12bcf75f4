// Looking into JSON that a client wrote: nothing about its types is certain.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/message.h"

namespace tokamak::server {

// Null: `json` is no object, or has no such member, or it is null.
inline const Json* member(const Json& json, std::string_view name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

// Empty: absent, or no text.
inline std::string text_of(const Json* json) {
  return json && json->is_string() ? json->get<std::string>() : std::string();
}
inline std::string text_member(const Json& json, std::string_view name) { return text_of(member(json, name)); }

// Texts of one message: a single one is plain.
inline Content content_of(std::vector<std::string> texts) {
  if (texts.empty()) return std::string();
  if (texts.size() == 1) return std::move(texts[0]);
  std::vector<Json> parts;
  for (std::string& text : texts) parts.push_back({{"type", "text"}, {"text", std::move(text)}});
  return parts;
}

}  // namespace tokamak::server
