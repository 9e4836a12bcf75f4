#include "chat/known_formats.h"

#include <algorithm>
#include <array>

namespace tokamak {

namespace {
using Kind = CallPiece::Kind;

void json_list(CallFormat& format, std::string_view open, std::string_view close) {
  format.syntax = CallSyntax::json;
  format.section_open = std::string(open) + "[";
  format.section_close = "]" + std::string(close);
  format.separator = ", ";
  format.call = {{Kind::text, "{\"name\": \""},
                 {Kind::name, {}},
                 {Kind::text, "\", \"arguments\": "},
                 {Kind::arguments, {}},
                 {Kind::text, "}"}};
}

constexpr auto kKnownFormats = std::to_array<KnownFormat>({
    {"lfm2", "<|tool_list_start|>",
     [](CallFormat& format) {
       format.syntax = CallSyntax::python;
       format.section_open = "<|tool_call_start|>[";
       format.section_close = "]<|tool_call_end|>";
       format.separator = format.parameter_separator = ", ";
       format.call = {{Kind::name, {}}, {Kind::text, "("}, {Kind::arguments, {}}, {Kind::text, ")"}};
     }},
    {"kimi_k2", "<|tool_calls_section_begin|>",
     [](CallFormat& format) {
       format.syntax = CallSyntax::named_json;
       format.section_open = "<|tool_calls_section_begin|>";
       format.section_close = "<|tool_calls_section_end|>";
       format.id_is_name = true;
       format.call = {{Kind::text, "<|tool_call_begin|>"},
                      {Kind::id, {}},
                      {Kind::text, "<|tool_call_argument_begin|>"},
                      {Kind::arguments, {}},
                      {Kind::text, "<|tool_call_end|>"}};
     }},
    {"gemma_function", "<start_function_call>",
     [](CallFormat& format) {
       format.syntax = CallSyntax::loose;
       format.quote = "<escape>";
       format.parameter_separator = ",";
       format.call = {{Kind::text, "<start_function_call>call:"},
                      {Kind::name, {}},
                      {Kind::text, "{"},
                      {Kind::arguments, {}},
                      {Kind::text, "}<end_function_call>"}};
     }},
    {"granite", "<|tool_call|>", [](CallFormat& format) { json_list(format, "<|tool_call|>", ""); }},
    {"phi4_mini", "<|tool|>", [](CallFormat& format) { json_list(format, "<|tool_call|>", "<|/tool_call|>"); }},
    {"firefunction", "functools[", [](CallFormat& format) { json_list(format, "functools", ""); }},
    {"hermes", "<tool_call>",
     [](CallFormat& format) {
       json_list(format, "", "");
       format.section_open.clear();
       format.section_close.clear();
       format.separator = "\n";
       format.call.front().text.insert(0, "<tool_call>\n");
       format.call.back().text += "\n</tool_call>";
     }},
});
}  // namespace

const KnownFormat* find_known_format(std::string_view source) {
  const auto* known = std::find_if(kKnownFormats.begin(), kKnownFormats.end(), [&](const KnownFormat& row) {
    return source.find(row.in_source) != std::string_view::npos;
  });
  return known == kKnownFormats.end() ? nullptr : known;
}

}  // namespace tokamak
