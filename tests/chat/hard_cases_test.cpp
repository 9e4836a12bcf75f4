// Hard cases 13, 15, 16, 17, and the bounds that hold against hostile templates.
#include <gtest/gtest.h>

#include "chat/chat_template.h"
#include "chat/golden_helpers.h"

namespace tokamak {
namespace {

ChatRequest request_of(std::string_view messages) {
  ChatRequest request;
  auto parsed = parse_messages(Json::parse(messages));
  EXPECT_TRUE(parsed) << parsed.error().message();
  if (parsed) request.messages = std::move(*parsed);
  return request;
}

Result<std::string> render(std::string source, const ChatRequest& request = {}) {
  auto chat = ChatTemplate::parse(std::move(source), "<s>", "</s>");
  if (!chat) return chat.error();
  return chat->render(request);
}

ErrorCode code_of(const Result<std::string>& result) { return result ? ErrorCode::count_ : result.error().code; }

TEST(HardCase13, TojsonTakesPythonsArguments) {
  ChatRequest request;
  request.tools = {Json::parse(R"({"function": {"name": "f", "description": "naïve → 你好"}})")};
  EXPECT_EQ(*render("{{ tools[0] | tojson(ensure_ascii=False) }}", request),
            R"({"function": {"name": "f", "description": "naïve → 你好"}})");
  EXPECT_EQ(*render("{{ tools[0] | tojson(separators=(',',':')) }}", request),
            R"({"function":{"name":"f","description":"naïve → 你好"}})");
  EXPECT_EQ(*render("{{ tools[0] | tojson(sort_keys=True, ensure_ascii=true) }}", request),
            R"({"function": {"description": "na\u00efve \u2192 \u4f60\u597d", "name": "f"}})");
  EXPECT_EQ(*render("{{ tools[0] | tojson(indent=2) }}", request),
            "{\n  \"function\": {\n    \"name\": \"f\",\n    \"description\": \"naïve → 你好\"\n  }\n}");
}

TEST(HardCase13, UnknownArgumentIsFoundAtLoad) {
  const auto chat = ChatTemplate::parse("line\n{{ 1 | tojson(pretty=true) }}", "", "");
  ASSERT_FALSE(chat);
  EXPECT_EQ(chat.error().code, ErrorCode::bad_template);
  EXPECT_NE(chat.error().message().find("line 2"), std::string::npos) << chat.error().message();
  EXPECT_NE(chat.error().message().find("'pretty'"), std::string::npos);
  // Inside a branch Jinja loads the template; we do, too, and warn.
  const auto branch = ChatTemplate::parse("a{% if tools %}{{ 1 | tojson(pretty=true) }}{% endif %}", "", "");
  ASSERT_TRUE(branch);
  EXPECT_EQ(branch->warnings().size(), 1u);
  EXPECT_EQ(*branch->render({}), "a");
}

TEST(HardCase15, UnsupportedConstructsNameThemselvesAndTheirLine) {
  for (const std::string_view tag : {"include 'x'", "import 'x' as y", "from 'x' import y", "extends 'x'", "block b"}) {
    const auto chat = ChatTemplate::parse("a\n\n{% " + std::string(tag) + " %}", "", "");
    ASSERT_FALSE(chat) << tag;
    EXPECT_EQ(chat.error().code, ErrorCode::unsupported);
    EXPECT_NE(chat.error().message().find("line 3"), std::string::npos) << chat.error().message();
    EXPECT_NE(chat.error().what.find(tag.substr(0, tag.find(' '))), std::string::npos);
  }
}

TEST(HardCase16, RaiseExceptionReachesTheCaller) {
  const ChatRequest request = request_of(R"([{"role": "user", "content": "a"}, {"role": "user", "content": "b"},
    {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}, {"role": "assistant", "content": "e"}])");
  const auto prompt = render(
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('Roles must alternate!') }}{% endif %}{{ m.content }}{% endfor %}",
      request);
  ASSERT_FALSE(prompt);
  EXPECT_EQ(prompt.error().code, ErrorCode::template_refused);
  EXPECT_EQ(prompt.error().what, "Roles must alternate!");
}

constexpr std::string_view kCallTemplates[] = {
    // Needs a string.
    "{% for m in messages %}[{{ m.role + ':' + m.content }}{% for c in m.tool_calls or [] %}<{{ c.function.name }}"
    "{{ c.function.arguments.city }}>{% endfor %}]{% endfor %}",
    // Takes calls only beside None.
    "{% for m in messages %}[{{ m.role }}{% if m.content is none %}{% for c in m.tool_calls %}<{{ c.function.name }}"
    "{{ c.function.arguments.city }}>{% endfor %}{% else %}{{ m.content }}{% endif %}]{% endfor %}",
    // Takes calls only when there is no content at all.
    "{% for m in messages %}[{{ m.role }}{% if 'content' in m %}{{ m.content }}{% else %}{% for c in m.tool_calls %}<"
    "{{ c.function.name }}{{ c.function.arguments.city }}>{% endfor %}{% endif %}]{% endfor %}",
};

