// The floors of gradstream-client as options of its command line (docs/trust.md).
#ifndef GRADSTREAM_FIRMWARE_PRIVACY_POSIX_H_
#define GRADSTREAM_FIRMWARE_PRIVACY_POSIX_H_

#include <string>

#include <CLI/CLI.hpp>

#include "include/gradstream/device.h"

namespace gradstream {

struct PrivacyOptions {
  gs_privacy given = {};     // 0: the option is not there
  std::string sample_count;  // "": as well
  bool no_sums = false;      // gs_config.refuses_sums
  bool no_floors = false;
};

// Adds the options to the parser. *options outlives it.
void define_privacy(CLI::App& app, PrivacyOptions* options);
// The floors that they name. What --no-floors takes away another option puts back.
gs_privacy privacy_of(const PrivacyOptions& options);

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_PRIVACY_POSIX_H_
