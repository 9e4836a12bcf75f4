#include "chat/reply_format.h"

#include <algorithm>
#include <array>

#include "chat/format_texts.h"
#include "chat/known_formats.h"
#include "chat/reply_probe.h"
#include "chat/reply_values.h"

namespace tokamak {

namespace {
using Kind = CallPiece::Kind;

// What one call looks like inside a turn's text: pieces at [begin, end).
struct Spelled {
  size_t begin = 0, end = 0;
  std::vector<CallPiece> pieces;
};

// Keeps pieces of a text that are not literal, and spells out what is between them.
struct PieceMarks {
  std::vector<std::pair<TextRange, Kind>> marks;
  void add(size_t begin, size_t n_bytes, Kind kind) { marks.push_back({{begin, begin + n_bytes}, kind}); }
  // All places of a name in [begin, end) outside the marks so far.
  void add_all(std::string_view text, std::string_view name, size_t begin, size_t end, Kind kind) {
    const auto taken = marks;
    for (size_t at = text.find(name, begin); at < end; at = text.find(name, at + 1))
      if (std::none_of(taken.begin(), taken.end(),
                       [&](const auto& mark) { return at >= mark.first.begin && at < mark.first.end; }))
        add(at, name.size(), kind);
  }
  Spelled spell(std::string_view text, size_t begin, size_t end) {
    std::sort(marks.begin(), marks.end(), [](const auto& x, const auto& y) { return x.first.begin < y.first.begin; });
    Spelled out{begin, end, {}};
    size_t at = begin;
    for (const auto& [range, kind] : marks) {
      if (range.begin > at) out.pieces.push_back({Kind::text, std::string(text.substr(at, range.begin - at))});
      out.pieces.push_back({kind, {}});
      at = range.end;
    }
    if (end > at) out.pieces.push_back({Kind::text, std::string(text.substr(at, end - at))});
    return out;
  }
};

// The keys under which an object holds the call, itself or one level down.
bool read_keys(const Json& object, const ProbeCall& call, CallFormat& format) {
  CallFormat found = format;
  bool has_name = false, has_arguments = false;
  for (const auto& [key, value] : object.items()) {
    if (value == call.name) has_name = true, found.name_key = key;
    if (value == call.arguments) has_arguments = true, found.arguments_key = key;
    if (value == call.id) found.id_key = key;
  }
  if (has_name && has_arguments) format = std::move(found);
  return has_name && has_arguments;
}
bool holds_call(const Json& object, const ProbeCall& call, CallFormat& format) {
  if (read_keys(object, call, format)) return true;
  for (const auto& [key, value] : object.items())
    if (value.is_object() && read_keys(value, call, format)) return true;
  return false;
}

std::optional<Spelled> spell_json(std::string_view text, size_t from, const ProbeCall& call, CallFormat& format) {
  const auto object = find_json_object(text, from, [&](const Json& value) { return holds_call(value, call, format); });
  if (!object) return std::nullopt;
  const auto arguments =
      find_json_object(text, object->begin, [&](const Json& value) { return value == call.arguments; });
  const size_t name = text.find(call.name, object->begin);
  if (!arguments || name >= object->end) return std::nullopt;
  PieceMarks marks;
  marks.add(name, call.name.size(), Kind::name);
  marks.add(arguments->begin, arguments->end - arguments->begin, Kind::arguments);
  if (const size_t id = text.find(call.id, object->begin); id < object->end) marks.add(id, call.id.size(), Kind::id);
  format.syntax = CallSyntax::json;
  return marks.spell(text, object->begin, object->end);
}

std::optional<Spelled> spell_named_json(std::string_view text, size_t from, const ProbeCall& call, CallFormat& format) {
  const auto arguments = find_json_object(text, from, [&](const Json& value) { return value == call.arguments; });
  if (!arguments) return std::nullopt;
  const size_t name = text.find(call.name, from), id = text.find(call.id, from);
  PieceMarks marks;
  size_t begin = arguments->begin;
  if (name < begin) marks.add_all(text, call.name, from, begin, Kind::name);
  if (id < begin) marks.add(id, call.id.size(), Kind::id);
  if (marks.marks.empty()) return std::nullopt;
  format.id_is_name = name > begin;
  begin = std::min(name, id);
  marks.add(arguments->begin, arguments->end - arguments->begin, Kind::arguments);
  format.syntax = CallSyntax::named_json;
  return marks.spell(text, begin, arguments->end);
}

std::string with_key_mark(std::string_view text, std::string_view key) {
  std::string out(text);
  if (const size_t at = out.find(key); at != std::string::npos) out.replace(at, key.size(), 1, CallFormat::kKeyMark);
  return out;
}

// Parameters one by one: f ... k ... v ... k ... v
std::optional<Spelled> spell_parameters(std::string_view text, size_t from, const ProbeCall& call, CallFormat& format) {
  const auto item = call.arguments.items();
  auto first = item.begin(), second = first;
  ++second;
  const std::string key1 = first.key(), value1 = first.value(), key2 = second.key(), value2 = second.value();
  const size_t name = text.find(call.name, from), k1 = text.find(key1, name), v1 = text.find(value1, k1),
               k2 = text.find(key2, v1), v2 = text.find(value2, k2);
  if (v2 == std::string_view::npos) return std::nullopt;
  const auto between = [&](size_t at, size_t n_bytes, size_t end) {
    return text.substr(at + n_bytes, end - at - n_bytes);
  };
  const std::string_view head = between(name, call.name.size(), k1), middle = between(k1, key1.size(), v1),
                         gap = between(v1, value1.size(), k2), tail = text.substr(v2 + value2.size());
  PieceMarks marks;
  marks.add(name, call.name.size(), Kind::name);
  const std::string_view sign = trim_space(middle);
  const bool python = sign.starts_with('=') && sign.size() <= 2 && trim_space(head) == "(";
  if (python || (sign.starts_with(':') && trim_space(head) == "{")) {
    const size_t close = text.find(python ? ')' : '}', v2);
    if (close == std::string_view::npos) return std::nullopt;
    format.syntax = python ? CallSyntax::python : CallSyntax::loose;
    format.quote = python ? std::string() : std::string(trim_space(sign.substr(1)));
    if (format.quote == "\"" || format.quote == "'") format.quote.clear();
    format.parameter_separator = gap.substr(std::min(gap.size(), gap.find(',')));
    marks.add(name + call.name.size() + head.size(), close - name - call.name.size() - head.size(), Kind::arguments);
    return marks.spell(text, name, close + 1);
  }
  const size_t n_open = common_end(head, gap);
  format.parameter_open = gap.substr(gap.size() - n_open);
  // What closes a parameter may repeat its name.
  const std::string rest = with_key_mark(gap.substr(0, gap.size() - n_open), key1),
                    end_text = with_key_mark(tail, key2);
  const size_t n_close = common_beginning(end_text, rest);
  format.parameter_close = rest.substr(0, n_close);
  format.parameter_separator = rest.substr(n_close);
  format.parameter_middle = middle;
  if (trim_space(format.parameter_close).empty() || trim_space(middle).empty()) return std::nullopt;
  format.syntax = CallSyntax::parameters;
  const size_t begin = name + call.name.size() + head.size() - n_open;
  const size_t end = v2 + value2.size() + parameter_close(format, key2).size();
  marks.marks.clear();
  marks.add_all(text, call.name, name, begin, Kind::name);
  marks.add(begin, end - begin, Kind::arguments);
  return marks.spell(text, name, end);
}

std::optional<Spelled> spell_call(std::string_view text, size_t from, const ProbeCall& call, CallFormat& format) {
  for (const auto& spell : {spell_json, spell_named_json, spell_parameters})
    if (auto found = spell(text, from, call, format)) return found;
  return std::nullopt;
}

void prepend(std::vector<CallPiece>& pieces, std::string_view text) {
  if (text.empty()) return;
  if (!pieces.empty() && pieces.front().kind == Kind::text)
    pieces.front().text.insert(0, text);
  else
    pieces.insert(pieces.begin(), {Kind::text, std::string(text)});
}
void append(std::vector<CallPiece>& pieces, std::string_view text) {
  if (text.empty()) return;
  if (!pieces.empty() && pieces.back().kind == Kind::text)
    pieces.back().text += text;
  else
    pieces.push_back({Kind::text, std::string(text)});
}

// Digits in which two calls differ count them.
void mark_index(std::vector<CallPiece>& pieces, const std::vector<CallPiece>& others) {
  if (pieces.size() != others.size()) return;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string text = pieces[i].text, &other = others[i].text;
    if (pieces[i].kind != Kind::text || others[i].kind != Kind::text || text == other) continue;
    size_t begin = 0;
    while (begin < text.size() && begin < other.size() && text[begin] == other[begin]) ++begin;
    while (begin > 0 && is_digit(text[begin - 1])) --begin;
    size_t end = begin, other_end = begin;
    while (end < text.size() && is_digit(text[end])) ++end;
    while (other_end < other.size() && is_digit(other[other_end])) ++other_end;
    if (end == begin || text.substr(end) != other.substr(other_end)) continue;
    pieces[i].text = text.substr(end);
    pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(i),
                  {{Kind::text, text.substr(0, begin)}, {Kind::index, {}}});
    return;
  }
}

