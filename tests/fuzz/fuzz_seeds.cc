// Writes the first inputs of the fuzz targets into FOLDER/{frame,client,coordinator,config,gsn}.
// Usage: fuzz_seeds FOLDER
// What fuzzing finds beyond them is added by tools/fuzz.py --merge.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "runtime/wire/codec.h"
#include "runtime/wire/frame.h"
#include "tests/fuzz/fuzz_client.h"
#include "tests/fuzz/fuzz_coordinator.h"
#include "tests/support/gsn_bytes.h"

namespace gradstream::testing {
namespace {

using Bytes = std::vector<uint8_t>;

bool write_file(const std::filesystem::path& path, const Bytes& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return out.good();
}

template <typename Message>
void append_frame(const Message& message, Bytes& out) {
  uint8_t frame[kFrameSizeMax];
  const Result<size_t> size = encode_frame(message, frame);
  if (size.ok()) {
    out.insert(out.end(), frame, frame + size.value());
  }
}

// ---- One message of each kind ----

std::vector<DeviceMessage> device_messages() {
  std::vector<DeviceMessage> all;
  for (pb_size_t tag = gs_DeviceMessage_hello_tag; tag <= gs_DeviceMessage_status_report_tag; ++tag) {
    DeviceMessage message = {};
    message.which_body = tag;
    all.push_back(message);
  }
  gs_Hello& hello = all[0].body.hello;
  hello.protocol_version = kProtocolVersion;
  std::strcpy(hello.firmware_version, "1.0");
  hello.has_capabilities = true;
  hello.capabilities.manifolds = 15;
  hello.capabilities.problems_count = 2;
  std::strcpy(hello.capabilities.problems[0], "kpca");
  hello.sample_count = 200;
  gs_UpdateScalars& scalars = all[2].body.update_scalars;
  scalars.task_sequence = 1;
  scalars.base_version = 2;
  scalars.steps_done = 2;
  scalars.direction_count = 4;
  scalars.encoding = gs_Encoding_ENCODING_INT8;
  scalars.value_count = 8;
  scalars.values.size = 10;
  gs_UpdateTangent& tangent = all[3].body.update_tangent;
  tangent.task_sequence = 1;
  tangent.base_version = 2;
  tangent.steps_done = 2;
  tangent.encoding = gs_Encoding_ENCODING_BF16;
  tangent.value_count = 12;
  tangent.values.size = 24;
  all[4].body.task_refused = {1, gs_Reason_REASON_PRIVACY, 0, 1, 8, 65535, gs_Floor_FLOOR_BATCH_SIZE};
  all[5].body.status_report.uptime_s = 77;
  return all;
}

std::vector<ServerMessage> server_messages() {
  std::vector<ServerMessage> all;
  for (pb_size_t tag = gs_ServerMessage_welcome_tag; tag <= gs_ServerMessage_drain_tag; ++tag) {
    ServerMessage message = {};
    message.which_body = tag;
    all.push_back(message);
  }
  gs_Welcome& welcome = all[0].body.welcome;
  welcome.run = 1;
  welcome.run_state = gs_RunState_RUN_STATE_ACTIVE;
  welcome.manifold = gs_Manifold_MANIFOLD_STIEFEL;
  welcome.rows = 6;
  welcome.cols = 2;
  gs_Task& task = all[1].body.task;
  task.task_sequence = 3;
  task.solver = gs_Solver_SOLVER_PROJECTION;
  task.step_size = 0.1F;
  std::strcpy(task.problem, "kpca");
  gs_LogChunk& log = all[2].body.log_chunk;
  log.version = 4;
  log.block_count = 1;
  log.base_version = 3;
  log.value_count = 8;
  log.encoding = gs_Encoding_ENCODING_F32;
  log.values.size = 32;
  gs_SnapshotChunk& snapshot = all[3].body.snapshot_chunk;
  snapshot.part = gs_ModelPart_MODEL_PART_MODEL;
  snapshot.total = 48;
  snapshot.values.size = 48;
  all[4].body.ack.task_sequence = 3;
  all[4].body.ack.verdict = gs_Verdict_VERDICT_FOLDED;
  all[4].body.ack.has_retry = true;
  all[4].body.ack.retry = {200, 1000};
  all[5].body.wait.cause = gs_WaitCause_WAIT_CAUSE_ANSWERED;
  all[6].body.refuse.reason = gs_Reason_REASON_REVOKED;
  return all;
}

bool write_frames(const std::filesystem::path& folder) {
  Bytes stream = {6};  // pieces of 7 bytes
  bool is_good = true;
  int number = 0;
  const auto add = [&](const auto& message) {
    Bytes one = {0};
    append_frame(message, one);
    append_frame(message, stream);
    is_good = write_file(folder / ("message" + std::to_string(number++)), one) && is_good;
  };
  for (const DeviceMessage& message : device_messages()) {
    add(message);
  }
  for (const ServerMessage& message : server_messages()) {
    add(message);
  }
  stream.insert(stream.end(), {'G', 'S', 0xff, 0xff, 'G', 'G', 'S', 1, 0, 0x12, 'G'});  // false prefixes
  return write_file(folder / "stream", stream) && is_good;
}

// ---- Moves ----

struct Script {
  const char* name;
  Bytes bytes;
};

template <typename Move>
class Moves {
 public:
  explicit Moves(std::initializer_list<uint8_t> configuration) : bytes_(configuration) {}
  Moves& move(Move move, std::initializer_list<uint8_t> arguments = {}) {
    bytes_.push_back(static_cast<uint8_t>(move));
    bytes_.insert(bytes_.end(), arguments);
    return *this;
  }
  // The last `count` bytes again and again.
  Moves& repeat(size_t count, int times) {
    const Bytes last(bytes_.end() - static_cast<ptrdiff_t>(count), bytes_.end());
    for (int i = 1; i < times; ++i) {
      bytes_.insert(bytes_.end(), last.begin(), last.end());
    }
    return *this;
  }
  Bytes bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

std::vector<Script> client_scripts() {
  using enum ClientMove;
  using Client = Moves<ClientMove>;
  std::vector<Script> all;
  const char* const names[] = {"train_f32", "train_bf16", "train_int8", "train_tangent", "train_uart", "train_storage"};
  const uint8_t configurations[] = {0, 8, 16, 1, 2, 4};
  for (size_t i = 0; i < sizeof(configurations); ++i) {
    all.push_back({names[i], Client({configurations[i]}).move(kPoll).move(kAnswer, {0}).repeat(2, 12).bytes()});
  }
  all.push_back({"restart", Client({4})
                                .move(kPoll)
                                .move(kAnswer, {0})
                                .repeat(2, 4)
                                .move(kRestart, {0})
                                .move(kPoll)
                                .move(kAnswer, {0})
                                .repeat(2, 4)
                                .move(kRestart, {1, 30, 0, 0, 0})
                                .move(kPoll)
                                .move(kAnswer, {0})
                                .repeat(2, 3)
                                .bytes()});
  all.push_back({"repair", Client({0})
                               .move(kPoll)
                               .move(kAnswer, {0})
                               .repeat(2, 3)
                               .move(kFlipModel, {9, 0, 0, 0})
                               .move(kPoll)
                               .move(kAnswer, {0})
                               .repeat(2, 4)
                               .bytes()});
  all.push_back({"lost_link", Client({0})
                                  .move(kPoll)
                                  .move(kAnswer, {0})
                                  .move(kLoseLink)
                                  .move(kTime, {14})
                                  .move(kPoll)
                                  .move(kAnswer, {0})
                                  .repeat(2, 3)
                                  .move(kMalformed)
                                  .move(kTime, {14})
                                  .move(kPoll)
                                  .move(kAnswer, {0})
                                  .bytes()});
  all.push_back({"refused", Client({0})
                                .move(kPoll)
                                .move(kAnswer, {0})
                                .move(kTask, {3, 7})
                                .move(kRefuse, {0})
                                .move(kTime, {14})
                                .move(kPoll)
                                .move(kAnswer, {4, 3})
                                .move(kDrain, {0})
                                .bytes()});
  all.push_back({"waits", Client({2})
                              .move(kPoll)
                              .move(kAnswer, {0})
                              .move(kWait, {0})
                              .move(kTime, {8})
                              .move(kPoll)
                              .move(kAnswer, {5, 1})
                              .move(kAnswer, {0})
                              .bytes()});
  return all;
}

constexpr uint8_t kFast = 32;  // a disk that stores at once

std::vector<Script> coordinator_round_scripts() {
  using enum CoordinatorMove;
  using Server = Moves<CoordinatorMove>;
  std::vector<Script> all;
  const char* const names[] = {"rounds_f32",    "rounds_bf16",  "rounds_int8", "rounds_tangent",
                               "rounds_groups", "rounds_large", "rounds_own",  "rounds_goal"};
  const uint8_t first[] = {32, 37, 42, 16, 64, 160, 0, 32};
  for (size_t i = 0; i < sizeof(first); ++i) {
    const uint8_t second = static_cast<uint8_t>(kFast | (i == 7 ? 7 : 0));
    all.push_back({names[i], Server({first[i], second}).move(kRound).repeat(1, 6).move(kCrash).move(kRound).bytes()});
  }
  return all;
}

std::vector<Script> coordinator_fault_scripts() {
  using enum CoordinatorMove;
  using Server = Moves<CoordinatorMove>;
  std::vector<Script> all;
  all.push_back({"slow_disk", Server({32, 0})
                                  .move(kPersist, {9})
                                  .move(kHello, {0, 0})
                                  .move(kPull, {0, 0})
                                  .move(kPersist, {0})
                                  .move(kUpload, {0, 0, 0})
                                  .move(kResend, {0})
                                  .move(kPersist, {0})
                                  .move(kCrash)
                                  .move(kRound)
                                  .repeat(1, 3)
                                  .bytes()});
  all.push_back({"duplicates", Server({32, kFast})
                                   .move(kHello, {0, 0})
                                   .move(kPull, {0, 0})
                                   .move(kUpload, {0, 0, 0})
                                   .move(kResend, {0})
                                   .repeat(2, 3)
                                   .move(kRound)
                                   .bytes()});
  all.push_back({"late", Server({32, kFast | 7})
                             .move(kHello, {3, 0})
                             .move(kPull, {3, 0})
                             .move(kRound)
                             .move(kUpload, {3, 1, 0})
                             .move(kTime, {14})
                             .repeat(2, 4)
                             .move(kRound)
                             .bytes()});
  all.push_back({"partial", Server({32, kFast | 7})
                                .move(kHello, {1, 0})
                                .move(kPull, {1, 0})
                                .move(kUpload, {1, 1, 0})
                                .move(kHello, {2, 0})
                                .move(kPull, {2, 0})
                                .move(kUpload, {2, 4, 0})
                                .move(kTime, {13})
                                .move(kRound)
                                .bytes()});
  return all;
}

std::vector<Script> coordinator_operator_scripts() {
  using enum CoordinatorMove;
  using Server = Moves<CoordinatorMove>;
  std::vector<Script> all;
  all.push_back({"storage", Server({32, 0})
                                .move(kPersist, {9})
                                .move(kRound)
                                .move(kStorage)
                                .move(kHello, {0, 0})
                                .move(kPull, {0, 0})
                                .move(kUpload, {0, 0, 0})
                                .move(kStorage)
                                .move(kRound)
                                .bytes()});
  all.push_back({"operator", Server({32, kFast})
                                 .move(kRound)
                                 .move(kAdd)
                                 .move(kRound)
                                 .move(kRevoke, {1})
                                 .move(kRound)
                                 .move(kConnect, {2})
                                 .move(kHello, {2, 0})
                                 .move(kStop)
                                 .move(kRound)
                                 .bytes()});
  all.push_back({"spoilt", Server({32, kFast})
                               .move(kHello, {0, 0})
                               .move(kPull, {0, 0})
                               .move(kUpload, {0, 12, 2, 3})
                               .move(kPull, {0, 1, 5})
                               .move(kHello, {1, 5, 1})
                               .move(kRefuse, {1, 0})
                               .move(kRaw, {2, 3, 18, 1, 0})
                               .move(kStatus, {2})
                               .move(kClose, {0})
                               .bytes()});
  all.push_back({"flood", Server({32, 0})
                              .move(kPersist, {9})
                              .move(kHello, {0, 0})
                              .move(kPull, {0, 0})
                              .move(kFlood, {0, 1})
                              .move(kFlood, {1, 0})
                              .move(kPersist, {9})
                              .bytes()});
  return all;
}

bool write_scripts(const std::filesystem::path& folder, const std::vector<Script>& scripts) {
  bool is_good = true;
  for (const Script& script : scripts) {
    is_good = write_file(folder / script.name, script.bytes) && is_good;
  }
  return is_good;
}

// The first byte chooses where the text stands: fuzz_config.cc.
constexpr uint8_t kOverride = 0;
constexpr uint8_t kVariable = 1;
constexpr uint8_t kFile = 2;

struct Text {
  const char* name;
  uint8_t place;
  const char* text;
};

constexpr Text kTexts[] = {
    {"whole", kFile,
     "[server]\nlisten = \"127.0.0.1:0\"\nlog_level = 'debug'\nallow_psk_ke = true\n[server.limits]\nio_threads = 2\n"
     "[run]\nname = \"t\"\nrows = 8\ncols = 2\nproblem = \"kpca\"\ndevice_count = 2\nstep_size = 1.5e-2\n"
     "update_goal = \"all\"\n[demo]\nx = [1, 2.5]\n"},
    {"product", kFile,
     "[run]\nname = \"t\"\nmanifold = \"product\"\nparts = [\"stiefel 16x2\", \"euclidean 10x1\"]\n"
     "problem = \"own\"\ndevice_count = 2\n"},
    {"dotted", kFile, "run.name = \"t\"\nrun.rows = 8\nserver.limits.store_delay_ms = 1\n"},
    {"inline", kFile, "run = {name = \"t\", rows = 0x8, cols = 1_0, parts.x = [{a = 1}, {b.c = true}]}\n[[demo.x]]\n"},
    {"values", kFile,
     "[demo]\na = 1979-05-27 07:32:00.5\nb = 07:32:00\nc = 1979-05-27T07:32:00-07:00\nd = -inf\ne = nan\nf = 0o7\n"
     "g = \"\"\"x\\\n  y\\u00e4\"\"\"\nh = '''z'''''\ni = \"\\t\\\"\"\n"},
    {"windows", kFile, "\xef\xbb\xbf[run]\r\nrows = 8 # \xc3\xa4\r\n"},
    {"begins_wrong", kFile, "[.server]\n"},
    {"half_a_time", kFile, "x = 2020-01-01 1\n"},
    {"nothing_closed", kFile, "x = [}]\n"},
    {"letter", kFile, "[\xc3\xa4]\n"},
    {"wrong_section", kFile, "[server]\nrows = 8\n[limits]\nio_threads = 1\n"},
    {"override", kOverride, "run.step_size=0.1"},
    {"override_word", kOverride, "server.database=a b.db"},
    {"override_empty", kOverride, "server.http_listen="},
    {"override_list", kOverride, "run.parts=[\"sphere 5x1\"]"},
    {"variable", kVariable, "GRADSTREAM_RUN_SEED=5"},
    {"variable_service", kVariable, "GRADSTREAM_SERVER_PORT_7433_TCP_ADDR=10.0.0.5"},
    {"variable_unknown", kVariable, "GRADSTREAM_RUN_SEDE=5"},
};

bool write_texts(const std::filesystem::path& folder) {
  bool is_good = true;
  for (const Text& text : kTexts) {
    Bytes bytes = {text.place};
    bytes.insert(bytes.end(), text.text, text.text + std::strlen(text.text));
    is_good = write_file(folder / text.name, bytes) && is_good;
  }
  return is_good;
}

// ---- Networks: fuzz_gsn.cc ----

bool write_networks(const std::filesystem::path& folder) {
  const SmallNetwork small;
  const auto write = [&](const char* name, uint8_t first, const Bytes& file) {
    Bytes bytes = {first};
    bytes.insert(bytes.end(), file.begin(), file.end());
    return write_file(folder / name, bytes);
  };
  Bytes file = gsn_bytes(small.network);
  bool is_good = write("every_kind", 0, file) && write("checksum", 1, file);
  file.resize(file.size() + 64, 0xff);
  is_good = write("flash_page", 0, file) && is_good;
  Network part = small.network;
  part.layers = small.layers.data() + 10;  // a head alone
  part.layer_count = 1;
  part.in = part.layers[0].in;
  is_good = write("head", 0, gsn_bytes(part)) && is_good;
  part.layers = small.layers.data() + 4;  // two pools, frozen
  part.layer_count = 2;
  part.in = part.layers[0].in;
  part.loss = NetworkLoss::kSquaredError;
  is_good = write("pools", 0, gsn_bytes(part)) && is_good;
  part.layers = small.layers.data() + 7;  // int8, factored
  part.layer_count = 3;
  part.in = part.layers[0].in;
  part.loss = NetworkLoss::kLogistic;
  return write("factored", 0, gsn_bytes(part)) && is_good;
}

}  // namespace
}  // namespace gradstream::testing

int main(int argc, char** argv) {
  using namespace gradstream::testing;  // NOLINT: the one function outside
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz_seeds FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  const bool is_good = write_frames(folder / "frame") && write_scripts(folder / "client", client_scripts()) &&
                       write_scripts(folder / "coordinator", coordinator_round_scripts()) &&
                       write_scripts(folder / "coordinator", coordinator_fault_scripts()) &&
                       write_scripts(folder / "coordinator", coordinator_operator_scripts()) &&
                       write_texts(folder / "config") && write_networks(folder / "gsn");
  return is_good ? 0 : 1;
}
