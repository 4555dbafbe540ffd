#include "server/program/common_options.h"

#include <string>

namespace gradstream {

void add_config_options(CLI::App* verb, CommonOptions* common) {
  verb->add_option("--config", common->config,
                   std::string("the configuration file (TOML); without it ") + kInstalledConfig + " if that is there")
      ->envname("GRADSTREAM_CONFIG");
  verb->add_option("--set", common->overrides, "SECTION.KEY=VALUE, instead of what the file says; repeatable")
      ->allow_extra_args(false);
}

void add_format_option(CLI::App* verb, CommonOptions* common) {
  verb->add_option("--format", common->format, "of what is printed: text, or json with one object a line")
      ->check(CLI::IsMember({"text", "json"}));
}

}  // namespace gradstream
