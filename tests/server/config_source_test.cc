// Files that cannot be a configuration are refused without waiting, and variables of others are told apart.
#include "server/program/config_source.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/program/config.h"
#include "server/program/toml_document.h"
#include "tests/support/as_nobody.h"

namespace gradstream {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Folder {
 public:
  Folder() : path_(testing::TempDir() + "source_XXXXXX") { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string problem_of(const std::string& path) {
  std::string bytes;
  return read_config_file(path, &bytes).sentence;
}

TEST(ConfigSource, WhatIsNoFileIsRefusedAtOnce) {
  const Folder folder;
  EXPECT_EQ(problem_of(folder.path("")), "it is a folder");
  EXPECT_EQ(problem_of(folder.path("none")), "No such file or directory");
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(problem_of(folder.path("pipe")), HasSubstr("a pipe, a socket or a device"));
  EXPECT_THAT(problem_of("/dev/zero"), HasSubstr("a pipe, a socket or a device"));
  std::filesystem::create_symlink("loop", folder.path("loop"));
  EXPECT_THAT(problem_of(folder.path("loop")), HasSubstr("symbolic links"));
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {AF_UNIX, {}};
  folder.path("socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_NE(problem_of(folder.path("socket")), "");
  close(listener);
}

TEST(ConfigSource, AFileIsReadUpToItsBound) {
  const Folder folder;
  const std::string path = folder.path("file");
  std::ofstream(path) << std::string("a\0b", 3);
  std::string bytes;
  EXPECT_EQ(read_config_file(path, &bytes).sentence, "");
  EXPECT_EQ(bytes, std::string("a\0b", 3));
  std::filesystem::resize_file(path, kTomlSizeMax);
  EXPECT_EQ(problem_of(path), "");
  std::filesystem::resize_file(path, uintmax_t{5} << 30);  // a hole: it takes no disk
  EXPECT_EQ(problem_of(path), "it has more than 1048576 bytes");
}

TEST(ConfigSource, FragmentsComeByNameAndNoFolderIsNoError) {
  const Folder folder;
  std::vector<std::string> found;
  std::vector<std::string> ignored;
  EXPECT_EQ(config_fragments(folder.path("fleet.toml"), &found, &ignored).sentence, "");
  EXPECT_TRUE(found.empty());
  std::filesystem::create_directory(folder.path("conf.d"));
  for (const char* const name : {"b.toml", "a.toml", "c.txt", ".a.toml.swp"}) {
    std::ofstream(folder.path("conf.d/") + name);
  }
  EXPECT_EQ(config_fragments(folder.path("fleet.toml"), &found, &ignored).sentence, "");
  EXPECT_THAT(found, ElementsAre(folder.path("conf.d/a.toml"), folder.path("conf.d/b.toml")));
  EXPECT_THAT(ignored, ElementsAre(HasSubstr("conf.d/c.txt is not read, as its name does not end with .toml; rename")));
}

TEST(ConfigSource, AConfDThatIsNoFolderIsTold) {
  const Folder folder;
  std::vector<std::string> found, ignored;
  std::ofstream(folder.path("conf.d"));
  EXPECT_THAT(config_fragments(folder.path("fleet.toml"), &found, &ignored).sentence,
              HasSubstr("conf.d is no folder; put"));
}

TEST(ConfigSource, EveryProblemOfAFragmentIsTold) {
  const Folder folder;
  std::filesystem::create_directories(folder.path("conf.d/folder.toml"));
  ASSERT_EQ(mkfifo(folder.path("conf.d/pipe.toml").c_str(), 0600), 0);
  std::filesystem::create_symlink("nowhere", folder.path("conf.d/link.toml"));
  std::ofstream(folder.path("conf.d/wrong.toml")) << "[.run]\n";
  Config config;
  const std::string errors = load_config(folder.path("none.toml"), {}, &config).sentence;
  for (const char* const expected :
       {"none.toml cannot be read: No such file", "folder.toml cannot be read: it is a folder",
        "link.toml cannot be read: No such file", "pipe.toml cannot be read: it is a pipe", "wrong.toml:1: "}) {
    EXPECT_THAT(errors, HasSubstr(expected));
  }
  for (const char* const fragment : {"folder.toml", "link.toml", "pipe.toml"}) {
    const size_t at = errors.find(fragment);
    EXPECT_THAT(errors.substr(at, errors.find('\n', at) - at), HasSubstr("move it out of conf.d"));
  }
}

TEST(ConfigSource, WhatMayNotBeReadIsToldAndHidesNothing) {
  if (!AsNobody::is_possible()) {
    GTEST_SKIP() << "only root can become somebody else";
  }
  const Folder folder;
  std::filesystem::permissions(folder.path(""), std::filesystem::perms::all);
  std::ofstream(folder.path("fleet.toml")) << "[run]\nrow = 1\n";
  std::ofstream(folder.path("secret.toml")) << "[run]\n";
  std::filesystem::permissions(folder.path("secret.toml"), std::filesystem::perms::owner_all);
  std::filesystem::create_directory(folder.path("conf.d"));
  std::filesystem::permissions(folder.path("conf.d"), std::filesystem::perms::owner_all);
  const AsNobody nobody;
  EXPECT_EQ(problem_of(folder.path("secret.toml")), "Permission denied");
  Config config;
  const std::string errors = load_config(folder.path("fleet.toml"), {}, &config).sentence;
  EXPECT_THAT(errors, HasSubstr("fleet.toml:2: unknown key run.row"));
  EXPECT_THAT(errors, HasSubstr("conf.d cannot be read: Permission denied; check its permissions\n"));
}

TEST(ConfigSource, VariablesOfAServiceAreToldByTheirForm) {
  const std::pair<const char*, const char*> made[] = {
      {"GRADSTREAM_SERVICE_HOST", "10.0.0.5"},
      {"GRADSTREAM_SERVICE_PORT", "7433"},
      {"GRADSTREAM_SERVICE_PORT_DEVICES", "7433"},
      {"GRADSTREAM_PORT", "tcp://10.0.0.5:7433"},
      {"GRADSTREAM_PORT_7433_TCP", "tcp://10.0.0.5:7433"},
      {"GRADSTREAM_PORT_7433_TCP_PROTO", "tcp"},
      {"GRADSTREAM_PORT_7433_TCP_PORT", "7433"},
      {"GRADSTREAM_PORT_53_UDP_ADDR", "10.0.0.5"},
      {"GRADSTREAM_SERVER_PORT_7433_SCTP_ADDR", "10.0.0.5"},
      {"GRADSTREAM_RUN_SERVICE_HOST", ""},
      {"GRADSTREAM_PORTAL_PORT", "tcp://10.0.0.5:80"},
      {"GRADSTREAM_SERVER_NAME", "/client/gradstream-server"},
      {"GRADSTREAM_SERVER_ENV_PATH", "/bin"},
  };
  for (const auto& [name, value] : made) {
    EXPECT_TRUE(is_service_variable(name, value)) << name;
  }
  const std::pair<const char*, const char*> others[] = {
      {"GRADSTREAM_PORT", "7433"},          {"GRADSTREAM_SERVER_PORT", ""},    {"GRADSTREAM_PORT_TCP", "x"},
      {"GRADSTREAM_PORT_7433", "x"},        {"GRADSTREAM_PORT_7433_FTP", "x"}, {"GRADSTREAM_PORT_7433_TCP_X", "x"},
      {"GRADSTREAM_SERVICE_PORTS", "x"},    {"GRADSTREAM_SERVER_LISTN", "x"},  {"GRADSTREAM_PORT_", "tcp://x"},
      {"GRADSTREAM_SERVER_NAME", "cellar"},
  };
  for (const auto& [name, value] : others) {
    EXPECT_FALSE(is_service_variable(name, value)) << name;
  }
  for (std::string key : config_keys()) {
    for (char& c : key) {
      c = c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    EXPECT_FALSE(is_service_variable("GRADSTREAM_" + key, "tcp://10.0.0.5:7433")) << key;
  }
}

TEST(ConfigSource, TheProcessHasItsVariables) {
  ASSERT_EQ(setenv("GRADSTREAM_TEST", "a=b", 1), 0);
  const std::vector<std::string> variables = process_environment();
  EXPECT_THAT(variables, testing::Contains("GRADSTREAM_TEST=a=b"));
  unsetenv("GRADSTREAM_TEST");
}

}  // namespace
}  // namespace gradstream
