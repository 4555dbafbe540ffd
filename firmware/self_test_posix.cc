// gradstream-selftest: the self-test of a Linux machine, and what tells the answer to a nonce.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <self_test_sources.h>  // made by tools/source_digest.py

#include "firmware/self_test.h"
#include "runtime/link/port.h"

namespace {

using gradstream::SelfTestMemory;

void write_line(const char* line) { std::puts(line); }

int run_test(uint32_t nonce) {
  gradstream::SelfTestBoard board;
  board.name = "posix";
  board.version = GS_VERSION;
  board.sources = GS_SOURCES_DIGEST;
  board.entropy = {"kernel", gradstream::port_random_bytes};
  board.feed = [] {};
  board.now_ms = gradstream::port_now_ms;
  board.log = write_line;
  static SelfTestMemory memory;
  gradstream::run_self_test(board, nonce, &memory);
  return 0;
}

// The digest of the parts, and the answer to the nonce: what a report must say.
int tell_answers(uint32_t nonce) {
  static SelfTestMemory memory;
  gradstream::hash_device_parts(memory.work, [] {});
  std::printf("digest %016llx\nchallenge %016llx\n", static_cast<unsigned long long>(memory.work.total()),
              static_cast<unsigned long long>(gradstream::challenge_hash(memory.work, nonce)));
  return 0;
}

}  // namespace

int main(int count, char** words) {
  constexpr std::string_view kUsage =
      "usage: gradstream-selftest [--answer] [NONCE]\n\n"
      "The self-test of this machine as a report (docs/how-to/report.md). NONCE: a number below 10^9 that the reader\n"
      "of the report chose. --answer: only the digest and the answer to the nonce, as a report of any board has "
      "them.\n";
  const bool is_answer = count > 1 && std::strcmp(words[1], "--answer") == 0;
  uint32_t nonce = 0;
  const int first = is_answer ? 2 : 1;
  if (count > first) {
    const std::string_view text = words[first];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), nonce);
    if (count > first + 1 || error != std::errc{} || end != text.data() + text.size() || nonce >= 1000000000) {
      std::fputs(kUsage.data(), stderr);
      return text == "--help" ? 0 : 2;
    }
  }
  return is_answer ? tell_answers(nonce) : run_test(nonce);
}
