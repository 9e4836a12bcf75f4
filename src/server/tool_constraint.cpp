#include "server/tool_constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_set>

#include "chat/format_texts.h"
#include "chat/parameter_types.h"
#include "server/generation.h"

namespace tokamak::server {

namespace {
using Kind = CallPiece::Kind;
constexpr uint32_t kAny = UINT32_MAX;
constexpr size_t kMaxToolName = 256;
constexpr int kMaxLooseDepth = 8;     // of lists and objects in the format's own spelling; deeper ones are JSON
constexpr uint32_t kMaxThoughts = 8;  // opened one after the other before a call that must come

GrammarPart literal(std::string_view text) { return {.text = std::string(text)}; }
GrammarPart group(GrammarGroup group) { return {.group = std::make_shared<const GrammarGroup>(std::move(group))}; }
GrammarPart any_of(std::vector<GrammarSequence> items) { return group({.items = std::move(items)}); }

void append(GrammarSequence& out, GrammarSequence more) {
  for (GrammarPart& part : more) out.push_back(std::move(part));
}
// White space that models put between a thought and what follows.
GrammarPart few_spaces() { return {.pattern = "[ \\n]{0,4}"}; }

std::string json_escaped(const std::string& text) {
  const std::string quoted = dump(Json(text));
  return quoted.substr(1, quoted.size() - 2);
}

// A function of the request, checked.
struct Tool {
  size_t index;
  std::string name;
  const Json* parameters;  // an object schema; lives in ToolGrammar::schemas_
  std::string label() const { return fmt::format("tools[{}].function.parameters", index); }
};

class ToolGrammar {
 public:
  ToolGrammar(const CallFormat& format, const Tokenizer& tokenizer) : format_(format), tokenizer_(tokenizer) {}

  Result<void> add_tools(const std::vector<Json>& tools) {
    std::unordered_set<std::string> names;
    for (size_t i = 0; i < tools.size(); ++i) {
      const std::string where = fmt::format("tools[{}].function", i);
      const Json* function = tools[i].is_object() && tools[i].contains("function") ? &tools[i]["function"] : nullptr;
      if (!function || !function->is_object()) return bad_field(where, "is missing");
      const auto name = function->find("name");
      if (name == function->end() || !name->is_string()) return bad_field(where + ".name", "is missing");
      tools_.push_back({.index = i, .name = name->get<std::string>(), .parameters = nullptr});
      TRY(check_name(tools_.back().name, where + ".name"));
      if (!names.insert(tools_.back().name).second)
        return bad_field(where + ".name", "two tools are called '" + tools_.back().name + "'");
      const auto parameters = function->find("parameters");
      tools_.back().parameters =
          TRY(object_schema(parameters == function->end() ? Json() : *parameters, where + ".parameters"));
    }
    return {};
  }
  bool has(const std::string& name) const {
    return std::any_of(tools_.begin(), tools_.end(), [&](const Tool& tool) { return tool.name == name; });
  }
  bool empty() const { return tools_.empty(); }

  // The whole section with calls of the tool of this name, or of any.
  GrammarSequence section(const std::string& only, bool parallel) {
    GrammarGroup calls{.items = {}, .separator = text(format_.separator), .min = 1, .max = 1};
    if (parallel && !format_.one_call) calls.max = kAny;
    for (const Tool& tool : tools_)
      if (only.empty() || tool.name == only) calls.items.push_back(call(tool));
    GrammarSequence out = text(format_.section_open);
    out.push_back(group(std::move(calls)));
    append(out, closing(format_.section_close));
    return out;
  }

  // Tags of thoughts that the model opens itself, and what stands behind each; the thoughts are not bound.
  GrammarPart thoughts(const ReplyFormat& format, std::string_view behind) const {
    if (format.reasoning_start.empty()) return literal("");
    GrammarSequence thought = text(format.reasoning_start);
    thought.push_back(few_spaces());
    append(thought, text(behind));
    return group({.items = {std::move(thought)}, .min = 0, .max = kMaxThoughts});
  }

