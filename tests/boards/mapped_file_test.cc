#include "boards/posix/mapped_file.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gradstream {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSize = 300'000;  // many pages

class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "mapped_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string path = (path_ / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

std::string pattern_bytes() {
  std::string bytes(kSize, '\0');
  for (size_t i = 0; i < kSize; ++i) {
    bytes[i] = static_cast<char>(i * 31 >> 3);
  }
  return bytes;
}

TEST(MappedFile, HoldsTheBytesOfTheFile) {
  const Folder folder;
  const std::string bytes = pattern_bytes();
  const std::string path = folder.write("data.gsd", bytes);
  MappedFile file;
  ASSERT_TRUE(map_file(path.c_str(), &file));
  EXPECT_EQ(std::string(file.bytes.begin(), file.bytes.end()), bytes);
  EXPECT_FALSE(is_changed(file));
  unmap_file(&file);
  EXPECT_TRUE(file.bytes.empty());
  unmap_file(&file);
}

TEST(MappedFile, SaysWhatIsWrongWithAPath) {
  const Folder folder;
  MappedFile file;
  EXPECT_FALSE(map_file((folder.path() + "/none").c_str(), &file));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(map_file(folder.path().c_str(), &file));
  EXPECT_EQ(errno, EISDIR);
  EXPECT_FALSE(map_file(folder.write("empty", "").c_str(), &file));
  EXPECT_EQ(errno, ENODATA);
  EXPECT_EQ(file.descriptor, -1);
}

TEST(MappedFile, NoticesWhatIsDoneToTheFile) {
  const Folder folder;
  const auto changed_by = [&](auto change) {
    const std::string path = folder.write("data.gsd", pattern_bytes());
    const timespec times[2] = {{1000, 0}, {1000, 0}};  // a clock's tick may be longer than this test
    ::utimensat(AT_FDCWD, path.c_str(), times, 0);
    MappedFile file;
    EXPECT_TRUE(map_file(path.c_str(), &file));
    change(path);
    const bool is = is_changed(file);
    unmap_file(&file);
    return is;
  };
  EXPECT_FALSE(changed_by([](const std::string&) {}));
  EXPECT_TRUE(changed_by([](const std::string& path) { fs::resize_file(path, kSize / 2); }));
  EXPECT_TRUE(changed_by([](const std::string& path) { std::ofstream(path, std::ios::app) << "more"; }));
  EXPECT_TRUE(changed_by(
      [](const std::string& path) { std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << "other"; }));
  EXPECT_FALSE(changed_by([&](const std::string& path) { fs::rename(folder.write("new", "new"), path); }))
      << "another file under its name";
  EXPECT_FALSE(changed_by([](const std::string& path) { fs::remove(path); }));
}

MappedFileGuard guard_of(const MappedFile& file) {
  return {&file, "event=failed reason=\"cut short\"\n", "event=failed reason=\"changed\"\n", 4};
}

TEST(MappedFileDeathTest, AReadBeyondTheCutEndsByName) {
  const Folder folder;
  const std::string path = folder.write("data.gsd", pattern_bytes());
  EXPECT_EXIT(
      {
        MappedFile file;
        if (!map_file(path.c_str(), &file)) {
          std::_Exit(1);
        }
        guard_mapped_file(guard_of(file));
        fs::resize_file(path, 10);
        const volatile uint8_t* const last = &file.bytes.back();
        std::_Exit(*last == 0 ? 0 : 2);
      },
      testing::ExitedWithCode(4), "reason=\"cut short\"");
}

#if defined(__x86_64__)  // user-mode emulators do not pass the address of a queued signal on
// As the kernel says it where a page cannot be read: the address, in a file that is as long as ever.
TEST(MappedFileDeathTest, AFileThatCannotBeReadIsNoChange) {
  const Folder folder;
  const std::string path = folder.write("data.gsd", pattern_bytes());
  EXPECT_EXIT(
      {
        MappedFile file;
        if (!map_file(path.c_str(), &file)) {
          std::_Exit(1);
        }
        MappedFileGuard guard = guard_of(file);
        guard.failed_line = "event=failed reason=\"the disk\"\n";
        guard.failed_status = 10;
        guard_mapped_file(guard);
        siginfo_t info = {};
        info.si_signo = SIGBUS;
        info.si_code = SI_QUEUE;
        info.si_addr = const_cast<uint8_t*>(file.bytes.data() + 4096);
        ::syscall(SYS_rt_sigqueueinfo, ::getpid(), SIGBUS, &info);
        std::_Exit(0);
      },
      testing::ExitedWithCode(10), "the disk");
}
#endif

TEST(MappedFileDeathTest, ABusErrorElsewhereIsNotTheFiles) {
  const Folder folder;
  const std::string path = folder.write("data.gsd", pattern_bytes());
  EXPECT_EXIT(
      {
        MappedFile file;
        if (!map_file(path.c_str(), &file)) {
          std::_Exit(1);
        }
        guard_mapped_file(guard_of(file));
        std::raise(SIGBUS);
        std::_Exit(0);
      },
      testing::KilledBySignal(SIGBUS), "");
}

TEST(MappedFileDeathTest, AChangeEndsByNameWhereItIsLookedFor) {
  const Folder folder;
  const std::string path = folder.write("data.gsd", pattern_bytes());
  check_guarded_file();
  EXPECT_EXIT(
      {
        MappedFile file;
        if (!map_file(path.c_str(), &file)) {
          std::_Exit(1);
        }
        guard_mapped_file(guard_of(file));
        check_guarded_file();
        std::ofstream(path, std::ios::app) << "more";
        check_guarded_file();
        std::_Exit(0);
      },
      testing::ExitedWithCode(4), "reason=\"changed\"");
}

}  // namespace
}  // namespace gradstream
