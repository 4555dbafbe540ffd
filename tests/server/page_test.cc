// What of the web page a browser does not have to show: tests/server/page_test.py has the rest.
#include "server/watch/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gradstream {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Page, EveryFileIsServedByItsPathAndType) {
  for (const auto& [path, type] : {std::pair<const char*, const char*>{"/", "text/html; charset=utf-8"},
                                   {"/page.css", "text/css; charset=utf-8"},
                                   {"/page.js", "text/javascript; charset=utf-8"},
                                   {"/uplot.js", "text/javascript; charset=utf-8"},
                                   {"/uplot.css", "text/css; charset=utf-8"},
                                   {"/icon.svg", "image/svg+xml"}}) {
    EXPECT_TRUE(is_page_path(path)) << path;
    const HttpResponse response = page_response(path);
    EXPECT_EQ(response.status, 200U) << path;
    EXPECT_EQ(response.type, type);
  }
  EXPECT_THAT(page_response("/").body, StartsWith("<!doctype html>"));
  for (const char* const path : {"", "/index.html", "/status", "/page.css/", "/../page.css"}) {
    EXPECT_FALSE(is_page_path(path)) << path;
    EXPECT_EQ(page_response(path).status, 404U) << path;
  }
}

// The answer's Content-Security-Policy would stop them in a browser; here they are not there at all.
TEST(Page, NothingComesFromElsewhereOrInline) {
  for (const PageFile& file : page_files()) {
    if (file.path.ends_with(".js") && file.path != "/uplot.js") {
      EXPECT_THAT(file.content, testing::Not(HasSubstr("innerHTML"))) << file.path;
      EXPECT_THAT(file.content, testing::Not(HasSubstr("://"))) << file.path;
    }
    if (file.path == "/") {
      for (const char* const word : {"style=", "onclick=", "://", "<style", "<script>"}) {
        EXPECT_THAT(file.content, testing::Not(HasSubstr(word)));
      }
    }
  }
}

TEST(Page, UplotComesWithItsLicence) {
  const std::string script = page_response("/uplot.js").body;
  if (script.empty()) {
    GTEST_SKIP() << "built without uPlot: ./run setup fetches it";
  }
  EXPECT_THAT(script, StartsWith("/*!\n"));
  EXPECT_THAT(script, HasSubstr("Permission is hereby granted, free of charge"));
  EXPECT_THAT(script, HasSubstr("uPlot"));
}

}  // namespace
}  // namespace gradstream