  // Calls that nothing announces: an answer that begins like one is one, any other is free.
  GrammarSequence bare_or_text(bool parallel) {
    std::vector<GrammarSequence> answers;
    answers.push_back(section({}, parallel));
    if (!format_.optional_open.empty()) {
      answers.push_back(text(format_.optional_open));
      append(answers.back(), section({}, parallel));
    }
    const std::string start = format_.section_open + format_.call.front().text;
    const std::string head = start.substr(0, start.find('"') + 1 + format_.name_key.size());
    for (size_t n = 0; n < head.size(); ++n) {
      GrammarSequence other{few_spaces(), literal(head.substr(0, n))};
      const std::string no_space = n == 0 ? " \\n" : "";
      other.push_back({.pattern = "([^\\x" + fmt::format("{:02x}", static_cast<unsigned char>(head[n])) + no_space +
                                  "][\\s\\S]*)?"});
      answers.push_back(std::move(other));
    }
    return {any_of(std::move(answers))};
  }

  // gpt-oss: a call from its recipient on, which stands in front of the channel or behind it.
  GrammarSequence harmony_call(const std::string& only, bool from_trigger) {
    GrammarGroup names{.items = {}};
    for (const Tool& tool : tools_) {
      if (!only.empty() && tool.name != only) continue;
      GrammarSequence one = text("to=functions." + tool.name);
      one.push_back(any_of({text("<|channel|>commentary json"),
                            text("<|channel|>commentary <|constrain|>json"),
                            text("<|channel|>commentary"),
                            text(" <|constrain|>json"),
                            {literal("")}}));
      append(one, text("<|message|>"));
      one.push_back({.schema = tool.parameters, .label = tool.label()});
      names.items.push_back(std::move(one));
    }
    GrammarSequence out;
    if (!from_trigger) out.push_back(any_of({{literal(" ")}, {literal("")}, text("<|channel|>commentary ")}));
    out.push_back(group(std::move(names)));
    return out;
  }

  // A text of the format: control tokens in it are tokens, which a model cannot spell otherwise.
  GrammarSequence text(std::string_view all) const {
    GrammarSequence out;
    for (const int32_t id : tokenizer_.encode(all, {.add_special = false, .parse_special = true})) {
      if (!tokenizer_.is_control(id)) continue;
      const std::string token = tokenizer_.token_bytes(id);
      const size_t at = token.empty() ? std::string::npos : all.find(token);
      if (at == std::string_view::npos) continue;
      if (at > 0) out.push_back(literal(all.substr(0, at)));
      out.push_back({.token = id});
      all.remove_prefix(at + token.size());
    }
    if (!all.empty()) out.push_back(literal(all));
    return out;
  }
  // The same up to an end token, which is the engine's affair.
  GrammarSequence closing(std::string_view all) const {
    for (const int32_t id : tokenizer_.eog_tokens())
      if (const std::string token = tokenizer_.token_bytes(id); !token.empty()) all = all.substr(0, all.find(token));
    return text(all);
  }

 private:
  Result<void> check_name(const std::string& name, const std::string& where) const {
    if (name.empty() || name.size() > kMaxToolName)
      return bad_field(where, fmt::format("must have 1 to {} bytes", kMaxToolName));
    const bool is_quoted = format_.syntax == CallSyntax::json;
    for (const char c : name)
      if (static_cast<uint8_t>(c) <= ' ' ||
          (!is_quoted && std::string_view("\"'<>=(){}[]`|,").find(c) != std::string_view::npos))
        return bad_field(where, "'" + name + "' holds a character that this model's calls cannot name");
    return {};
  }

  // No schema: no arguments.
  Result<const Json*> object_schema(Json schema, const std::string& where) {
    if (schema.is_null()) schema = {{"type", "object"}, {"properties", Json::object()}};
    if (!schema.is_object()) return bad_field(where, "must be a JSON Schema of an object");
    const auto type = schema.find("type");
    if (type != schema.end() && *type != "object") return bad_field(where + ".type", "must be 'object'");
    const bool refers = schema.contains("$ref") || schema.contains("anyOf") || schema.contains("oneOf") ||
                        schema.contains("allOf") || schema.contains("enum") || schema.contains("const");
    if (type == schema.end() && !refers) schema["type"] = "object";
    const auto properties = schema.find("properties");
    const bool has_none = properties != schema.end() && properties->is_object() && properties->empty();
    if (has_none && !refers && !schema.contains("additionalProperties") && !schema.contains("patternProperties"))
      schema["additionalProperties"] = false;
    return &schemas_.emplace_back(std::move(schema));
  }