// functions.NAME:0 is one id, from which the name is read.
void join_id(CallFormat& format) {
  static constexpr std::string_view kPrefix = "functions.";
  auto& call = format.call;
  for (size_t i = 0; i + 2 < call.size(); ++i) {
    if (call[i].kind != Kind::name || call[i + 1] != CallPiece{Kind::text, ":"} || call[i + 2].kind != Kind::index)
      continue;
    call.erase(call.begin() + static_cast<std::ptrdiff_t>(i) + 1, call.begin() + static_cast<std::ptrdiff_t>(i) + 3);
    call[i].kind = Kind::id;
    format.id_is_name = true;
    if (i > 0 && call[i - 1].text.ends_with(kPrefix)) call[i - 1].text.resize(call[i - 1].text.size() - kPrefix.size());
  }
}

// What stands around one call, and between two, tells what belongs to a call and what to the section.
void frame_calls(const ReplyProbe& probe, std::string_view before, std::string_view after, CallFormat& format) {
  const auto two = probe.body({.calls = {first_probe_call(), second_probe_call()}});
  CallFormat ignored;
  const auto first = two ? spell_call(*two, 0, first_probe_call(), ignored) : std::nullopt;
  const auto second = first ? spell_call(*two, first->end, second_probe_call(), ignored) : std::nullopt;
  if (!second) {
    format.one_call = true;
    prepend(format.call, before);
    append(format.call, after);
    return;
  }
  mark_index(format.call, second->pieces);
  std::string_view between = std::string_view(*two).substr(first->end, second->begin - first->end);
  const size_t n_close = common_beginning(after, between);
  format.section_close = after.substr(n_close);
  append(format.call, after.substr(0, n_close));
  // Some templates close the section behind a second call only.
  const std::string_view behind = std::string_view(*two).substr(second->end);
  if (trim_space(format.section_close).empty() && behind.starts_with(after.substr(0, n_close)))
    format.section_close = behind.substr(n_close);
  between.remove_prefix(n_close);
  const size_t n_open = common_end(before, between);
  format.section_open = before.substr(0, before.size() - n_open);
  prepend(format.call, before.substr(before.size() - n_open));
  format.separator = between.substr(0, between.size() - n_open);
}