TEST(HardCase17, EmptyContentHasFourSpellingsAndOnePrompt) {
  for (const std::string_view source : kCallTemplates) {
    SCOPED_TRACE(source);
    for (const std::string_view arguments : {R"("{\"city\": \"Oslo\"}")", R"({"city": "Oslo"})"}) {
      std::string first;
      for (const std::string_view content : {"", R"("content": null,)", R"("content": "",)", R"("content": [],)"}) {
        const ChatRequest request =
            request_of(R"([{"role": "user", "content": "w?"}, {"role": "assistant", )" + std::string(content) +
                       R"("tool_calls": [{"id": "1", "type": "function", "function": {"name": "get", "arguments": )" +
                       std::string(arguments) + R"(}}]}, {"role": "tool", "content": [{"type": "text", "text": "r1"},
            {"type": "text", "text": "r2"}], "tool_call_id": "1"}, {"role": "user", "content": "thx"}])");
        const auto prompt = render(std::string(source), request);
        ASSERT_TRUE(prompt) << prompt.error().message();
        EXPECT_NE(prompt->find("<getOslo>"), std::string::npos) << *prompt;
        EXPECT_NE(prompt->find("r1\nr2"), std::string::npos) << *prompt;
        EXPECT_EQ(prompt->find("None"), std::string::npos);
        if (first.empty()) first = *prompt;
        EXPECT_EQ(*prompt, first);
      }
    }
  }
}

TEST(HardCase17, ArgumentsAreAnObjectOrRefused) {
  const std::string source = "{% for m in messages %}{{ m.tool_calls[0].function.arguments | tojson }}{% endfor %}";
  const auto with_arguments = [&](std::string_view arguments) {
    return render(source,
                  request_of(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": )" +
                             std::string(arguments) + "}}]}]"));
  };
  EXPECT_EQ(*with_arguments(R"("{\"b\": 1, \"a\": [2.0, null]}")"), R"({"b": 1, "a": [2.0, null]})");
  EXPECT_EQ(*with_arguments(R"("")"), "{}");
  EXPECT_EQ(*with_arguments("null"), "{}");
  for (const std::string_view bad : {R"("{\"b\": ")", R"("[1]")", "[1]", "7", R"("{\"n\": 1e999}")"}) {
    const auto prompt = with_arguments(bad);
    EXPECT_EQ(code_of(prompt), ErrorCode::bad_argument) << bad;
    if (prompt) continue;
    EXPECT_NE(prompt.error().message().find("messages[0].tool_calls[0]"), std::string::npos);
  }
}

TEST(Content, PartsAreJoinedWhenTheTemplateTakesTextOnly) {
  const std::string source = "{% for m in messages %}{{ '>' + m.content }}{% endfor %}";
  EXPECT_EQ(*render(source, request_of(R"([{"role": "user", "content": [{"type": "text", "text": "a"}, "b"]}])")),
            ">a\nb");
  const auto image =
      render(source, request_of(R"([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}])"));
  EXPECT_EQ(code_of(image), ErrorCode::bad_argument);
  EXPECT_NE(image.error().what.find("image_url"), std::string::npos);
}

TEST(Messages, BadFieldsAreNamed) {
  for (const std::string_view bad :
       {R"({})", R"([7])", R"([{"content": "x"}])", R"([{"role": 5}])", R"([{"role": "user", "content": 5}])",
        R"([{"role": "user", "content": [5]}])", R"([{"role": "user", "content": [{"type": "text"}]}])",
        R"([{"role": "a", "tool_calls": 1}])", R"([{"role": "a", "tool_calls": [{"function": {}}]}])"}) {
    const auto messages = parse_messages(Json::parse(bad));
    ASSERT_FALSE(messages) << bad;
    EXPECT_EQ(messages.error().code, ErrorCode::bad_argument);
    EXPECT_NE(messages.error().where.find("messages"), std::string::npos);
  }
}

TEST(ParseJson, DepthIsBounded) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth), "body"));
  for (const int depth : {kMaxJsonDepth + 2, 1000, 200'000}) {
    const auto json = parse_json(nested(depth), "body");
    ASSERT_FALSE(json) << depth;
    EXPECT_NE(json.error().what.find("nested"), std::string::npos);
  }
  EXPECT_FALSE(parse_json("[1e999]", "body"));
  EXPECT_FALSE(parse_json("{\"a\": \"\xFF\"}", "body"));
}

