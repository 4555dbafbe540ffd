#include "bench/lineage_program.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include <CLI/CLI.hpp>

#include "runtime/base/status.h"

namespace gradstream {

void assert_failed(const char* file, int line) {
  std::fprintf(stderr, "gradstream-lineage: %s:%d: assertion failed\n", file, line);
  std::abort();
}

int run_lineage_program(const char* name, const char* place_help, ReadLineageSource read_source, int argc,
                        char** argv) {
  CLI::App app(std::string(name) + ": folds the versions of a run again, from the records of gradstream-load");
  std::string place;
  std::vector<std::string> files;
  app.add_option("place", place, place_help)->required();
  app.add_option("files", files, "of gradstream-load --record and gradstream-client --record")->required();
  CLI11_PARSE(app, argc, argv);
  LineageCheck check;
  LineageSource source;
  Objection objection = read_source(place, &source);
  for (const std::string& file : files) {
    objection = objection ? objection : check.read(file);
  }
  objection = objection ? objection : check.check(source);
  if (objection) {
    std::fprintf(stderr, "%s: error: %s\n", name, objection.sentence.c_str());
    return 2;
  }
  for (const std::string& finding : check.findings()) {
    std::printf("%s\n", finding.c_str());
  }
  const LineageFigures& figures = check.figures();
  const auto number = [](uint64_t value) { return std::to_string(value); };
  std::printf("result: acked=%s refused=%s versions=%s lost=%s doubled=%s unrecorded=%s foreign=%s digests_wrong=%s\n",
              number(figures.acked).c_str(), number(figures.refused).c_str(), number(figures.versions).c_str(),
              number(figures.lost).c_str(), number(figures.doubled).c_str(), number(figures.unrecorded).c_str(),
              number(figures.foreign).c_str(), number(figures.digests_wrong).c_str());
  return figures.is_sound() ? 0 : 1;
}

}  // namespace gradstream
