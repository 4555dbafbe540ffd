# Writes the files of the web page as C++ (server/watch/page.h declares what it defines).
#
#   cmake -D OUT=page_files.cc -D PAGE=server/watch/page [-D UPLOT=third_party/page/node_modules/uplot]
#     -P embed_page.cmake
#
# Without uPlot its two files are empty, and the page shows tables where charts would stand.

set(count 0)
set(rows "")

# content: in hexadecimal. Every array ends with a zero of its own, as an empty file would have no bytes.
function(embed path content)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${content}")
  file(APPEND ${OUT}.tmp "constexpr unsigned char kFile${count}[] = {${bytes}0};\n")
  set(rows "${rows}\n      {\"${path}\", text_of(kFile${count})}," PARENT_SCOPE)
  math(EXPR count "${count} + 1")
  set(count ${count} PARENT_SCOPE)
endfunction()

file(WRITE ${OUT}.tmp "#include \"server/watch/page.h\"

#include <array>

namespace gradstream {
namespace {

template <size_t N>
std::string_view text_of(const unsigned char (&bytes)[N]) {
  return {reinterpret_cast<const char*>(bytes), N - 1};
}

")

file(GLOB files LIST_DIRECTORIES false ${PAGE}/*.html ${PAGE}/*.css ${PAGE}/*.js ${PAGE}/*.svg)
list(SORT files)
foreach(file IN LISTS files)
  get_filename_component(path ${file} NAME)
  if(path STREQUAL "index.html")
    set(path "")
  endif()
  file(READ ${file} content HEX)
  embed("/${path}" "${content}")
endforeach()

set(script "")
set(style "")
if(UPLOT)
  file(READ ${UPLOT}/LICENSE licence HEX)
  file(READ ${UPLOT}/dist/uPlot.iife.min.js script HEX)
  file(READ ${UPLOT}/dist/uPlot.min.css style HEX)
  set(script "2f2a210a${licence}2a2f0a${script}")  # its licence asks to go with it: "/*!", the text, "*/"
endif()
embed(/uplot.js "${script}")
embed(/uplot.css "${style}")

file(APPEND ${OUT}.tmp "
}  // namespace

std::span<const PageFile> page_files() {
  static const auto files = std::to_array<PageFile>({${rows}
  });
  return files;
}

}  // namespace gradstream
")
file(RENAME ${OUT}.tmp ${OUT})