// Bodies that are cheap to send: the library looks names up one by one, and its parser with a callback looks through
// all elements so far at the end of each object.
TEST(ParseJson, ManyNamesAndManyObjectsCostLittle) {
  std::string wide = "{";
  for (int i = 0; i < 100'000; ++i) wide += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":0";
  const auto refused = parse_json(wide + "}", "body");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find("too many names"), std::string::npos);
  std::string list = "[{}";
  for (int i = 1; i < 300'000; ++i) list += R"(,{"a":1})";
  const auto read = parse_json(list + "]", "body");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->size(), 300'000);
  EXPECT_EQ((*read)[299'999], (Json{{"a", 1}}));
}

TEST(ParseJson, ReadsWhatTheLibraryReads) {
  for (const std::string_view text :
       {R"({"b":[1,-2,3.5,18446744073709551615,true,null,"x",{}],"a":{"c":[]},"b":2})", "7", "\"\\u00fc\"", "[]"}) {
    const auto read = parse_json(text, "body");
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(read->dump(), Json::parse(text).dump());
  }
  for (const std::string_view text : {"", "{", "[1,]", "{\"a\"}", "1 2", "nul"}) EXPECT_FALSE(parse_json(text, "body"));
}

TEST(Continue, FinalMessageStaysOpen) {
  ChatRequest request =
      request_of(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "The answer "}])");
  request.add_generation_prompt = false;
  request.continue_final_message = true;
  EXPECT_EQ(*render(std::string(find_named_template("chatml")->source), request),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nThe answer ");
  const auto trimmed = render(std::string(find_named_template("llama3")->source), request);
  ASSERT_TRUE(trimmed);
  EXPECT_TRUE(trimmed->ends_with("\n\nThe answer")) << *trimmed;
}

// ---- hostile templates ----

TEST(Bounds, HostileTemplatesFailCleanly) {
  const std::string deep(100'000, '(');
  std::string nots = "{{ ";
  for (int i = 0; i < 50'000; ++i) nots += "not ";
  std::string sum = "{{ 1";
  for (int i = 0; i < 50'000; ++i) sum += "+1";
  std::string dots = "{{ x";
  for (int i = 0; i < 50'000; ++i) dots += ".a";
  std::string ifs;
  for (int i = 0; i < 50'000; ++i) ifs += "{% if 1 %}";
  const std::string hostile[] = {
      "{{ " + deep,
      "{{ " + std::string(100'000, '[') + " }}",
      nots + "1 }}",
      sum + " }}",
      dots + " }}",
      ifs,
      "{{ " + std::string(50'000, '-') + "1 }}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f() %}{% for i in [1] %}{% if 1 %}{% call f() %}{{ f() }}{% endcall %}{% endif %}{% endfor %}{{ "
      "caller() }}{% endmacro %}{{ f() }}",
      "{% for i in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
      "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
      "{% set ns = namespace(s='aaaaaaaaaa') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
      "{{ 'a' * 10000000000 }}",
      "{{ [1] * 10000000000 }}",
      "{{ '%999999999d' % 1 }}",
      "{{ '{:999999999}'.format(1) }}",
      "{{ 'x' | center(9999999999) }}",
      "{{ 'a' | indent(9999999999, true) }}",
      "{{ 'a'.ljust(9999999999) }}",
      "{{ [1] | batch(9999999999, 1) | list }}",
      "{{ [1] | slice(9999999999) | list }}",
      "{{ ('ab' * 1000000).replace('a', 'x' * 1000000) }}",
      "{{ ('x' * 1000000) | replace('', 'y' * 100000) }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
      "{% set a = namespace(x=[1]) %}{% set b = namespace(x=[1]) %}{% for i in range(60) %}{% set a.x = [a.x, a.x] %}"
      "{% set b.x = [b.x, b.x] %}{% endfor %}{{ a.x == b.x }}",
      "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}",
      "{{ range(99999) | map('string') | map('upper') | unique | list | length }}",
      "{{ 2 ** 63 }}",
      "{{ 9223372036854775807 + 1 }}",
      "{{ (-9223372036854775807 - 1) // -1 }}",
  };
  for (const std::string& source : hostile) {
    SCOPED_TRACE(source.substr(0, 100));
    EXPECT_EQ(code_of(render(source)), ErrorCode::bad_template);
  }
}

TEST(Bounds, CyclesAreFreed) {  // the leak check of the sanitizer build is the judge
  EXPECT_TRUE(
      render("{% set ns = namespace() %}{% set ns.me = ns %}{% macro m() %}{{ ns }}{% endmacro %}{% set ns.m = m %}"
             "{% for i in [1, 2] %}{% if loop.changed(loop) %}{% endif %}{% macro k() %}{{ loop }}{% endmacro %}"
             "{% set ns.k = k %}{% set ns.loop = loop %}{% endfor %}"));
  EXPECT_TRUE(
      render("{% set ns = namespace(c=1, f=1) %}{% for i in range(150) %}{% set ns.c = cycler(ns.c) %}{% endfor %}"));
}

TEST(NamedTemplates, AllLoadAndKeepTheirNames) {
  for (const NamedTemplate& named : named_templates()) {
    EXPECT_TRUE(ChatTemplate::parse(std::string(named.source), "<s>", "</s>")) << named.name;
    EXPECT_EQ(find_named_template(named.name), &named);
  }
  EXPECT_EQ(find_named_template("nonesuch"), nullptr);
}

}  // namespace
}  // namespace tokamak