// White space in front of the first marker belongs to the content before it or to the separator.
void tidy_edges(CallFormat& format) {
  // A template may write its calls twice.
  if (format.section_close.find(first_probe_call().name) != std::string::npos) format.section_close.clear();
  if (trim_space(format.section_open).empty()) {
    format.section_open.clear();
    if (!format.call.empty() && format.call.front().kind == Kind::text) {
      std::string& open = format.call.front().text;
      const size_t n_space = open.size() - trim_left(open).size();
      format.separator += open.substr(0, n_space);
      open.erase(0, n_space);
    }
  } else {
    format.section_open.erase(0, format.section_open.size() - trim_left(format.section_open).size());
  }
  if (trim_space(format.section_open).empty()) {  // what closes a section that was never opened ends the turn
    format.turn_end = trim_space(format.section_close);
    format.section_close.clear();
  }
  if (trim_space(format.section_close).empty()) format.section_close.clear();
  if (format.section_close.empty() && !format.call.empty() && format.call.back().kind == Kind::text) {
    std::string& close = format.call.back().text;
    const size_t n = std::string_view(close).find_last_not_of(" \t\r\n") + 1;
    format.separator.insert(0, close.substr(n));
    close.resize(n);
  }
  std::erase_if(format.call, [](const CallPiece& p) { return p.kind == Kind::text && p.text.empty(); });
}