  GrammarSequence call(const Tool& tool) {
    GrammarSequence out;
    for (const CallPiece& piece : format_.call) {
      switch (piece.kind) {
        case Kind::text:
          append(out, &piece == &format_.call.back() ? closing(piece.text) : text(piece.text));
          break;
        case Kind::index:
          out.push_back({.pattern = "[0-9]{1,3}"});
          break;
        case Kind::name:
          out.push_back(literal(format_.syntax == CallSyntax::json ? json_escaped(tool.name) : tool.name));
          break;
        case Kind::id:
          append(out, id(tool));
          break;
        case Kind::arguments:
          append(out, arguments(tool));
      }
    }
    return out;
  }

  GrammarSequence id(const Tool& tool) const {
    if (format_.id_is_name) return {literal("functions." + tool.name + ":"), {.pattern = "[0-9]{1,3}"}};
    if (format_.short_ids) return {{.pattern = "[A-Za-z0-9]{9}"}};
    return {{.pattern = "[A-Za-z0-9_-]{1,64}"}};
  }

  GrammarSequence arguments(const Tool& tool) {
    const auto properties = tool.parameters->find("properties");
    const bool has_properties = properties != tool.parameters->end() && properties->is_object();
    switch (format_.syntax) {
      case CallSyntax::json:
      case CallSyntax::named_json:
        return {{.schema = tool.parameters, .label = tool.label()}};
      case CallSyntax::parameters:
        return has_properties ? members({tool, *tool.parameters, "#"}, 0) : free_members();
      case CallSyntax::python:
      case CallSyntax::loose:
        return has_properties ? members({tool, *tool.parameters, "#"}, 0) : GrammarSequence{};
    }
    return {};
  }

  // A schema inside a tool's parameters.
  struct Place {
    const Tool& tool;
    const Json& schema;
    std::string pointer;
    Place property(const std::string& key, const Json& of) const {
      std::string step;
      for (const char c : key) step += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
      return {tool, of, pointer + "/properties/" + step};
    }
  };

  // The properties of an object's schema, in its order.
  GrammarSequence members(const Place& place, int depth) {
    GrammarGroup all{.items = {}, .separator = text(format_.parameter_separator)};
    std::unordered_set<std::string_view> required;
    if (const auto names = place.schema.find("required"); names != place.schema.end() && names->is_array())
      for (const Json& name : *names)
        if (name.is_string()) required.insert(name.get_ref<const std::string&>());
    for (const auto& [key, schema] : place.schema["properties"].items()) {
      const Place at = place.property(key, schema);
      all.items.push_back(format_.syntax == CallSyntax::parameters ? parameter(key, at, depth)
                                                                   : member(key, at, depth));
      all.required.push_back(required.contains(key));
    }
    if (all.items.empty()) return {};
    return {group(std::move(all))};
  }

