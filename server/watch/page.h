// The web page of the HTTP port: files of server/watch/page and uPlot, which the build puts into the program.
//
// They are the same for every run and say nothing of it, so that a browser may have them without a token. They fetch
// what they show from /status and /status/devices, with the token that the user gives them.
#ifndef GRADSTREAM_SERVER_WATCH_PAGE_H_
#define GRADSTREAM_SERVER_WATCH_PAGE_H_

#include <span>
#include <string_view>

#include "server/watch/http.h"

namespace gradstream {

struct PageFile {
  std::string_view path;  // of the request, such as "/page.css"
  std::string_view content;
};

// All of them; "/" is the page. Made by cmake/embed_page.cmake.
std::span<const PageFile> page_files();

bool is_page_path(std::string_view path);
// 404 for a path that is none of them.
HttpResponse page_response(std::string_view path);

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_WATCH_PAGE_H_