std::optional<CallFormat> derive_calls(const ChatTemplate& chat_template, ReplyProbe& probe) {
  for (const bool with_tools : {false, true}) {
    if (with_tools) probe.show_tools();
    const auto body = probe.body({.calls = {first_probe_call()}});
    if (!body) continue;
    CallFormat format;
    const auto call = spell_call(*body, 0, first_probe_call(), format);
    if (!call) continue;
    format.call = call->pieces;
    frame_calls(probe, std::string_view(*body).substr(0, call->begin), std::string_view(*body).substr(call->end),
                format);
    find_value_spelling(probe, format);
    tidy_edges(format);
    join_id(format);
    ProbeCall long_id = first_probe_call();
    long_id.id = "call_zqid0000a";
    format.short_ids = !probe.prompt({.calls = {long_id}}).has_value();
    if (format.marker().empty() && chat_template.source().find("<|python_tag|>") != std::string::npos)
      format.optional_open = "<|python_tag|>";
    return format;
  }
  return std::nullopt;
}

struct TagPair {
  std::string_view start, end;
};
constexpr auto kKnownTags = std::to_array<TagPair>({{"<think>", "</think>"},
                                                    {"<seed:think>", "</seed:think>"},
                                                    {"[THINK]", "[/THINK]"},
                                                    {"<|START_THINKING|>", "<|END_THINKING|>"},
                                                    {"<thinking>", "</thinking>"},
                                                    {"<reasoning>", "</reasoning>"},
                                                    {"<thought>", "</thought>"}});

// The markers next to the thought of a turn; otherwise known ones that the template speaks of.
void find_thoughts(const ChatTemplate& chat_template, const ReplyProbe& probe, ReplyFormat& format) {
  for (const ProbeTurn& turn :
       {ProbeTurn{kProbeText, kProbeThought, {}}, ProbeTurn{kProbeText, kProbeThought, {first_probe_call()}},
        ProbeTurn{{}, kProbeThought, {first_probe_call()}}}) {
    const auto prompt = probe.prompt(turn);
    const size_t at = prompt ? prompt->rfind(kProbeThought) : std::string::npos;
    if (at == std::string::npos) continue;
    const auto before = format_atoms(trim_space(std::string_view(*prompt).substr(0, at)));
    const auto after = format_atoms(trim_space(std::string_view(*prompt).substr(at + kProbeThought.size())));
    std::string start(before.empty() ? std::string_view() : before.back());
    // A marker and a word: <|channel>thought
    if (before.size() > 1 && !is_marker_atom(start) && is_marker_atom(before[before.size() - 2]))
      start.insert(0, before[before.size() - 2]);
    if (after.empty() || !is_marker_atom(start) || !is_marker_atom(after.front())) continue;
    // The end of the turn is no end of a thought.
    const auto plain = probe.prompt({.content = kProbeText});
    const size_t text = plain ? plain->rfind(kProbeText) : std::string::npos;
    if (text != std::string::npos &&
        trim_left(std::string_view(*plain).substr(text + kProbeText.size())).starts_with(after.front()))
      continue;
    format.reasoning_start = start;
    format.reasoning_end = after.front();
    return;
  }
  for (const TagPair& tags : kKnownTags)
    if (chat_template.source().find(tags.end) != std::string::npos) {
      format.reasoning_start = tags.start;
      format.reasoning_end = tags.end;
      return;
    }
}
}  // namespace

std::string CallFormat::marker() const {
  std::string_view open = section_open;
  if (open.empty() && !call.empty() && call.front().kind == CallPiece::Kind::text) {
    open = call.front().text;
    if (syntax == CallSyntax::json) open = open.substr(0, open.find('{'));
  }
  open = trim_space(open);
  const auto atoms = format_atoms(open);
  if (atoms.empty()) return {};
  if (is_marker_atom(atoms.front())) return std::string(atoms.front());
  open = trim_space(open.substr(0, open.find('\n')));
  return open.size() < 3 ? std::string() : std::string(open);
}

