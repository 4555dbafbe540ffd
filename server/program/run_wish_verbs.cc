#include "server/program/run_wish_verbs.h"

#include "server/program/common_options.h"

namespace gradstream {

void add_run_wish_verbs(CLI::App* run, const FollowRunWish& does, RunWishArguments* arguments, int* code) {
  const auto add = [=](const char* name, const char* text, RunWish wish) {
    CLI::App* const verb = run->add_subcommand(name, text);
    add_config_options(verb, &arguments->common);
    add_format_option(verb, &arguments->common);
    verb->add_option("--run", arguments->run, "its number; without it the active run, or the latest")
        ->check(CLI::PositiveNumber);
    verb->callback([=] { *code = does(arguments->common, arguments->run, wish); });
  };
  add("pause", "give no more tasks until it is resumed; answers still count", RunWish::kPause);
  add("resume", "go on with a paused run", RunWish::kResume);
  add("stop", "end a run for good; its model stays", RunWish::kStop);
}

int follow_run_wish(const CommonOptions& options, uint32_t run, RunWish wish,
                    const std::function<int()>& beside_engine) {
  Config config;
  if (const int code = load(options, &config); code != kExitOk) {
    return code;
  }
  if (!config.engine.address.empty()) {
    return beside_engine();
  }
  switch (wish) {
    case RunWish::kPause:
      return run_pause(options, run);
    case RunWish::kResume:
      return run_resume(options, run);
    case RunWish::kStop:
      break;
  }
  return run_stop(options, run);
}

}  // namespace gradstream
