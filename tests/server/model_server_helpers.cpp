#include "model_server_helpers.h"

#include <gtest/gtest.h>

namespace tokamak::test {

using Json = nlohmann::ordered_json;

const std::string_view kThinkingTemplate =
    R"({%- if tools %}<tools>{{ tools | tojson }}</tools>{% endif -%}
{%- for m in messages -%}
<{{ m.role }}>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif -%}
{{ m.content }}
{%- for c in m.tool_calls or [] %}<tool_call>
{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}
</tool_call>{% endfor %}<end>
{% endfor -%}
{%- if add_generation_prompt %}<assistant>{% if enable_thinking %}<think>{% endif %}{% endif -%}
)";

ModelServer::ModelServer(const ChatModel& chat, int64_t n_ctx, server::ServerOptions options, ServiceOptions service,
                         DeviceScript* script) {
  auto model = Model::open(chat_model(chat));
  EXPECT_TRUE(model) << model.error().message();
  SessionOptions session_options{
      .n_threads = 1, .n_ctx = n_ctx, .n_kv = 4 * n_ctx, .n_batch = 64, .n_sequences = service.n_parallel};
  if (script) session_options.wrap_backend = wrap_with(*script);
  auto session = Session::create(*model, std::move(session_options));
  EXPECT_TRUE(session) << session.error().message();
  options.http.port = 0;
  auto server = server::Server::start(*std::move(session), ChatTemplate::parse(chat.chat_template, "<s>", "</s>"),
                                      service, options);
  EXPECT_TRUE(server) << server.error().message();
  server_ = *std::move(server);
}

Reply ModelServer::post(std::string_view path, const Json& body, std::string_view headers) const {
  return fetch(port(), "POST", path, body.dump(), headers);
}

Json ModelServer::ask(std::string_view path, const Json& body) const {
  const Reply reply = post(path, body);
  EXPECT_EQ(reply.status, 200) << path << body << reply.body;
  return Json::parse(reply.body, nullptr, false);
}

Json ModelServer::refusal(std::string_view path, const Json& body, int status) const {
  const Reply reply = post(path, body);
  EXPECT_EQ(reply.status, status) << path << body << reply.body;
  const Json json = Json::parse(reply.body, nullptr, false);
  return json.is_object() ? json.value("error", Json()) : Json();
}

std::vector<StreamEvent> stream_events(const Reply& reply) {
  std::vector<StreamEvent> out;
  constexpr std::string_view kEvent = "event: ", kData = "data: ";
  const std::string& body = reply.body;
  for (size_t at = 0; (at = body.find(kData, at)) != body.npos;) {
    const size_t end = body.find("\n\n", at);
    const std::string text = body.substr(at + kData.size(), end - at - kData.size());
    StreamEvent event;
    const size_t name = at == 0 ? body.npos : body.rfind('\n', at - 2);
    if (name != body.npos && body.compare(name + 1, kEvent.size(), kEvent) == 0)
      event.name = body.substr(name + 1 + kEvent.size(), at - name - 2 - kEvent.size());
    if (text != "[DONE]") {
      event.data = Json::parse(text, nullptr, false);
      EXPECT_FALSE(event.data.is_discarded()) << text;
      out.push_back(std::move(event));
    }
    at = end;
  }
  return out;
}

}  // namespace tokamak::test