std::string parameter_close(const CallFormat& format, std::string_view key) {
  std::string out = format.parameter_close;
  if (const size_t at = out.find(CallFormat::kKeyMark); at != std::string::npos) out.replace(at, 1, key);
  return out;
}

namespace {
// Answers go to tools or to everybody: a plain turn writes the recipient of content where a call has the tool's name,
// and thoughts may have a recipient, too.
bool find_recipients(const ReplyProbe& probe, ReplyFormat& format) {
  if (!format.calls) return false;
  const CallFormat& calls = *format.calls;
  const bool fits = (calls.syntax == CallSyntax::named_json || calls.syntax == CallSyntax::parameters) &&
                    calls.call.size() >= 3 && calls.call[0].kind == Kind::name && calls.call[1].kind == Kind::text &&
                    !trim_space(calls.separator).empty();
  const auto header_of = [&](const ProbeTurn& turn, std::string_view text) {
    const auto prompt = probe.prompt(turn);
    if (!prompt || !prompt->starts_with(probe.question())) return std::string();
    const std::string behind = prompt->substr(probe.question().size());
    return behind.substr(0, behind.find(text));
  };
  const std::string plain = header_of({.content = kProbeText}, kProbeText);
  const std::string call = header_of({.calls = {first_probe_call()}}, first_probe_call().name);
  if (!fits || plain.empty() || !plain.starts_with(call)) return false;
  const auto atoms = format_atoms(std::string_view(plain).substr(call.size()));
  if (atoms.size() < 2) return false;
  const std::string end = plain.substr(call.size() + atoms[0].size());
  if (!calls.call[1].text.starts_with(end)) return false;
  format.messages = MessageFormat::recipient;
  format.recipient_start = call;
  format.recipient_end = end;
  format.content_recipient = atoms[0];
  format.reasoning_start.clear();
  format.reasoning_end.clear();
  const std::string thought = header_of({.content = kProbeText, .thought = kProbeThought}, kProbeThought);
  if (trim_space(call).empty() || !thought.starts_with(call) || !thought.ends_with(end)) return true;
  const std::string recipient = thought.substr(call.size(), thought.size() - call.size() - end.size());
  if (recipient.empty() || recipient == format.content_recipient) return true;
  format.reasoning_recipient = recipient;
  format.reasoning_start = trim_space(thought);
  format.reasoning_end = format_atoms(trim_space(calls.separator)).front();
  return true;
}

// gpt-oss: every message has a header with a channel and perhaps a recipient.
bool is_harmony(std::string_view source) {
  for (const std::string_view marker : {"<|start|>", "<|channel|>", "<|message|>", "functions."})
    if (source.find(marker) == std::string_view::npos) return false;
  return true;
}
ReplyFormat harmony() {
  ReplyFormat format{.reasoning_start = "<|channel|>analysis<|message|>",
                     .reasoning_end = "<|end|>",
                     .calls = CallFormat{.syntax = CallSyntax::named_json},
                     .messages = MessageFormat::harmony,
                     .found_by = "harmony"};
  format.calls->call = {{Kind::text, " to=functions."},
                        {Kind::name, {}},
                        {Kind::text, "<|channel|>commentary json<|message|>"},
                        {Kind::arguments, {}}};
  format.calls->separator = "<|call|><|start|>assistant";
  return format;
}
}  // namespace

ReplyFormat find_reply_format(const ChatTemplate& chat_template) {
  const std::string& source = chat_template.source();
  if (is_harmony(source)) return harmony();
  ReplyFormat format;
  ReplyProbe probe(chat_template);
  find_thoughts(chat_template, probe, format);
  format.calls = derive_calls(chat_template, probe);
  if (format.calls) {
    format.found_by = "derived";
    if (find_recipients(probe, format)) return format;
    // An empty thought in front of calls is no part of them.
    const std::string empty_thought = format.reasoning_start + format.reasoning_end;
    if (!empty_thought.empty() && format.calls->section_open.starts_with(empty_thought))
      format.calls->section_open.erase(0, empty_thought.size());
    return format;
  }
  if (const KnownFormat* known = find_known_format(source)) {
    format.calls.emplace();
    known->make(*format.calls);
    format.found_by = known->name;
  }
  return format;
}

}  // namespace tokamak