  GrammarSequence parameter(const std::string& key, const Place& place, int depth) {
    const ParameterType type = parameter_type(place.schema, *place.tool.parameters);
    const std::string close = parameter_close(format_, key);
    std::vector<GrammarSequence> forms;
    if (type != ParameterType::value) {
      // What begins like the marks stands between them.
      const auto stop =
          std::mismatch(close.begin(), close.end(), format_.text_open.begin(), format_.text_open.end()).first;
      forms.push_back(text(format_.parameter_middle));
      append(forms.back(), bare_text(place.schema, stop == close.begin() ? close : std::string(close.begin(), stop)));
      if (!format_.text_open.empty()) {
        const std::string end = format_.text_close + close;
        forms.push_back(text(format_.parameter_middle + format_.text_open));
        append(forms.back(), bare_text(place.schema, end));
        append(forms.back(), text(format_.text_close));
      }
    }
    if (type == ParameterType::value || (type == ParameterType::either && !format_.json_middle.empty())) {
      forms.push_back(text(format_.json_middle.empty() ? format_.parameter_middle : format_.json_middle));
      append(forms.back(), format_.item_key.empty() ? value(place) : nested_value(place, close, depth));
    }
    GrammarSequence out = text(format_.parameter_open);
    out.push_back(literal(key));
    out.push_back(any_of(std::move(forms)));
    append(out, text(close));
    return out;
  }
  // Lists and objects as parameters inside; where the schema says nothing about them, any text.
  GrammarSequence nested_value(const Place& place, const std::string& close, int depth) {
    if (!place.schema.is_object()) return {{.without = close}};
    const auto items = place.schema.find("items"), inner = place.schema.find("properties");
    const bool has_items = items != place.schema.end() && items->is_object();
    const bool has_members = inner != place.schema.end() && inner->is_object() && !inner->empty();
    const auto type = place.schema.find("type");
    const bool is_open = type == place.schema.end() || *type == "array" || *type == "object";
    const bool is_listed = place.schema.contains("enum") || place.schema.contains("const");
    if (!has_items && !has_members && (!is_open || is_listed)) return value(place);
    if (!(has_items || has_members) || depth >= kMaxLooseDepth) return {{.without = close}};
    if (has_members) return members(place, depth + 1);
    const Place item{place.tool, *items, place.pointer + "/items"};
    GrammarGroup list{.items = {parameter(format_.item_key, item, depth + 1)}, .min = 0, .max = kAny};
    for (const auto& [keyword, limit] : place.schema.items())
      if (keyword == "uniqueItems" || keyword == "minItems" || keyword == "maxItems" || keyword == "contains")
        list.notes.push_back({place.tool.label() + " " + place.pointer, keyword, "lists are no JSON in this format"});
    return {group(std::move(list))};
  }
  // A string as it is; of its schema, listed values are enforced.
  static GrammarSequence bare_text(const Json& schema, const std::string& close) {
    std::vector<GrammarSequence> listed;
    if (schema.is_object()) {
      const auto add = [&](const Json& one) {
        if (one.is_string() && one.get_ref<const std::string&>().find(close) == std::string::npos)
          listed.push_back({literal(one.get<std::string>())});
      };
      if (const auto list = schema.find("enum"); list != schema.end() && list->is_array())
        for (const Json& one : *list) add(one);
      if (const auto fixed = schema.find("const"); fixed != schema.end()) add(*fixed);
    }
    if (!listed.empty()) return {any_of(std::move(listed))};
    return {{.without = close}};
  }

  GrammarSequence member(const std::string& key, const Place& place, int depth) {
    GrammarSequence out{literal(key + (format_.syntax == CallSyntax::python ? "=" : ":"))};
    append(out, loose_value(place, depth + 1));
    return out;
  }
  // As the format writes strings, lists and objects; what it does not write in a way of its own, or what the schema
  // says nothing about, as JSON.
  GrammarSequence loose_value(const Place& place, int depth) {
    const Json& schema = place.schema;
    const bool is_object = schema.is_object();
    const bool is_plain = is_object && parameter_type(schema, *place.tool.parameters) == ParameterType::text &&
                          !schema.contains("enum") && !schema.contains("const") && !schema.contains("pattern");
    if (is_plain && !format_.raw_quote.empty()) {  // a quote inside, but not where it ends the text
      const std::string& quote = format_.raw_quote;
      return {any_of(
          {value(place),
           {literal(quote), {.pattern = "([^" + quote + "]|" + quote + "+[^,) \\n" + quote + "])*"}, literal(quote)}})};
    }
    if (is_plain && format_.quote.empty())
      return {any_of({value(place), {literal("'"), {.pattern = "[^'\\\\\\n]*"}, literal("'")}})};
    if (is_plain) {
      GrammarSequence out = text(format_.quote);
      out.push_back({.without = format_.quote});
      append(out, text(format_.quote));
      return out;
    }
    if (format_.syntax != CallSyntax::loose || !is_object || depth > kMaxLooseDepth) return value(place);
    if (const auto inner = schema.find("properties"); inner != schema.end() && inner->is_object() && !inner->empty()) {
      GrammarSequence out{literal("{")};
      append(out, members(place, depth));
      out.push_back(literal("}"));
      return out;
    }
    const auto items = schema.find("items");
    if (items == schema.end() || !items->is_object()) return value(place);
    const bool is_json = parameter_type(*items, *place.tool.parameters) == ParameterType::value &&
                         !items->contains("properties") && !items->contains("items");
    if (is_json) return value(place);  // numbers are written alike
    GrammarGroup list{.items = {loose_value({place.tool, *items, place.pointer + "/items"}, depth + 1)},
                      .separator = text(format_.parameter_separator),
                      .min = 0,
                      .max = kAny};
    return {literal("["), group(std::move(list)), literal("]")};
  }

