// Thoughts that a client has had enough of.
#include <gtest/gtest.h>

#include "model_server_helpers.h"

namespace tokamak::test {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view kPath = "/v1/chat/completions/control";

struct Stream {
  std::string path, start;  // the beginning of the id, as it stands in the stream
  Json body;
};

// Until the control comes in time: the tiny model thinks fast.
std::string stream_with_control(const ModelServer& server, const Stream& stream) {
  for (int i = 0; i < 20; ++i) {
    const std::string text = stream.body.dump();
    RawClient client(server.port());
    client.send("POST " + stream.path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: " +
                std::to_string(text.size()) + "\r\n\r\n" + text);
    std::string all = client.read_until(stream.start);
    all += client.read_until("\"");
    const std::string id =
        stream.start.substr(stream.start.rfind('"') + 1) + all.substr(all.rfind(stream.start) + stream.start.size());
    const Reply reply = server.post(kPath, {{"id", id.substr(0, id.size() - 1)}, {"action", "reasoning_end"}});
    all += client.read_all();
    if (reply.status == 200 && all.find("\"D\"") != all.npos) return all;  // the answer's first letter
  }
  return "";
}

TEST(Control, EndsThoughtsOfAllDialects) {
  const ModelServer server({.chat_template = std::string(kThinkingTemplate)}, 4096);
  const Json common = {
      {"stream", true}, {"temperature", 0}, {"chat_template_kwargs", {{"enable_thinking", true}}}, {"regex", "Done"}};
  const Json messages = {{{"role", "user"}, {"content", "hi"}}};
  Stream chat{"/v1/chat/completions", "\"id\":\"chatcmpl-", common};
  chat.body["messages"] = messages;
  Stream responses{"/v1/responses", "\"id\":\"resp_", common};
  responses.body["input"] = "hi";
  Stream anthropic{"/v1/messages", "\"id\":\"msg_", common};
  anthropic.body.update({{"messages", messages}, {"max_tokens", 4000}});
  for (const Stream& stream : {chat, responses, anthropic}) {
    std::string text;
    for (const StreamEvent& event :
         stream_events({.status = 200, .head = {}, .body = stream_with_control(server, stream)})) {
      const Json& e = event.data;
      if (e.contains("choices")) text += e["choices"][0]["delta"].value("content", "");
      if (e.value("type", "") == "response.output_text.delta") text += e["delta"].get<std::string>();
      if (e.value("type", "") == "content_block_delta") text += e["delta"].value("text", "");
    }
    EXPECT_EQ(text, "Done") << stream.path;
  }
}

TEST(Control, RefusesWhatItDoesNotKnow) {
  const ModelServer server;
  EXPECT_EQ(server.refusal(kPath, {{"id", "chatcmpl-x"}, {"action", "reasoning_end"}}, 404)["param"], "id");
  EXPECT_EQ(server.refusal(kPath, {{"id", "x"}, {"action", "dance"}})["param"], "action");
  EXPECT_EQ(server.refusal(kPath, {{"action", "reasoning_end"}})["param"], "id");
}

}  // namespace
}  // namespace tokamak::test
