// libFuzzer: any text as an answer in the format of some template. The first byte picks the format, the second seeds
// the places where the text is cut. The same text must give the same deltas for any pieces; texts are whole characters.
#include "fuzz_target.h"

#include <string>
#include <vector>

#include "base/utf8.h"
#include "server/reply.h"

namespace {
using namespace tokamak;
using server::ReplyDelta;

// One turn of a template, in few words: %n name, %a arguments, %k %v parameters one by one.
std::string source(const std::string& open, const std::string& call, const std::string& close) {
  return "{%- for m in messages %}{%- if m.role != 'assistant' %}[{{ m.content }}]{%- else %}{{ 'A:' }}"
         "{%- if m.reasoning_content %}{{ '<think>' + m.reasoning_content + '</think>' }}{%- endif %}{{ m.content }}"
         "{%- if m.tool_calls %}{{ '" +
         open + "' }}{%- for c in m.tool_calls %}{%- set f = c.function %}" + call + "{%- endfor %}{{ '" + close +
         "' }}{%- endif %}{{ 'END' }}{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{ 'A:' }}{%- endif %}";
}

std::vector<ReplyFormat> make_formats() {
  const std::string json = "{{ '{\"name\": \"' + f.name + '\", \"arguments\": ' + f.arguments | tojson + '}' }}";
  const std::string each = "{%- for k, v in f.arguments.items() %}";
  std::vector<ReplyFormat> out;
  for (
      const std::string& text :
      {source("", "{{ '<c>' }}" + json + "{{ '</c>' }}", ""),
       source("<cs>[", json + "{{ ',' if not loop.last }}", "]</cs>"), source("", json, ""),
       source("", "{{ f.name + '\\n' + f.arguments | tojson + '\\n' }}", ""),
       source("<cs>", "{{ '<c>' + f.name + '<a>' + f.arguments | tojson + '</c>' }}", "</cs>"),
       source(
           "",
           "{{ '<c>' + f.name + '\\n' }}" + each + "{{ '<k>' + k + '</k><v>' + v + '</v>' }}{%- endfor %}{{ '</c>' }}",
           ""),
       source("<cs>",
              "{{ '<c=' + f.name + '>' }}" + each + "{{ '<' + k + '>' + v + '</' + k + '>' }}{%- endfor %}{{ '</c>' }}",
              "</cs>"),
       source("<cs>[",
              "{{ f.name + '(' }}" + each +
                  "{{ k + '=' + v | tojson }}{{ ', ' if not loop.last }}{%- endfor %}{{ ')' }}{{ ', ' if not "
                  "loop.last }}",
              "]</cs>"),
       source("",
              "{{ '<c>' + f.name + '{' }}" + each +
                  "{{ k + ':<q>' + v + '<q>' }}{{ ',' if not loop.last }}{%- endfor %}{{ '}</c>' }}",
              ""),
       source("<cs>[",
              "{{ f.name + '(' }}" + each +
                  "{{ k + '=\\'' + v + '\\'' if v is string else v | tojson }}{{ ', ' if not loop.last }}{%- endfor %}"
                  "{{ ')' }}{{ ', ' if not loop.last }}",
              "]</cs>"),
       source("",
              "{{ '<c>' + f.name + '>' }}" + each +
                  "{{ '<k>' + k + '</k><v>' }}{{ '<![' + v + ']]>' if v is string and '<' in v else v }}{{ '</v>' }}"
                  "{%- endfor %}{{ '</c>' }}",
              ""),
       "{%- macro n(o) %}{%- for k, v in o.items() %}{{ '<' + k + '>' }}{%- if v is mapping %}{{ n(v) }}"
       "{%- elif v is iterable and v is not string %}{%- for i in v %}{{ '<item>' }}{{ i }}{{ '</item>' }}{%- endfor %}"
       "{%- else %}{{ v }}{%- endif %}{{ '</' + k + '>' }}{%- endfor %}{%- endmacro %}" +
           source("<cs>", "{{ '<c=' + f.name + '>' }}{{ n(f.arguments) }}{{ '</c>' }}", "</cs>"),
       "{%- for m in messages %}{%- if m.role != 'assistant' %}[{{ m.content }}]{%- else %}"
       "{%- if m.reasoning_content %}{{ '<s>A to=self<b>' + m.reasoning_content + '<e>' }}{%- endif %}"
       "{%- for c in m.tool_calls or [] %}{{ '<s>A to=' + c.function.name + '<b><c>' + c.function.name + '>' }}"
       "{%- for k, v in c.function.arguments.items() %}{{ '<p>' + k + '=' + v + '</p>' }}{%- endfor %}"
       "{{ '</c>' }}{{ '<e>' if not loop.last }}{%- endfor %}"
       "{%- if not m.tool_calls %}{{ '<s>A to=user<b>' + m.content }}{%- endif %}{{ '<end>' }}{%- endif %}"
       "{%- endfor %}{%- if add_generation_prompt %}{{ '<s>A' }}{%- endif %}" +
           std::string(),
       std::string("<|start|><|channel|><|message|>functions.")}) {
    auto chat_template = ChatTemplate::parse(text, "", "");
    if (chat_template) out.push_back(find_reply_format(*chat_template));
  }
  return out;
}

std::vector<ReplyDelta> read(const ReplyFormat& format, std::string_view text, const std::vector<size_t>& cuts) {
  OutputOptions options;
  server::set_reply_output(format, true, "", options);
  auto machine = OutputMachine::create(options);
  static const std::vector<Json> kTools = {{{"type", "function"},
                                            {"function",
                                             {{"name", "f"},
                                              {"parameters",
                                               {{"properties",
                                                 {{"s", {{"type", "string"}}},
                                                  {"n", {{"type", "integer"}}},
                                                  {"l", {{"type", "array"}, {"items", {{"type", "object"}}}}}}}}}}}}};
  server::ReplyParser parser(format, true, 3, kTools);
  std::vector<ReplyDelta> out;
  const auto take = [&](std::vector<ReplyDelta> deltas) {
    for (ReplyDelta& delta : deltas) {
      if (!is_valid_utf8(delta.text)) __builtin_trap();
      delta.id.clear();  // random
      const bool joins = !out.empty() && out.back().kind == delta.kind && out.back().call == delta.call &&
                         delta.kind != ReplyDelta::Kind::call;
      if (joins)
        out.back().text += delta.text;
      else
        out.push_back(std::move(delta));
    }
  };
  size_t at = 0;
  for (const size_t cut : cuts) {
    take(parser.push(machine->push(text.substr(at, cut - at))));
    at = cut;
  }
  take(parser.push(machine->push(text.substr(at))));
  take(parser.push(machine->finish()));
  take(parser.finish());
  return out;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n_bytes) {
  static const std::vector<ReplyFormat> formats = make_formats();
  if (n_bytes < 2) return 0;
  const ReplyFormat& format = formats[data[0] % formats.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, n_bytes - 2);
  std::vector<size_t> cuts;
  uint32_t random = data[1] + 1u;
  for (size_t i = 1; i < text.size(); ++i) {
    random = random * 1664525u + 1013904223u;
    if (data[1] == 0 || (random >> 24) % 4 == 0) cuts.push_back(i);
  }
  if (read(format, text, {}) != read(format, text, cuts)) __builtin_trap();
  return 0;
}