  // JSON; Python's words where models write them.
  GrammarSequence value(const Place& place) const {
    GrammarSequence json{{.schema = place.tool.parameters, .pointer = place.pointer, .label = place.tool.label()}};
    const bool is_flag = place.schema.is_object() && place.schema.value("type", Json()) == "boolean";
    if (!is_flag || format_.syntax == CallSyntax::loose) return json;
    return {any_of({json, {literal("True")}, {literal("False")}})};
  }

  // Any parameters.
  GrammarSequence free_members() const {
    GrammarSequence one = text(format_.parameter_open);
    one.push_back({.pattern = "[A-Za-z0-9_.-]{1,64}"});
    append(one, text(format_.parameter_middle));
    one.push_back({.without = format_.parameter_close});
    append(one, text(format_.parameter_close));
    return {group({.items = {one}, .separator = text(format_.parameter_separator), .min = 0, .max = kAny})};
  }

  const CallFormat& format_;
  const Tokenizer& tokenizer_;
  std::vector<Tool> tools_;
  std::deque<Json> schemas_;
};

// Wakes the grammar at the marker.
GrammarTriggers triggers_at(const std::string& marker, const Tokenizer& tokenizer) {
  GrammarTriggers triggers;
  const int32_t token = tokenizer.find(marker);
  if (token != kNoToken && tokenizer.is_control(token))
    triggers.tokens.push_back(token);
  else
    triggers.words.push_back(marker);
  return triggers;
}
}  // namespace

Result<std::optional<ToolConstraint>> tool_constraint(const ReplyFormat& format, const ToolUse& use,
                                                      const Tokenizer& tokenizer, const GrammarOptions& options) {
  static const CallFormat kNoCalls;
  ToolGrammar grammar(format.calls ? *format.calls : kNoCalls, tokenizer);
  TRY(grammar.add_tools(use.tools));
  const bool must_call = use.choice == ToolChoice::required || use.choice == ToolChoice::named;
  if (use.choice == ToolChoice::named && !grammar.has(use.name))
    return bad_field("tool_choice", "there is no tool called '" + use.name + "'");
  if (must_call && grammar.empty()) return bad_field("tool_choice", "a call is demanded, but there are no tools");
  if (use.choice == ToolChoice::none || grammar.empty()) return std::nullopt;
  if (!format.calls) {
    if (!must_call) return std::nullopt;
    return Error{.code = ErrorCode::unsupported,
                 .what = "the model's chat template shows no tool calls",
                 .where = "tool_choice",
                 .hint = "use a model that is made for tools, or response_format"};
  }
  const std::string only = use.choice == ToolChoice::named ? use.name : std::string();
  GrammarSequence parts;
  ToolConstraint out;
  if (format.messages == MessageFormat::recipient && !format.recipient_start.empty()) {
    if (!must_call) return std::nullopt;
    const std::string separator(trim_space(format.calls->separator));
    const std::string_view start = trim_space(format.recipient_start);
    parts.push_back(grammar.thoughts(
        format, separator.substr(format.reasoning_end.size(), separator.rfind(start) - format.reasoning_end.size())));
    parts.push_back(few_spaces());
    parts.push_back(literal(start));
    append(parts, grammar.section(only, use.parallel));
  } else if (format.messages == MessageFormat::harmony) {
    if (must_call) parts.push_back(grammar.thoughts(format, "<|start|>assistant"));
    append(parts, grammar.harmony_call(only, !must_call));
    if (!must_call) out.triggers.words = {"to=functions."};
  } else if (must_call) {
    parts.push_back(grammar.thoughts(format, {}));
    parts.push_back(few_spaces());
    append(parts, grammar.section(only, use.parallel));
  } else if (const std::string marker = format.calls->marker(); !marker.empty()) {
    parts = grammar.section(only, use.parallel);
    out.triggers = triggers_at(marker, tokenizer);
  } else if (format.calls->syntax == CallSyntax::json) {
    parts = grammar.bare_or_text(use.parallel);
  } else {
    return std::nullopt;
  }
  out.grammar = TRY(Grammar::from_parts(parts, options));
  return out;
}

}  // namespace tokamak::server
