// Where a configuration comes from: files, the folder conf.d and variables. server/program/config.h says what they
// mean.
#ifndef GRADSTREAM_SERVER_PROGRAM_CONFIG_SOURCE_H_
#define GRADSTREAM_SERVER_PROGRAM_CONFIG_SOURCE_H_

#include <string>
#include <string_view>
#include <vector>

#include "server/base/objection.h"

namespace gradstream {

// The bytes of the file, at most kTomlSizeMax. An objection says why it cannot be read: the words stand behind "cannot
// be read: ". It never waits: a pipe, a socket or a device might not answer, and is refused.
Objection read_config_file(const std::string& path, std::string* out);

// Puts conf.d/*.toml beside the file into *out, by name, and into *ignored a sentence for each other name there, hidden
// ones aside. No folder is no error. An objection: it is no folder, or cannot be read.
Objection config_fragments(const std::string& path, std::vector<std::string>* out, std::vector<std::string>* ignored);

// Whether a cluster or a container engine has made the variable, for a service whose name begins with "gradstream",
// such as gradstream-server. The forms are those of Kubernetes and of Docker's links. No key has such a variable.
bool is_service_variable(std::string_view name, std::string_view value);

// The variables of this process as "NAME=value".
std::vector<std::string> process_environment();

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_PROGRAM_CONFIG_SOURCE_H_
