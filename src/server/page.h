// The web page: plain files of page/, which the build puts into the program. No request reaches the file system.
#pragma once

#include <span>
#include <string_view>

#include "server/http.h"

namespace tokamak::server {

struct PageFile {
  std::string_view name;     // "index.html"
  std::string_view version;  // changes with the bytes
  std::string_view bytes;
};

std::span<const PageFile> page_files();

// The file that a path asks for: "/" is index.html, "/favicon.ico" icon.svg, others are "/page/NAME". Null: none.
const PageFile* find_page_file(std::string_view path);

// The file with its type, version and the headers that keep foreign scripts, frames and servers out; 304 without it
// when If-None-Match names the version; 404 for other paths.
HttpResponse page_response(const HttpRequest& request);

}  // namespace tokamak::server
