// GET / and the files of the web page.
#include "server/page.h"

#include <fmt/format.h>

#include <array>

#include "server/dialect.h"
#include "server/endpoints.h"

namespace tokamak::server {

namespace {
constexpr auto kFiles = std::to_array<PageFile>({
#include "page_files.inc"
});

struct ContentType {
  std::string_view ending, type;
};
constexpr auto kTypes = std::to_array<ContentType>({
    {".html", "text/html; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".svg", "image/svg+xml"},
});

constexpr std::string_view type_of(std::string_view name) {
  for (const ContentType& row : kTypes)
    if (name.ends_with(row.ending)) return row.type;
  return {};
}
constexpr bool all_have_types() {
  for (const PageFile& file : kFiles)
    if (type_of(file.name).empty()) return false;
  return true;
}
static_assert(all_have_types());

// Everything comes from this server; images may also be made by the page itself. No text becomes script or markup.
// Source: W3C, Content Security Policy Level 3; Trusted Types.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'";

}  // namespace

std::span<const PageFile> page_files() { return kFiles; }

const PageFile* find_page_file(std::string_view path) {
  constexpr std::string_view kFolder = "/page/";
  const std::string_view name = path == "/"                 ? "index.html"
                                : path == "/favicon.ico"    ? "icon.svg"
                                : path.starts_with(kFolder) ? path.substr(kFolder.size())
                                                            : std::string_view();
  for (const PageFile& file : kFiles)
    if (file.name == name) return &file;
  return nullptr;
}

HttpResponse page_response(const HttpRequest& request) {
  const PageFile* file = find_page_file(request.path);
  if (!file) return error_response(Dialect::openai, 404, "there is no " + request.path);
  const std::string tag = fmt::format("\"{}\"", file->version);
  Headers headers = {{"ETag", tag},
                     {"Cache-Control", "no-cache"},  // asks each time, and mostly gets 304
                     {"Content-Security-Policy", std::string(kPolicy)},
                     {"X-Content-Type-Options", "nosniff"},
                     {"X-Frame-Options", "DENY"},
                     {"Referrer-Policy", "no-referrer"}};
  const std::string_view known = request.header("if-none-match");
  if (known == "*" || known.find(tag) != known.npos)
    return {.status = 304, .content_type = "", .headers = std::move(headers)};
  return {.content_type = std::string(type_of(file->name)),
          .body = std::string(file->bytes),
          .headers = std::move(headers)};
}

void web_page(const std::shared_ptr<Exchange>& exchange, ServerContext& context) {
  const HttpRequest& request = exchange->request();
  if (!context.options.web_page)
    return exchange->respond(error_response(Dialect::openai, 404, "the web page is switched off (--no-web-page)"));
  exchange->respond(page_response(request));
}

}  // namespace tokamak::server
