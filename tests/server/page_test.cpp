// The web page as bytes: what is served where, with which headers. tools/page_test.py drives it in a browser.
#include "server/page.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "http_client_helpers.h"

namespace tokamak::server {
namespace {

using test::fetch;
using test::Reply;

const std::filesystem::path kFolder = "src/server/page";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class PageTest : public testing::Test {
 protected:
  void SetUp() override {
    HttpOptions options;
    options.port = 0;
    auto started = HttpServer::start(
        options,
        [](const std::shared_ptr<Exchange>& exchange) { exchange->respond(page_response(exchange->request())); },
        [](int status, std::string_view, std::string_view what) {
          return HttpResponse{.status = status, .body = std::string(what)};
        });
    ASSERT_TRUE(started) << started.error().message();
    server_ = std::move(*started);
  }
  Reply get(std::string_view path, std::string_view headers = {}, std::string_view method = "GET") {
    return fetch(server_->port(), method, path, {}, headers);
  }
  static std::string header(const Reply& reply, const std::string& name) {
    const size_t at = reply.head.find("\r\n" + name + ": ");
    if (at == std::string::npos) return {};
    const size_t start = at + name.size() + 4;
    return reply.head.substr(start, reply.head.find("\r\n", start) - start);
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(PageTest, ServesTheBytesOfEveryFile) {
  size_t n_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename();
    const Reply reply = get("/page/" + name);
    EXPECT_EQ(reply.status, 200) << name;
    EXPECT_EQ(reply.body, read_file(entry.path())) << name;
    EXPECT_FALSE(header(reply, "Content-Type").empty()) << name;
    ++n_files;
  }
  EXPECT_EQ(page_files().size(), n_files);
  EXPECT_EQ(get("/").body, read_file(kFolder / "index.html"));
  EXPECT_EQ(get("/favicon.ico").body, read_file(kFolder / "icon.svg"));
}

TEST_F(PageTest, HeadersKeepForeignCodeAndFramesOut) {
  const Reply reply = get("/");
  EXPECT_EQ(header(reply, "Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(header(reply, "X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(header(reply, "Cache-Control"), "no-cache");
  const std::string policy = header(reply, "Content-Security-Policy");
  for (const char* part : {"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
                           "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'"})
    EXPECT_NE(policy.find(part), std::string::npos) << part;
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(header(get("/page/app.js"), "Content-Type"), "text/javascript; charset=utf-8");
  EXPECT_EQ(header(get("/page/style.css"), "Content-Type"), "text/css; charset=utf-8");
  EXPECT_EQ(header(get("/favicon.ico"), "Content-Type"), "image/svg+xml");
}

TEST_F(PageTest, AKnownVersionIsNotSentAgain) {
  const std::string tag = header(get("/page/app.js"), "ETag");
  ASSERT_GT(tag.size(), 2u);
  for (const std::string& known : {tag, "W/" + tag, "\"other\", " + tag, std::string("*")}) {
    const Reply reply = get("/page/app.js", "If-None-Match: " + known + "\r\n");
    EXPECT_EQ(reply.status, 304) << known;
    EXPECT_EQ(reply.body, "");
    EXPECT_EQ(header(reply, "ETag"), tag);
  }
  EXPECT_EQ(get("/page/app.js", "If-None-Match: \"other\"\r\n").status, 200);
  EXPECT_NE(header(get("/page/chat.js"), "ETag"), tag);
}

TEST_F(PageTest, HeadHasTheLengthAndNoBody) {
  const Reply whole = get("/"), head = get("/", {}, "HEAD");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(header(head, "Content-Length"), std::to_string(whole.body.size()));
  EXPECT_EQ(header(head, "ETag"), header(whole, "ETag"));

  // The connection stays in step: the next answer follows at once.
  test::RawClient client(server_->port());
  client.send("HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET /page/icon.svg HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n").find("<!doctype"), std::string::npos);
  EXPECT_TRUE(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 200 OK"));
}

TEST_F(PageTest, OtherPathsLeadNowhere) {
  for (const char* path :
       {"/page/", "/page", "/page/app.js/", "/page/../page/app.js", "/page/%2e%2e/page.cpp", "/page//app.js",
        "/index.html", "/app.js", "/page/README.md", "/page/../../../../etc/passwd"})
    EXPECT_EQ(get(path).status, 404) << path;
}

// A page that asks nobody else: no address of another host in what a browser fetches.
TEST(Page, NamesNoOtherHost) {
  for (const PageFile& file : page_files())
    for (const std::string_view scheme : {"http://", "https://", "src=\"//", "url("})
      for (size_t at = file.bytes.find(scheme); at != file.bytes.npos; at = file.bytes.find(scheme, at + 1))
        EXPECT_TRUE(file.bytes.substr(at).starts_with("http://www.w3.org/")) << file.name << " at byte " << at;
}

TEST(Page, MakesNoMarkupFromText) {
  for (const PageFile& file : page_files())
    for (const std::string_view sink : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                                        "new Function", "DOMParser", "srcdoc", "createContextualFragment"})
      EXPECT_EQ(file.bytes.find(sink), file.bytes.npos) << file.name << ": " << sink;
}

}  // namespace
}  // namespace tokamak::server
