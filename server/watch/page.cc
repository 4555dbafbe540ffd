#include "server/watch/page.h"

#include <algorithm>

namespace gradstream {

namespace {

const PageFile* find(std::string_view path) {
  const std::span<const PageFile> files = page_files();
  const auto found = std::find_if(files.begin(), files.end(), [&](const PageFile& file) { return file.path == path; });
  return found == files.end() ? nullptr : &*found;
}

const char* type_of(std::string_view path) {
  return path.ends_with(".css")   ? "text/css; charset=utf-8"
         : path.ends_with(".js")  ? "text/javascript; charset=utf-8"
         : path.ends_with(".svg") ? "image/svg+xml"
                                  : "text/html; charset=utf-8";
}

}  // namespace

bool is_page_path(std::string_view path) { return find(path) != nullptr; }

HttpResponse page_response(std::string_view path) {
  HttpResponse response;
  if (const PageFile* const file = find(path)) {
    response.status = 200;
    response.type = type_of(path);
    response.body = file->content;
  }
  return response;
}

}  // namespace gradstream
