#include "chat/format_texts.h"

#include "chat/json_scanner.h"

namespace tokamak {

namespace {
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<uint8_t>(c) >= 0x80;
}
bool is_upper(char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '/'; }

size_t atom_size(std::string_view text) {
  const char c = text[0];
  if (c == '<') {
    const size_t end = text.find_first_of("<>\n", 1);
    if (end == std::string_view::npos) return text.size();
    return text[end] == '>' ? end + 1 : 1;
  }
  if (c == '[') {
    size_t n = 1;
    while (n < text.size() && is_upper(text[n])) ++n;
    return n > 2 && n < text.size() && text[n] == ']' ? n + 1 : 1;
  }
  size_t n = 1;
  if (is_word(c))
    while (n < text.size() && is_word(text[n])) ++n;
  if (c == '`')
    while (n < text.size() && text[n] == '`') ++n;
  return n;
}
}  // namespace

std::vector<std::string_view> format_atoms(std::string_view text) {
  std::vector<std::string_view> atoms;
  while (!text.empty()) {
    atoms.push_back(text.substr(0, atom_size(text)));
    text.remove_prefix(atoms.back().size());
  }
  return atoms;
}

bool is_marker_atom(std::string_view atom) { return atom.size() > 2 && (atom[0] == '<' || atom[0] == '['); }

size_t common_beginning(std::string_view x, std::string_view y) {
  const auto a = format_atoms(x), b = format_atoms(y);
  size_t n_bytes = 0;
  for (size_t i = 0; i < a.size() && i < b.size() && a[i] == b[i]; ++i) n_bytes += a[i].size();
  return n_bytes;
}

size_t common_end(std::string_view x, std::string_view y) {
  const auto a = format_atoms(x), b = format_atoms(y);
  size_t n_bytes = 0;
  for (size_t i = 1; i <= a.size() && i <= b.size() && a[a.size() - i] == b[b.size() - i]; ++i)
    n_bytes += a[a.size() - i].size();
  return n_bytes;
}

std::optional<std::pair<size_t, Json>> json_at(std::string_view text, size_t begin) {
  JsonScanner scanner;
  for (size_t i = begin; i < text.size(); ++i) {
    const JsonScanner::Step step = scanner.feed(text[i]);
    if (step == JsonScanner::Step::bad || step == JsonScanner::Step::done_before) return std::nullopt;
    if (step != JsonScanner::Step::done) continue;
    Json value = Json::parse(text.substr(begin, i + 1 - begin), nullptr, false);
    if (value.is_discarded()) return std::nullopt;
    return std::pair{i + 1, std::move(value)};
  }
  return std::nullopt;
}

std::string_view trim_left(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}
std::string_view trim_space(std::string_view text) {
  text = trim_left(text);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace tokamak
