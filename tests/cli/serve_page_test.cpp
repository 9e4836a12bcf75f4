// The web page of a real process: found by the table of endpoints, served without a key, switched off by a setting.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cli/chat_model_helpers.h"
#include "cli/serve_helpers.h"

namespace tokamak::test {
namespace {

const std::filesystem::path kFolder = "src/server/page";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ServePage, IsServedWithoutAKeyThatItsRequestsNeed) {
  const ServeProcess server(chat_model(), {.flags = {"--ctx-size", "512", "--api-key", "secret"}});
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    EXPECT_EQ(server.get("/page/" + entry.path().filename().string()).body, read_file(entry.path())) << entry.path();
  EXPECT_EQ(server.get("/").body, read_file(kFolder / "index.html"));
  EXPECT_EQ(server.get("/favicon.ico").status, 200);
  EXPECT_EQ(server.get("/props").status, 401);
  EXPECT_EQ(server.get("/page/nothing.js").status, 404);
  EXPECT_EQ(server.get("/page/a/app.js").status, 404);
  EXPECT_EQ(server.post("/", {}).status, 405);
}

TEST(ServePage, HeadAnswersAsGetWithoutTheBody) {
  const ServeProcess server(chat_model(), {.flags = {"--ctx-size", "512"}});
  for (const char* path : {"/", "/page/app.js", "/health", "/v1/models"}) {
    const Reply head = fetch(server.port(), "HEAD", path);
    EXPECT_EQ(head.status, 200) << path;
    EXPECT_EQ(head.body, "") << path;
    EXPECT_NE(head.head.find("Content-Length: " + std::to_string(server.get(path).body.size())), std::string::npos)
        << path << "\n"
        << head.head;
  }
  EXPECT_EQ(fetch(server.port(), "HEAD", "/v1/completions").status, 405);
}

TEST(ServePage, IsSwitchedOffByASetting) {
  const ServeProcess server(chat_model(), {.flags = {"--ctx-size", "512", "--no-web-page"}});
  for (const char* path : {"/", "/favicon.ico", "/page/app.js"}) {
    const Reply reply = server.get(path);
    EXPECT_EQ(reply.status, 404) << path;
    EXPECT_NE(reply.body.find("--no-web-page"), std::string::npos) << reply.body;
  }
  EXPECT_EQ(server.get("/health").status, 200);
}

}  // namespace
}  // namespace tokamak::test
